"""Which files are read: globs and folders expanded, formats told from names, compression undone."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ditto_fast.checks import one_of
from ditto_fast.corpora.arrow import import_pyarrow
from ditto_fast.errors import DataError

FORMATS = ("txt", "csv", "tsv", "jsonl", "parquet")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
STDIN = "-"


@dataclass(frozen=True)
class Source:
    """One input.

    Args:
        path: The file; "-" for stdin.
        format: One of `FORMATS`.
    """

    path: str
    format: str

    @property
    def size(self) -> int | None:
        """Bytes on disk, None for stdin."""
        return None if self.path == STDIN else os.path.getsize(self.path)

    def open(self) -> Opened:
        """Opens it for reading, decompressed."""
        # stdin by a handle of our own: a thread that waits for Python's when the process ends would abort it
        raw: IO[bytes] = open(os.dup(0) if self.path == STDIN else self.path, "rb")  # noqa: SIM115
        compression = COMPRESSIONS.get(Path(self.path).suffix.lower())
        if compression is None:
            return Opened(raw, raw)
        inflating = import_pyarrow().CompressedInputStream(raw, compression)
        return Opened(raw, io.BufferedReader(_Inflating(inflating), 1 << 20))


class _Inflating(io.RawIOBase):
    """Arrow's decompressing stream as Python's buffered readers want it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@dataclass(frozen=True)
class Opened:
    """An open source.

    Args:
        raw: The file itself, whose position tells how much is read.
        content: Its decompressed content.
    """

    raw: IO[bytes]
    content: IO[bytes]

    def close(self) -> None:
        """Closes the file."""
        self.content.close()
        self.raw.close()


def find_sources(
    inputs: Iterable[str | os.PathLike[str]], form: str | None, leave_out: Iterable[Path] = ()
) -> list[Source]:
    """The files that inputs name, in their order; those of a glob or a folder by name.

    Args:
        inputs: Files, globs, folders (searched deeply, links too, for files of a known name), or "-" for stdin.
        form: Format of all of them; by default each file's name tells, and stdin is "txt".
        leave_out: Paths that folders and globs do not count in: the output.

    Raises:
        DataError: A file is missing or its format unknown, a folder cannot be listed, or nothing matches.
        OptionError: The format is none.
    """
    if form is not None:
        one_of("format", form, FORMATS)
    hidden = [path.resolve() for path in leave_out]
    sources = [source for given in inputs for source in _expand(os.fspath(given), form, hidden)]
    if not sources:
        raise DataError("No input: name files, globs, folders, or - for stdin.")
    if sum(source.path == STDIN for source in sources) > 1:
        raise DataError("stdin (-) is named twice; it can be read once.")
    return sources


def _expand(given: str, form: str | None, leave_out: Sequence[Path]) -> list[Source]:
    if given == STDIN:
        if form == "parquet":
            raise DataError("A Parquet file cannot be read from stdin, since it is read from its end: name the file.")
        return [Source(STDIN, form or "txt")]
    path = Path(given)
    if path.is_dir():
        return _folder(path, form, leave_out)
    if path.is_file() or not glob.has_magic(given):
        return [_file(given, form)]
    _check_folders(given)
    recursive = "**" in given  # it has met what folders hold
    matches = [Path(name) for name in sorted(glob.glob(given, recursive=True)) if not _inside(Path(name), leave_out)]
    found = [
        source
        for path in matches
        if not (recursive and path.is_dir())
        for source in _expand(str(path), form, leave_out)
    ]
    if not found:
        raise DataError(f"{given}: no such file (nothing matches).")
    return found


def _folder(folder: Path, form: str | None, leave_out: Sequence[Path]) -> list[Source]:
    found = [
        _file(str(path), form)
        for path in _names(folder, leave_out)
        # a broken link without an ending may have been to a folder: of a disk that is not there
        if format_of(path.name) or not (path.suffix or os.path.exists(path))
    ]
    if not found:
        raise DataError(f"{folder} holds no file whose name ends in {', '.join(_endings())}.")
    return found


def _names(folder: Path, leave_out: Sequence[Path], above: tuple[str, ...] = ()) -> Iterator[Path]:
    """What a folder holds, deeply and in order, but folders; of links those back to a folder above end there."""
    place = os.path.realpath(folder)
    if place in above:
        return
    for path in _listed(folder):
        # as Spark and Arrow have it: names that begin so are no data
        if path.name.startswith((".", "_")) or _inside(path, leave_out):
            continue
        if os.path.isdir(path):
            yield from _names(path, leave_out, (*above, place))
        else:
            yield path


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(
            f"{folder} cannot be listed ({error.strerror}), so what it holds would be missing: make it readable, or "
            "name inputs that leave it out."
        ) from error


def _check_folders(pattern: str) -> None:
    """Lists the folders that a glob looks into, since it leaves out in silence those that it cannot list."""
    parts = Path(pattern).parts
    for place, part in enumerate(parts):
        if glob.has_magic(part):
            folders = os.path.join("", *parts[: place + (part == "**")], "") or os.curdir
            for folder in glob.glob(folders, recursive=True):
                _listed(Path(folder))
        if part == "**":
            return  # it has met all below


def _file(path: str, form: str | None) -> Source:
    if not os.path.isfile(path):
        link = f": it is a link to {os.readlink(path)}; fetch what is there" if os.path.islink(path) else ""
        kind = "regular" if os.path.exists(path) else "such"
        raise DataError(f"{path}: no {kind} file{link}.")
    return Source(path, form or _known_format(path))


def _inside(path: Path, places: Sequence[Path]) -> bool:
    resolved = Path(os.path.realpath(path))  # Path.resolve raises at a link to itself
    return any(place == resolved or place in resolved.parents for place in places)


def format_of(name: str) -> str | None:
    """The format that a file's name tells, None where it tells none.

    Example:
        >>> format_of("news.jsonl.gz"), format_of("image.png")
        ('jsonl', None)
    """
    lowered = name.lower()
    for suffix in COMPRESSIONS:
        lowered = lowered.removesuffix(suffix)
    suffix = Path(lowered).suffix.removeprefix(".")
    compressed = lowered != name.lower()
    return suffix if suffix in FORMATS and not (compressed and suffix == "parquet") else None


def _known_format(name: str) -> str:
    form = format_of(name)
    if form is None:
        raise DataError(
            f"{name}: its name does not end in {', '.join(_endings())}; say what it is with --format "
            f"({', '.join(FORMATS)})."
        )
    return form


def _endings() -> Iterator[str]:
    yield from (f".{form}" for form in FORMATS)
    yield f"or {' or '.join(COMPRESSIONS)} after one of them"


def total_size(sources: Sequence[Source]) -> int | None:
    """Bytes of all sources, None where that is not known."""
    sizes = [source.size for source in sources]
    return None if None in sizes else sum(size or 0 for size in sizes)
