"""Parity: the written file against the eager reference, output by output, before anyone uses it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.artifact import GRAPHS
from ditto_fast.batches import pad
from ditto_fast.errors import ParityError
from ditto_fast.export.reference import eager_outputs
from ditto_fast.heads import Head
from ditto_fast.session import open_session
from ditto_fast.tokenizer import Tokenizer
from ditto_fast.tolerances import TOLERANCES, difference

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


@dataclass(frozen=True)
class OutputParity:
    """How far one output lies from the reference.

    Args:
        max_abs: Largest absolute difference.
        max_relative: The same per unit of max(1, largest |reference|): what the tolerance bounds.
        worst_sentence: Number of the sentence in `SENTENCES` where it occurs.
    """

    max_abs: float
    max_relative: float
    worst_sentence: int


@dataclass(frozen=True)
class Parity:
    """The report of one graph file."""

    file: str
    sentences: int
    tolerance: float
    outputs: dict[str, OutputParity]

    @property
    def passed(self) -> bool:
        """Whether every output is within the tolerance; NaN is not."""
        return all(output.max_relative <= self.tolerance for output in self.outputs.values())

    def to_dict(self) -> dict[str, Any]:
        """The report as the manifest keeps it."""
        return asdict(self)

    def check(self) -> None:
        """Passes a good report.

        Raises:
            ParityError: An output is out of tolerance; the message has the figures.
        """
        if self.passed:
            return
        figures = "; ".join(
            f"{name}: max abs {output.max_abs:.3g}, relative {output.max_relative:.3g}, worst on sentence "
            f"{output.worst_sentence} ({SENTENCES[output.worst_sentence][:30]!r})"
            for name, output in self.outputs.items()
        )
        raise ParityError(
            f"{self.file} differs from the eager model by more than {self.tolerance:g}: {figures}. "
            "Nothing was written. Please report the model; --no-verify writes the file all the same."
        )


def _batches(tokenizer: Tokenizer, pad_token_id: int) -> list[tuple[list[int], NDArray[np.int64], NDArray[np.int64]]]:
    """Every sentence alone, then all but the longest in one padded batch: (numbers, input_ids, mask)."""
    token_ids = tokenizer(SENTENCES)
    groups = [[number] for number in range(len(SENTENCES))] + [list(range(len(SENTENCES) - 1))]
    return [(group, *pad([token_ids[number] for number in group], pad_token_id)) for group in groups]


def verify_graph(
    path: Path,
    kind: str,
    model: Any,
    head: Head,
    tokenizer: Tokenizer,
    pad_token_id: int,
    input_names: tuple[str, ...],
) -> Parity:
    """Runs `SENTENCES` through the file and through the eager model and compares every output by name.

    Args:
        path: The .onnx file.
        kind: Its kind, a key of `ditto_fast.artifact.GRAPHS`.
        model: The eager model.
        head: The head.
        tokenizer: Tokenizer of the export.
        pad_token_id: Id that pads the batch.
        input_names: Inputs of the graph.
    """
    session = open_session(path, "cpu", num_threads=0)
    names = list(GRAPHS[kind][1])
    worst = {name: OutputParity(0.0, 0.0, 0) for name in names}
    for numbers, input_ids, mask in _batches(tokenizer, pad_token_id):
        feeds = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
        feeds = {name: feeds[name] for name in input_names}
        expected = eager_outputs(model, feeds, head)
        for name, actual in zip(names, session.run(names, feeds), strict=True):
            for row, number in enumerate(numbers):
                # what a graph leaves in the hidden states of padding is nobody's business
                tokens = mask[row] > 0 if name.endswith("hidden_state") else slice(None)
                parity = _compare(actual[row][tokens], expected[name][row][tokens], number)
                worst[name] = max(worst[name], parity, key=_badness)
    return Parity(path.name, len(SENTENCES), TOLERANCES["fp32"], worst)


def _compare(actual: NDArray[np.float32], expected: NDArray[np.float32], number: int) -> OutputParity:
    relative = difference(actual, expected)
    return OutputParity(float(np.abs(actual - expected).max(initial=0)), relative, number)


def _badness(parity: OutputParity) -> float:
    """Orders by relative difference, NaN last, which is worst."""
    return math.inf if math.isnan(parity.max_relative) else parity.max_relative
