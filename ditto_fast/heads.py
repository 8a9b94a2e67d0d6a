"""Attention heads as the paper writes them, and THE table of the paper's models."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ditto_fast.errors import HeadError


@dataclass(frozen=True, order=True)
class Head:
    """One attention head, counted from 1, layer first, as in the paper.

    Args:
        layer: Layer number, 1 to the number of layers.
        number: Head number within the layer, 1 to the number of heads.

    Example:
        >>> head = Head.parse("1-10")
        >>> head.layer, head.number, str(head)
        (1, 10, '1-10')
    """

    layer: int
    number: int

    def __str__(self) -> str:
        return f"{self.layer}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Reads "L-H".

        Raises:
            HeadError: The text has another form, or a number is 0.
        """
        match = re.fullmatch(r"([1-9][0-9]*)-([1-9][0-9]*)", text.strip())
        if match is None:
            raise HeadError(
                f"A head is written LAYER-HEAD, both counted from 1, such as 1-10; got {text!r}. "
                "(Layer index 0, head index 9 of attentions[0][:, 9] is 1-10.)"
            )
        return cls(int(match[1]), int(match[2]))

    def check(self, num_layers: int, num_heads: int) -> None:
        """Checks that a model of this size has the head.

        Raises:
            HeadError: It does not; the message gives the range.
        """
        if not (1 <= self.layer <= num_layers and 1 <= self.number <= num_heads):
            raise HeadError(
                f"Head {self} is out of range: this model has layers 1 to {num_layers} "
                f"with heads 1 to {num_heads}, so 1-1 to {num_layers}-{num_heads}."
            )


@dataclass(frozen=True)
class PaperModel:
    """A checkpoint of the paper's tables.

    Args:
        name: Short name.
        model_id: Hub id.
        head: The head that the authors chose for it on STS-B dev; None for a baseline, which has none.
    """

    name: str
    model_id: str
    head: Head | None = None


PAPER_MODELS: dict[str, PaperModel] = {
    model.name: model
    for model in (
        PaperModel("bert-base", "bert-base-uncased", Head(1, 10)),
        PaperModel("roberta-base", "roberta-base", Head(1, 5)),
        PaperModel("electra-base", "google/electra-base-discriminator", Head(1, 11)),
        PaperModel("sbert-base", "sentence-transformers/bert-base-nli-stsb-mean-tokens", Head(3, 7)),
        PaperModel("sbert-nli-base", "sentence-transformers/bert-base-nli-mean-tokens"),
        PaperModel("simcse-unsup-bert-base", "princeton-nlp/unsup-simcse-bert-base-uncased"),
        PaperModel("simcse-sup-bert-base", "princeton-nlp/sup-simcse-bert-base-uncased"),
        PaperModel("simcse-unsup-roberta-base", "princeton-nlp/unsup-simcse-roberta-base"),
        PaperModel("simcse-sup-roberta-base", "princeton-nlp/sup-simcse-roberta-base"),
    )
}


def resolve_head(model: str, head: str | Head | None) -> Head:
    """Returns the head asked for, or the paper's head where `model` is one of its checkpoints.

    Args:
        model: A short name, a hub id or a folder.
        head: "L-H", a `Head`, or None for the paper's.

    Raises:
        HeadError: No head was given and the paper names none for this model.

    Example:
        >>> resolve_head("bert-base", None)
        Head(layer=1, number=10)
    """
    if isinstance(head, Head):
        return head
    if head is not None:
        return Head.parse(head)
    for paper_model in PAPER_MODELS.values():
        if model in (paper_model.name, paper_model.model_id) and paper_model.head is not None:
            return paper_model.head
    known = ", ".join(name for name, paper_model in PAPER_MODELS.items() if paper_model.head is not None)
    raise HeadError(
        f"No head given for {model!r}, and the paper names one only for {known}. "
        "Pass --head L-H (head='L-H'), which ditto-heads finds on a development set of yours."
    )
