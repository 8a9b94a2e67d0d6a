"""Files written whole or not at all, and their hashes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ditto_fast.errors import OutputExistsError


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def check_output_directory(path: Path, force: bool) -> None:
    """Checks, before any long work, that `path` can be written as a directory.

    Raises:
        OutputExistsError: It holds something and `force` is off, or it is a file.
        PermissionError: Its nearest existing parent cannot be written.
    """
    if path.exists() and not path.is_dir():
        raise OutputExistsError(f"{path} is a file; name a directory to write.")
    if path.is_dir() and any(path.iterdir()) and not force:
        raise OutputExistsError(f"{path} exists and is not empty; pass --force (force=True) to replace it.")
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{parent} is not writable, so {path} cannot be created; choose another output.")


@contextmanager
def atomic_directory(path: Path, force: bool = False) -> Iterator[Path]:
    """Yields a temporary sibling folder that becomes `path` if the block ends well, and vanishes if not.

    Args:
        path: The directory to write.
        force: Replace what `path` holds.

    Raises:
        OutputExistsError: `path` holds something and `force` is off.
    """
    check_output_directory(path, force)
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.absolute().parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.absolute().parent))
            path.replace(old)
            temporary.replace(path)
            shutil.rmtree(old)
        else:
            temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


_TEMPORARY = re.compile(r"\..+\.\d+")


def is_temporary(path: Path) -> bool:
    """Whether a file's name is one of `atomic_file`'s, which a killed process left behind."""
    return _TEMPORARY.fullmatch(path.name) is not None


@contextmanager
def atomic_file(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Yields a temporary name, which becomes `path`, on disk for good, if the block ends well.

    Args:
        path: The file.
        folder: Where the temporary file is, on the same file system; beside `path` by default.
    """
    temporary = (folder or path.parent) / f".{path.name}.{os.getpid()}"
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
