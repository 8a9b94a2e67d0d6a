"""Figures of other people's papers and repositories, each with its source: THE table of what is cited.

Spearman x100 in the "all" setting. None of them was measured here. Where no figure is known (the
Ditto rows of the paper itself are among those) there is no entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from ditto_fast.evaluation.poolers import AUTHORS

SOURCES = {
    "simcse": "SimCSE (Gao et al., 2021), tables 5 and C.1",
    "aw": "Doragd/Awesome-Sentence-Embedding",
    "pb": "PromptBERT's repository, kongds/Prompt-BERT",
}


@dataclass(frozen=True)
class Cited:
    """A cited row.

    Args:
        model: Short name of the checkpoint.
        pooler: Our name of its pooler.
        scores: STS12 to 16, STS-B, SICK-R, and the average as it was published.
        source: Key of `SOURCES`.
        differs: What is known to differ from ours, empty where nothing is.
    """

    model: str
    pooler: str
    scores: tuple[float, ...]
    source: str
    differs: str = ""


_POST = "first layer hidden_states[1], texts cut to 64 tokens"

CITED = (
    Cited("bert-base", "cls", (21.54, 32.11, 21.28, 37.89, 44.24, 20.30, 42.42, 31.40), "aw"),
    Cited("bert-base", "mean-last", (30.87, 59.89, 47.73, 60.29, 63.73, 47.29, 58.22, 52.57), "aw"),
    Cited("bert-base", "mean-first-last", (39.70, 59.38, 49.67, 66.03, 66.19, 53.87, 62.06, 56.70), "simcse"),
    Cited("bert-base", "static-remove-biases", (53.09, 66.48, 65.09, 69.80, 67.85, 61.60, 57.80, 63.10), "pb"),
    Cited("bert-base", "prompt", (60.96, 73.83, 62.18, 71.54, 68.68, 70.60, 67.16, 67.85), "pb"),
    Cited(
        "bert-base",
        "mean-first-last+flow",
        (53.15, 78.38, 66.02, 62.09, 70.84, 71.70, 61.97, 66.31),
        "simcse",
        _POST,
    ),
    Cited(
        "bert-base",
        "mean-first-last+whitening",
        (42.88, 77.77, 66.28, 63.60, 67.58, 71.34, 60.40, 64.26),
        "simcse",
        _POST,
    ),
    Cited("bert-base", "glove", (55.14, 70.66, 59.73, 68.25, 63.66, 58.02, 53.76, 61.32), "simcse"),
    Cited("roberta-base", "mean-last", (32.11, 56.33, 45.22, 61.34, 61.98, 54.53, 62.03, 53.36), "aw"),
    Cited("roberta-base", "mean-first-last", (40.88, 58.74, 49.07, 65.63, 61.48, 58.55, 61.63, 56.57), "simcse"),
    Cited("sbert-nli-base", "mean-last", (70.97, 76.53, 73.19, 79.09, 74.30, 77.03, 72.91, 74.89), "simcse"),
    Cited("simcse-unsup-bert-base", "cls", (68.40, 82.41, 74.38, 80.91, 78.56, 76.85, 72.23, 76.25), "simcse"),
    Cited("simcse-sup-bert-base", "cls-pooler", (75.30, 84.67, 80.19, 85.40, 80.82, 84.25, 80.39, 81.57), "simcse"),
    Cited("simcse-unsup-roberta-base", "cls", (70.16, 81.77, 73.24, 81.36, 80.65, 80.22, 68.56, 76.57), "simcse"),
    Cited("simcse-sup-roberta-base", "cls-pooler", (76.53, 85.21, 80.95, 86.03, 82.57, 85.83, 80.50, 82.52), "simcse"),
)


def cited(model: str, pooler: str) -> Cited | None:
    """The cited row of a checkpoint's short name and a pooler, None where there is none.

    Example:
        >>> cited("bert-base", "mean-last").source, cited("bert-base", "ditto-first-last")
        ('aw', None)
    """
    return next((row for row in CITED if (row.model, row.pooler) == (model, pooler)), None)


def paper_poolers(model: str, vectors: bool) -> list[str]:
    """The rows of the paper's table on a checkpoint: the authors' poolers, and the baselines that are cited.

    Args:
        model: Short name of the checkpoint.
        vectors: Whether a file of word vectors is at hand.
    """
    baselines = [row.pooler for row in CITED if row.model == model and (row.pooler != "glove" or vectors)]
    return list(dict.fromkeys((*AUTHORS, *baselines)))
