"""One run over a corpus: blocks read ahead, embedded, and written behind; finished shards are left as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.corpora.blocks import Block, cut_blocks, described
from ditto_fast.corpora.engines import Engine
from ditto_fast.corpora.overlap import ReadAhead, WriteBehind
from ditto_fast.corpora.progress import Progress
from ditto_fast.corpora.rows import Row, RowReader
from ditto_fast.corpora.settings import Settings
from ditto_fast.corpora.shards import (
    Shard,
    check_finished,
    find_shards,
    read_shard,
    remove_shards,
    shard_path,
    write_shard,
)
from ditto_fast.errors import DataError, NonFiniteError, ResumeError
from ditto_fast.pooling import normalize
from ditto_fast.quantization import quantize_embeddings

_LISTED = 100  # bad rows that a summary names; it counts all


@dataclass(frozen=True)
class Summary:
    """What was done.

    Args:
        output: The folder or file.
        rows: Rows of the input, which are those of the output.
        shards: Shards they were computed in.
        resumed_rows: Rows that an earlier run had finished.
        nulls: Rows without embedding.
        bad_rows: The first of them: file, row (from 1) and problem.
        tokens: Tokens that were computed; of equal texts in a shard one is.
        seconds: Time for the rows that were not there already.
        rows_per_second: Those rows over it.
        tokens_per_second: Tokens over it.
    """

    output: str
    rows: int
    shards: int
    resumed_rows: int
    nulls: int
    bad_rows: list[dict[str, Any]]
    tokens: int
    seconds: float
    rows_per_second: float
    tokens_per_second: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


class Run:
    """Embeds the rows of a reader into a folder of shards.

    Args:
        engine: Computes the embeddings.
        settings: What the shards depend on.
        folder: Where they go.
        on_error: What becomes of bad rows: "raise" or "null".
        force: Write shards again that were made from other rows.
        progress: Is told what is done.
    """

    def __init__(
        self, engine: Engine, settings: Settings, folder: Path, on_error: str, force: bool, progress: Progress
    ) -> None:
        self._engine = engine
        self._force = force
        self._settings = settings
        self._folder = folder
        self._on_error = on_error
        self._progress = progress
        self._resumed_rows = 0
        self._bad: list[Row] = []
        self._rows = self._nulls = 0
        self.shards: list[Path] = []
        self.digests: list[str] = []  # of the rows of each shard

    def __call__(self, reader: RowReader) -> None:
        """Reads, embeds and writes all rows.

        Raises:
            DataError: A row is bad, or an input broken.
            NonFiniteError: An embedding has NaN or infinity.
            OutputError: A shard cannot be written.
            ResumeError: A finished shard is of other rows or settings.
        """
        with ReadAhead(self._blocks(reader)) as ahead, WriteBehind() as writing:
            missing = self._missing(ahead)
            for block, embeddings in self._engine.embed(missing, self._settings.prompt, self._progress.texts):
                writing.submit(self._write, block, embeddings)
                del block, embeddings  # or they would stay while the next block is embedded
            writing.wait()
        extra = find_shards(self._folder)[len(self.shards) :]
        if extra and not self._force:
            raise ResumeError(
                f"{extra[0]} holds rows past the input's last: the input was changed. Name another output, or --force."
            )
        remove_shards(extra)

    def _blocks(self, reader: RowReader) -> Iterator[Block]:
        settings = self._settings
        return cut_blocks(reader, settings.shard_rows, settings.id_column is not None, self._on_error)

    def compare(self, reader: RowReader, digests: Sequence[str]) -> bool:
        """Whether the rows are those that a finished file was made from."""
        return [block.digest for block in self._blocks(reader)] == list(digests)

    def _missing(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The blocks that have no shard yet."""
        for block in blocks:
            self._progress.read(block.end_row, block.position)
            self._rows = block.end_row
            path = shard_path(self._folder, block.number)
            self.shards.append(path)
            self.digests.append(block.digest)
            shard = self._finished(path, block)
            if shard is None:
                yield block
                continue
            self._resumed_rows += len(block)
            self._progress.skip(len(block))
            self._note_bad(block, shard.not_finite)

    def _finished(self, path: Path, block: Block) -> Shard | None:
        """The shard of a block, if an earlier run has written it."""
        if not path.exists():
            return None
        try:
            shard = read_shard(path)
            check_finished(shard, block, self._settings)
        except (DataError, ResumeError):
            if self._force:
                return None
            raise
        return shard

    def _write(self, block: Block, embeddings: NDArray[np.float32]) -> None:
        settings = self._settings
        embeddings = embeddings[:, : settings.truncate_dim]
        finished = quantize_embeddings(normalize(embeddings) if settings.normalize else embeddings, settings.dtype)
        finite = np.isfinite(finished).all(axis=1)
        rows = np.array(block.valid, np.int64)
        not_finite = rows[~finite].tolist()
        if not_finite and self._on_error == "raise":
            first = block.origin(not_finite[0], f"its embedding in {settings.dtype} has NaN or infinity")
            raise NonFiniteError(
                f"{described(first)}, as have {len(not_finite)} of {len(block)} rows in this shard. Use an fp32 graph, "
                "float32 and --normalize, or pass --on-error null to go on with null embeddings there.",
                [block.first_row + row for row in not_finite],
            )
        if not_finite:
            finished, rows = finished[finite], rows[finite]
        write_shard(self._folder, block, finished, rows, not_finite, settings)
        self._progress.block(len(block))
        self._note_bad(block, not_finite)

    def _note_bad(self, block: Block, not_finite: list[int]) -> None:
        late = [block.origin(row, f"its embedding in {self._settings.dtype} has NaN or infinity") for row in not_finite]
        self._nulls += len(block.bad) + len(late)
        self._bad += [*block.bad, *late][: _LISTED - len(self._bad)]

    def lasting(self) -> dict[str, Any]:
        """What is true of the output, whoever has made it: the same for the same rows and settings."""
        bad = [{"file": row.source, "row": row.number, "problem": row.problem} for row in self._bad]
        return {"rows": self._rows, "shards": len(self.shards), "nulls": self._nulls, "bad_rows": bad}

    def summary(self, output: str, lasting: dict[str, Any], resumed_rows: int | None = None) -> Summary:
        """What was done, with what `lasting` gives; all rows are resumed where an earlier run has done everything."""
        progress = self._progress
        return Summary(
            output=output,
            **lasting,
            resumed_rows=self._resumed_rows if resumed_rows is None else resumed_rows,
            tokens=progress.tokens,
            seconds=progress.seconds,
            rows_per_second=progress.rows / progress.seconds,
            tokens_per_second=progress.tokens / progress.seconds,
        )
