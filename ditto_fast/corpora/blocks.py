"""Rows cut into the blocks that become shards: the same rows always give the same blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ditto_fast.corpora.rows import Id, Row, RowReader
from ditto_fast.errors import DataError

# Characters of a block at most, so that long texts do not fill the memory; a block of usual ones has far fewer.
MAX_CHARACTERS = 1 << 24


class Block:
    """Some rows that follow one another.

    Args:
        number: From 0.
        first_row: Row of the whole input that is its first, from 0.

    Attributes:
        ids: Of the id column; row numbers where there is none; None where it is bad.
        texts: None for bad rows.
        bad: The bad rows.
        characters: Of all texts.
        position: Bytes of the input that have been read at the block's end.
        id_type: Type of all ids, in this block and others.
    """

    def __init__(self, number: int, first_row: int) -> None:
        self.number = number
        self.first_row = first_row
        self.ids: list[Id | None] = []
        self.texts: list[str | None] = []
        self.bad: list[Row] = []
        self.characters = 0
        self.position = 0
        self.id_type: type = int
        self._origins: list[tuple[int, str, int]] = []  # position here, file, row there: where a file begins
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, row: Row, identifier: Id | None) -> None:
        """Appends a row."""
        if not self._origins or self._origins[-1][1] != row.source or row.number == 1:
            self._origins.append((len(self), row.source, row.number))
        if row.problem is not None:
            self.bad.append(row)
        self.ids.append(identifier)
        self.texts.append(row.text)
        self.characters += len(row.text or "")
        for value in (identifier, row.text):
            content = b"" if value is None else str(value).encode("utf-8")
            self._digest.update(b"%d:%d:" % (value is not None, len(content)))
            self._digest.update(content)

    @property
    def end_row(self) -> int:
        """First row of the whole input after it."""
        return self.first_row + len(self)

    @property
    def digest(self) -> str:
        """SHA-256 of ids and texts, hexadecimal."""
        return self._digest.hexdigest()

    @property
    def valid(self) -> list[int]:
        """Positions of the rows that have a text."""
        return [i for i, text in enumerate(self.texts) if text is not None]

    def origin(self, position: int, problem: str) -> Row:
        """The row at a position, as one that turned out to be bad."""
        start, source, number = next(origin for origin in reversed(self._origins) if origin[0] <= position)
        return Row(source, number + position - start, self.ids[position], None, problem)


def cut_blocks(reader: RowReader, size: int, with_id: bool, on_error: str) -> Iterator[Block]:
    """Yields blocks of `size` rows, of fewer where the texts are long; the last may be shorter.

    Args:
        reader: The rows.
        size: Rows of a block.
        with_id: Whether rows have ids.
        on_error: "raise", or "null" to keep a bad row with neither text nor embedding.

    Raises:
        DataError: A row is bad and `on_error` is "raise".
    """
    block = Block(0, 0)
    id_type: type | None = None
    for row in reader:
        if with_id and row.id is not None:
            id_type = id_type or type(row.id)
            if not isinstance(row.id, id_type):
                problem = f"the id is {type(row.id).__name__} {row.id!r}, expected {id_type.__name__} as before"
                row = Row(row.source, row.number, None, None, problem)
        if row.problem is not None and on_error == "raise":
            raise DataError(
                f"{described(row)}. Correct it, or pass --on-error null to go on with a null embedding there."
            )
        block.add(row, row.id if with_id else block.end_row)
        if len(block) == size or block.characters >= MAX_CHARACTERS:
            yield _ended(block, reader, id_type, with_id)
            block = Block(block.number + 1, block.end_row)
    if len(block):
        yield _ended(block, reader, id_type, with_id)
    elif block.number == 0:
        yield block


def _ended(block: Block, reader: RowReader, id_type: type | None, with_id: bool) -> Block:
    if with_id and id_type is None:  # shards of one output must agree on a type
        raise DataError(f"None of the first {block.end_row} rows has an id: {described(block.bad[0])}.")
    block.position = reader.position
    block.id_type = id_type or int
    return block


def described(row: Row) -> str:
    """A bad row in words."""
    return f"{row.source}, row {row.number}: {row.problem}"
