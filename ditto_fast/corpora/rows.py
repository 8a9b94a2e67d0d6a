"""Rows of files: an id and a text, or what is wrong with them; none is dropped and none shifted."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ditto_fast.corpora.arrow import import_pyarrow
from ditto_fast.corpora.sources import Opened, Source
from ditto_fast.errors import DataError
from ditto_fast.texts import describe

Id = int | str
_INT64 = 1 << 63
_BYTES_AT_ONCE = 1 << 23  # of a Parquet file
_CSV_CELL_LIMIT = (1 << 31) - 1  # the reader's own, 128 KB, is for the whole process
_CSV_OPEN_AT_END = "unexpected end of data"  # the reader's word for a quote that the file's end leaves open


class Row(NamedTuple):
    """One row of the input.

    Args:
        source: The file's path.
        number: Row of the file, from 1; a header is none.
        id: What the id column has, None where none is wanted or it is bad.
        text: The text, None where it is bad.
        problem: What is wrong, None where nothing is.
    """

    source: str
    number: int
    id: Id | None
    text: str | None
    problem: str | None


class Broken(NamedTuple):
    """Stands where a value should be, and says why it does not."""

    reason: str


# a row as a file has it: id and text, of any type
Raw = tuple[object, object]


class RowReader:
    """The rows of all sources, one after another.

    Args:
        sources: What to read.
        column: Column of the texts; text files have none.
        id_column: Column of the ids, None for none.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """

    def __init__(self, sources: Sequence[Source], column: str, id_column: str | None) -> None:
        import_pyarrow()
        plain = next((source.path for source in sources if source.format == "txt"), None)
        if plain is not None and id_column is not None:
            raise DataError(f"{plain} is a text file, which has no column {id_column!r}: leave out --id-column.")
        self._sources = sources
        self._columns = (column, id_column)
        self._before = 0  # bytes of the files already read
        self._opened: Opened | None = None

    @property
    def position(self) -> int:
        """Bytes read so far, compressed ones as they are on disk."""
        opened = self._opened
        return self._before + (opened.raw.tell() if opened is not None and opened.raw.seekable() else 0)

    def __iter__(self) -> Iterator[Row]:
        for source in self._sources:
            opened = self._opened = source.open()
            try:
                for number, raw in enumerate(READERS[source.format](opened, source.path, *self._columns), 1):
                    yield _checked(source.path, number, raw, with_id=self._columns[1] is not None)
            except (OSError, EOFError) as error:
                raise DataError(f"{source.path} cannot be read: {error}. Is it cut short?") from error
            finally:
                self._opened = None
                opened.close()
            self._before += source.size or 0


def _checked(source: str, number: int, raw: Raw, with_id: bool) -> Row:
    identifier, problem = _check_id(raw[0]) if with_id else (None, None)
    text, about_text = _check_text(raw[1])
    problem = about_text or problem
    return Row(source, number, identifier, None if problem else text, problem)


def _check_text(value: object) -> tuple[str | None, str | None]:
    if isinstance(value, bytes):
        value = _decoded(value)
    if isinstance(value, Broken):
        return None, value.reason
    if value is None:
        return None, "the text is null"
    if not isinstance(value, str):
        return None, f"the text is {describe(value)}, expected a string"
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            found = value[error.start]
            # what the csv reader decoded with surrogateescape
            why = "invalid UTF-8" if "\udc80" <= found <= "\udcff" else f"lone surrogate {found!r}"
            return None, f"{why} at character {error.start}"
    return value, None


def _check_id(value: object) -> tuple[Id | None, str | None]:
    if isinstance(value, bytes):
        value = _decoded(value)
    if isinstance(value, Broken):
        return None, value.reason
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None, "the id is null" if value is None else f"the id is {describe(value)}, expected a string or integer"
    if isinstance(value, int):
        return (value, None) if -_INT64 <= value < _INT64 else (None, f"the id {value} has more than 64 bits")
    return (value, None) if _check_text(value)[1] is None else (None, "the id is invalid UTF-8")


def _decoded(value: bytes) -> str | Broken:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        return Broken(f"invalid UTF-8 at byte {error.start}")


def _lines(opened: Opened) -> Iterator[bytes]:
    """Lines end with LF or CR LF and nothing else; a byte-order mark is none of the text."""
    for number, line in enumerate(opened.content):
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        yield line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line


def _txt(opened: Opened, path: str, column: str, id_column: str | None) -> Iterator[Raw]:  # noqa: ARG001
    return ((None, line) for line in _lines(opened))


def _jsonl(opened: Opened, path: str, column: str, id_column: str | None) -> Iterator[Raw]:  # noqa: ARG001
    for line in _lines(opened):
        record: Any
        try:
            record = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            record = Broken(f"invalid UTF-8 at byte {error.start}")
        except (ValueError, RecursionError) as error:
            record = Broken(f"no JSON ({error})" if line.strip() else "an empty line, expected a JSON object")
        if not isinstance(record, (dict, Broken)):
            record = Broken(f"{describe(record)}, expected a JSON object")
        yield _of_record(record, id_column), _of_record(record, column)


def _of_record(record: dict[str, object] | Broken, column: str | None) -> object:
    if isinstance(record, Broken) or column is None:
        return record
    return record.get(column, _absent(column, record))


def _absent(column: str, columns: object) -> Broken:
    return Broken(f"no column {column!r} (it has {', '.join(map(repr, columns))})")  # type: ignore[call-overload]


def _csv(opened: Opened, path: str, column: str, id_column: str | None) -> Iterator[Raw]:
    csv.field_size_limit(_CSV_CELL_LIMIT)
    # a row that is no UTF-8 must not end the file: its bytes come as surrogates, which no valid text has
    lines = io.TextIOWrapper(opened.content, "utf-8-sig", errors="surrogateescape", newline="\n")
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise DataError(f"{path}: its header is no CSV: {error}.") from error
    places = _places(header, column, id_column, path)
    while True:
        line = reader.line_num
        try:
            yield _cells(next(reader), header, places)
        except StopIteration:
            return
        except csv.Error as error:
            several = reader.line_num - line > 1
            if several or str(error) == _CSV_OPEN_AT_END:  # how many rows these lines were cannot be told
                swallowed = f"line {line + 1}{f' to {reader.line_num}' if several else ''}"
                raise DataError(f"{path}, {swallowed}: a quote is not closed where it should be: {error}.") from error
            yield (Broken(f"no CSV ({error})"),) * 2


def _tsv(opened: Opened, path: str, column: str, id_column: str | None) -> Iterator[Raw]:
    lines = (line.decode("utf-8", "surrogateescape").split("\t") for line in _lines(opened))
    header = next(lines, [])
    places = _places(header, column, id_column, path)
    return (_cells(cells, header, places) for cells in lines)


Places = tuple[int | Broken | None, int | Broken]  # of id and text among the cells


def _places(header: list[str], column: str, id_column: str | None, path: str) -> Places:
    return None if id_column is None else _place(header, id_column, path), _place(header, column, path)


def _place(header: list[str], column: str, path: str) -> int | Broken:
    if header.count(column) > 1:
        raise DataError(f"{path} has {header.count(column)} columns {column!r}; rename one.")
    return header.index(column) if column in header else _absent(column, header)


def _cells(cells: list[str], header: list[str], places: Places) -> Raw:
    cells = cells or [""]  # an empty line
    if len(cells) != len(header):
        return (Broken(f"{len(cells)} cells, expected {len(header)} as in the header"),) * 2
    identifier, text = (cells[place] if isinstance(place, int) else place for place in places)
    return identifier, text


def _parquet(opened: Opened, path: str, column: str, id_column: str | None) -> Iterator[Raw]:
    pyarrow = import_pyarrow()
    try:
        file = pyarrow.parquet.ParquetFile(opened.raw, buffer_size=1 << 20, pre_buffer=False)
        names = file.schema_arrow.names
        places = _places(names, column, id_column, path)
        wanted = [names[place] for place in places if isinstance(place, int)]
        for group in range(file.num_row_groups):
            rows = _rows_at_once(file.metadata.row_group(group))
            for batch in file.iter_batches(rows, row_groups=[group], columns=wanted):
                ids, texts = (
                    _values(batch.column(names[place])) if isinstance(place, int) else [place] * len(batch)
                    for place in places
                )
                yield from zip(ids, texts, strict=True)
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}. Is it cut short?") from error


def _rows_at_once(group: Any) -> int:
    """Fewer where rows are long: what is read at once is what memory must hold."""
    return int(max(1, min(1024, _BYTES_AT_ONCE * group.num_rows // max(1, group.total_byte_size))))


def _values(column: Any) -> list[Any]:
    """Python values; texts as bytes, since Arrow does not check that they are UTF-8."""
    pyarrow = import_pyarrow()
    types = pyarrow.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type):
        return list(column.cast(pyarrow.large_binary()).to_pylist())
    # bytes stand for text here, so that columns of bytes must not come through
    return [Broken("the value is binary, expected text") if isinstance(v, bytes) else v for v in column.to_pylist()]


READERS: dict[str, Callable[[Opened, str, str, str | None], Iterator[Raw]]] = {
    "txt": _txt,
    "csv": _csv,
    "tsv": _tsv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
