"""Where the embeddings of a corpus go: a folder of shards, or one file that is put together from them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ditto_fast.corpora.outputs import SINGLE_FILES, assemble
from ditto_fast.corpora.settings import SETTINGS_FILE, SUMMARY_FILE, Settings, begin
from ditto_fast.corpora.shards import remove_unfinished
from ditto_fast.corpora.sources import Source, names_and_sizes
from ditto_fast.errors import OptionError, OutputError, OutputExistsError

_LOCK = ".lock"


class Destination:
    """An output.

    Args:
        path: A folder, or a file whose name ends in one of `SINGLE_FILES`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._single = path.suffix in SINGLE_FILES
        # the shards of a single file lie beside it until it is written
        self.folder = path.with_name(f"{path.name}.shards") if self._single else path

    def check_holds(self, ids: bool, texts: bool) -> None:
        """Checks that the output has a place for what was asked for.

        Raises:
            OptionError: It has none.
        """
        if self._path.suffix == ".npy" and (ids or texts):
            raise OptionError(
                f"{self._path} holds embeddings alone, row i that of text i; a folder or a .jsonl holds ids and texts."
            )

    @contextmanager
    def begun(self, settings: Settings, sources: Sequence[Source], force: bool) -> Iterator[None]:
        """Makes the folder, or finds it as an earlier run left it, and keeps other processes away.

        Raises:
            OutputError: Another process is writing it, or a file is in the way.
            OutputExistsError: The file is written already.
            ResumeError: It was begun with other settings or inputs.
        """
        from filelock import FileLock, Timeout

        if self._path.exists() and self._path.is_dir() == self._single:
            raise OutputError(f"{self._path} must be {'a file' if self._single else 'a folder'}; name another output.")
        if self._single and self._path.exists() and not self.folder.exists() and not force:
            raise OutputExistsError(f"{self._path} exists; name another output, or pass --force to replace it.")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / _LOCK, blocking=False):
                if force and (self.folder / SETTINGS_FILE).is_file():
                    self._empty()
                begin(self.folder, {**settings.to_dict(), "inputs": names_and_sizes(sources)}, self._path)
                remove_unfinished(self.folder)
                (self.folder / SUMMARY_FILE).unlink(missing_ok=True)
                yield
                if self._single:
                    self._remove_shards()
        except Timeout as error:
            raise OutputError(f"Another process is writing {self._path}; wait for it, or name another.") from error

    def _remove_shards(self) -> None:
        """At once, as others see it: half of them would look like a begun output."""
        unseen = self.folder.with_name(f".{self.folder.name}.done")
        shutil.rmtree(unseen, ignore_errors=True)
        self.folder.replace(unseen)
        shutil.rmtree(unseen)

    def _empty(self) -> None:
        for path in self.folder.iterdir():
            if path.name != _LOCK:
                path.unlink()

    def finish(self, shards: list[Path], rows: int, settings: Settings) -> None:
        """Writes the single file, if it is one.

        Raises:
            OutputError: It cannot be written.
        """
        if self._single:
            assemble(self._path, shards, rows, settings)
