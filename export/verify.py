"""Parity: each written file against the eager reference, before anyone uses it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.artifact import GRAPHS
from ditto_fast.batches import graph_inputs, pad
from ditto_fast.errors import ParityError
from ditto_fast.export.checkpoint import Checkpoint
from ditto_fast.export.reference import eager_outputs
from ditto_fast.heads import Head
from ditto_fast.pooling import DEFAULT_POOLING, normalize, pool
from ditto_fast.session import open_session
from ditto_fast.similarity import similarity_pairwise
from ditto_fast.tokenizer import Tokenizer
from ditto_fast.tolerances import MAX_NORM_ERRORS, MIN_COSINES, TOLERANCES, difference, norm_error

# From one word to past most position tables, with what breaks tokenizers: an empty text, other scripts.
SENTENCES = (
    "",
    "Rain.",
    "The ferry left the harbour before sunrise.",
    "Who repaired the old piano in the school hall?",
    "Prices rose by 3.5 % in 2021 -- but wages didn't.",
    "Der Zug nach München fährt um 7:45 Uhr ab; 東京の天気は晴れです。",
    "A committee of teachers, parents and engineers met twice in the spring to decide whether the bridge "
    "should be closed to cars, and although they argued for hours nobody wanted to see it pulled down.",
    "word " * 700,
)

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class OutputParity:
    """How far one output lies from the reference.

    Args:
        max_abs: Largest absolute difference.
        max_relative: The same per unit of max(1, largest |reference|): what the tolerance bounds.
        worst_sentence: Number of the sentence where it occurs.
    """

    max_abs: float
    max_relative: float
    worst_sentence: int


@dataclass(frozen=True)
class Parity:
    """The report of one graph file.

    Args:
        file: Its name.
        sentences: How many sentences were compared.
        outputs: How far each output lies from the reference.
        tolerance: Largest `max_relative` allowed in fp32; None for other precisions.
        cosine_min: Smallest cosine of an embedding with the reference's.
        cosine_mean: Their mean.
        min_cosine: Smallest `cosine_min` allowed.
        norm_error: Largest share that the norm of an embedding is off, which no cosine sees.
        max_norm_error: Largest `norm_error` allowed.
    """

    file: str
    sentences: int
    outputs: dict[str, OutputParity]
    tolerance: float | None
    cosine_min: float
    cosine_mean: float
    min_cosine: float
    norm_error: float
    max_norm_error: float

    @property
    def passed(self) -> bool:
        """Whether all is within the limits; NaN is not."""
        within = self.tolerance is None or all(o.max_relative <= self.tolerance for o in self.outputs.values())
        return within and self.cosine_min >= self.min_cosine and self.norm_error <= self.max_norm_error

    def to_dict(self) -> dict[str, Any]:
        """The report as the manifest keeps it."""
        return asdict(self)

    def check(self, sentences: Sequence[str]) -> None:
        """Passes a good report.

        Raises:
            ParityError: Something is out of its limit; the message has the figures.
        """
        if self.passed:
            return
        figures = "; ".join(
            f"{name}: max abs {output.max_abs:.3g}, relative {output.max_relative:.3g}, worst on sentence "
            f"{output.worst_sentence} ({sentences[output.worst_sentence][:30]!r})"
            for name, output in self.outputs.items()
        )
        limits = [f"cosine below {self.min_cosine:g}", f"norm off by over {self.max_norm_error:g}"]
        if self.tolerance is not None:
            limits.insert(0, f"relative over {self.tolerance:g}")
        raise ParityError(
            f"{self.file} differs from the eager model ({' or '.join(limits)}): cosine min {self.cosine_min:.6f}, mean "
            f"{self.cosine_mean:.6f}, norm off by {self.norm_error:.3g}; {figures}. Not finite in fp16 means that the "
            "model overflows: use fp32 or int8. "
            "Nothing was written. --no-verify writes the file all the same."
        )


def verify_graph(
    path: Path,
    kind: str,
    precision: str,
    checkpoint: Checkpoint,
    head: Head,
    tokenizer: Tokenizer,
    unit_norm: bool,
    min_cosine: float | None = None,
    sentences: Sequence[str] = SENTENCES,
) -> Parity:
    """Runs sentences through the file and through the eager model and compares every output by name.

    Args:
        path: The .onnx file.
        kind: Its kind, a key of `ditto_fast.artifact.GRAPHS`.
        precision: Its precision.
        checkpoint: The eager model.
        head: The head.
        tokenizer: Tokenizer of the export.
        unit_norm: Whether the embedding graph divides by the L2 norm.
        min_cosine: Smallest cosine allowed; the precision's own of `MIN_COSINES` by default.
        sentences: What to compare on.
    """
    session = open_session(path, "cpu", num_threads=0)
    names = list(GRAPHS[kind][1])
    inputs = [node.name for node in session.get_inputs()]
    worst = {name: OutputParity(0.0, 0.0, 0) for name in names}
    cosines, norm_errors = [], []
    for numbers, input_ids, mask in _batches(tokenizer, checkpoint.tokenizer.pad_token_id, sentences):
        feeds = graph_inputs(input_ids, mask, inputs)
        expected = eager_outputs(checkpoint.model, feeds, head)
        if unit_norm and "sentence_embedding" in names:
            expected["sentence_embedding"] = normalize(expected["sentence_embedding"])
        actual = dict(zip(names, session.run(names, feeds), strict=True))
        embedding = _embedding(actual, mask)
        cosines.append(similarity_pairwise(embedding, expected["sentence_embedding"]))
        norm_errors.append(norm_error(embedding, expected["sentence_embedding"]))
        for name in sorted(expected.keys() & actual.keys()):
            for row, number in enumerate(numbers):
                # what a graph leaves in the hidden states of padding is nobody's business
                tokens = mask[row] > 0 if name.endswith("hidden_state") else slice(None)
                parity = _compare(actual[name][row][tokens], expected[name][row][tokens], number)
                worst[name] = max(worst[name], parity, key=_badness)
    everything = np.concatenate(cosines)
    least = MIN_COSINES[precision] if min_cosine is None else min_cosine
    return Parity(
        path.name,
        len(sentences),
        {name: parity for name, parity in worst.items() if name in expected},
        TOLERANCES["fp32"] if precision == "fp32" else None,
        float(everything.min()),
        float(everything.mean()),
        least,
        float(np.max(norm_errors)),  # NaN stays
        max(MAX_NORM_ERRORS[precision], 1 - least),  # whom a smaller cosine is enough allows as much in length
    )


def _batches(
    tokenizer: Tokenizer, pad_token_id: int, sentences: Sequence[str]
) -> list[tuple[list[int], NDArray[np.int64], NDArray[np.int64]]]:
    """Every sentence alone, then all but the last in one padded batch: (numbers, input_ids, mask)."""
    token_ids = tokenizer(sentences)
    groups = [[number] for number in range(len(sentences))]
    if len(sentences) > 2:
        groups.append(list(range(len(sentences) - 1)))
    return [(group, *pad([token_ids[number] for number in group], pad_token_id)) for group in groups]


def _embedding(outputs: Arrays, mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """The embedding (B, H) that a graph's outputs stand for, whatever its kind."""
    if "sentence_embedding" in outputs:
        embedding: NDArray[np.float32] = outputs["sentence_embedding"]
        return embedding
    diagonal = outputs.get("attention_diagonal")
    if diagonal is None:
        diagonal = _diagonal(outputs["query"], outputs["key"], mask)
    return pool(DEFAULT_POOLING, diagonal, outputs["first_hidden_state"], outputs["last_hidden_state"], mask)


def _diagonal(query: NDArray[Any], key: NDArray[Any], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """A_ii = 1 / sum_j exp(s_ij - s_ii) over the real tokens j, s = query . key: (B, T)."""
    scores = np.einsum("bid,bjd->bij", query.astype(np.float64), key.astype(np.float64))
    own = np.einsum("bid,bid->bi", query.astype(np.float64), key.astype(np.float64))
    ratios = np.exp(scores - own[:, :, None]) * mask[:, None, :]
    diagonal: NDArray[np.float32] = (mask / np.maximum(ratios.sum(axis=-1), 1e-300)).astype(np.float32)
    return diagonal


def _compare(actual: NDArray[np.float32], expected: NDArray[np.float32], number: int) -> OutputParity:
    relative = difference(actual, expected)
    return OutputParity(float(np.abs(actual - expected).max(initial=0)), relative, number)


def _badness(parity: OutputParity) -> float:
    """Orders by relative difference, NaN last, which is worst."""
    return math.inf if math.isnan(parity.max_relative) else parity.max_relative
