"""What a precision costs where it counts: Spearman on the STS-B dev set, before and after."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import ModelNotFoundError, ParityError
from ditto_fast.export.checkpoint import Checkpoint
from ditto_fast.export.reference import eager_outputs
from ditto_fast.heads import Head
from ditto_fast.similarity import similarity_pairwise


@dataclass(frozen=True)
class SpearmanDrop:
    """Spearman x100 on STS-B dev of the eager fp32 model and of a graph file, and the drop allowed."""

    file: str
    eager: float
    exported: float
    max_drop: float

    def to_dict(self) -> dict[str, float | str]:
        """The report as the manifest keeps it."""
        return asdict(self)

    def check(self) -> None:
        """Passes a good report.

        Raises:
            ParityError: The graph loses more than allowed.
        """
        if not self.eager - self.exported <= self.max_drop:
            raise ParityError(
                f"{self.file}: STS-B dev Spearman falls from {self.eager:.2f} to {self.exported:.2f}, more than "
                f"{self.max_drop:g} points. Nothing was written. Choose another precision, or allow it with "
                "--max-spearman-drop."
            )


class StsBDev:
    """The STS-B dev set, and the eager model's score on it.

    Args:
        senteval: Folder that holds downstream/.
        checkpoint: The eager model.
        head: The head.

    Raises:
        ModelNotFoundError: The data is not there; the message names the file.
    """

    def __init__(self, senteval: Path, checkpoint: Checkpoint, head: Head) -> None:
        path = senteval / "downstream" / "STS" / "STSBenchmark" / "sts-dev.csv"
        if not path.is_file():
            raise ModelNotFoundError(f"{path} is missing; --senteval names the folder that holds downstream/.")
        rows = [line.strip().split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
        self._gold = [float(row[4]) for row in rows]
        self._sentences = [row[5] for row in rows] + [row[6] for row in rows]
        self._eager = self._score(self._eager_embeddings(checkpoint, head))

    def _eager_embeddings(self, checkpoint: Checkpoint, head: Head) -> NDArray[np.float32]:
        order = sorted(range(len(self._sentences)), key=lambda i: len(self._sentences[i]))
        embeddings: dict[int, NDArray[np.float32]] = {}
        for start in range(0, len(order), 64):
            numbers = order[start : start + 64]
            batch = checkpoint.tokenizer(
                [self._sentences[i] for i in numbers], padding=True, truncation=True, return_tensors="np"
            )
            rows = eager_outputs(checkpoint.model, batch, head)["sentence_embedding"]
            embeddings.update(zip(numbers, rows, strict=True))
        return np.stack([embeddings[i] for i in range(len(order))])

    def _score(self, embeddings: NDArray[np.float32]) -> float:
        first, second = np.split(embeddings, 2)
        return 100 * float(spearmanr(similarity_pairwise(first, second), self._gold).statistic)

    def compare(self, file: Path, max_drop: float) -> SpearmanDrop:
        """Scores a graph file of an export directory."""
        return SpearmanDrop(file.name, self._eager, self._score(FastEncoder(file).encode(self._sentences)), max_drop)
