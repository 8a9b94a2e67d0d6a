"""Where the embeddings of a corpus go: a folder of shards, or one file that is put together from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ditto_fast.corpora.outputs import SINGLE_FILES, assemble
from ditto_fast.corpora.records import ABOUT, SETTINGS, read_record
from ditto_fast.corpora.settings import SETTINGS_FILE, SUMMARY_FILE, Settings, check_same
from ditto_fast.corpora.shards import find_shards, remove_shards, remove_unfinished
from ditto_fast.errors import OptionError, OutputError, OutputExistsError, ResumeError
from ditto_fast.files import write_text

_LOCK = ".lock"
_REPLACE = "Name another output, or pass --force to replace it."


class Destination:
    """An output.

    Args:
        path: A folder, or a file whose name ends in one of `SINGLE_FILES`.
        settings: What its shards depend on.
        force: Write again what was made otherwise.

    Raises:
        OptionError: It has no place for ids or texts, which were asked for.
    """

    def __init__(self, path: Path, settings: Settings, force: bool) -> None:
        if path.suffix == ".npy" and (settings.id_column is not None or settings.keep_text):
            raise OptionError(
                f"{path} holds embeddings alone, row i that of text i; a folder or a .jsonl holds ids and texts."
            )
        self._path = path
        self._settings = settings
        self._force = force
        self._single = path.suffix in SINGLE_FILES
        self.folder = shards_folder(path)
        self._about = about_file(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder, or finds it as an earlier run left it, and keeps other processes away.

        Raises:
            OutputError: Another process is writing it, or a file is in the way.
            OutputExistsError: Someone else's file is there.
            ResumeError: It was begun with other settings, or by someone else.
        """
        from filelock import FileLock, Timeout

        if self._path.exists() and self._path.is_dir() == self._single:
            raise OutputError(f"{self._path} must be {'a file' if self._single else 'a folder'}; name another output.")
        if self._single and not self._force:
            self._refuse_strange_files()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / _LOCK, blocking=False):
                self._begin()
                try:
                    yield
                except BaseException:
                    if self._single and not find_shards(self.folder):
                        self._remove_shards()
                    raise
                if self._single:
                    self._remove_shards()
        except Timeout as error:
            raise OutputError(f"Another process is writing {self._path}; wait for it, or name another.") from error

    def finished(self) -> dict[str, Any] | None:
        """What is known of the single file that an earlier run finished, None where there is none.

        Raises:
            ResumeError: It was made with other settings.
        """
        there = self._single and self._path.exists() and self._about.exists()
        if self._force or not there or find_shards(self.folder):
            return None
        about = self._read_about()
        check_same(about["settings"], self._settings.to_dict(), self._path)
        return about

    def _read_about(self) -> dict[str, Any]:
        return read_record(self._about, ABOUT, OutputExistsError, _REPLACE)

    def _refuse_strange_files(self) -> None:
        if self._about.exists():
            self._read_about()
        elif self._path.exists() and not find_shards(self.folder):  # ours, if a kill came before it was described
            raise OutputExistsError(f"{self._path} exists. {_REPLACE}")

    def _begin(self) -> None:
        """Writes the settings, or checks those of an earlier run that has shards."""
        path = self.folder / SETTINGS_FILE
        wanted = self._settings.to_dict()
        if path.is_file():
            # not even --force removes the shards of a folder that may be someone else's
            found = read_record(path, SETTINGS, ResumeError, f"Name another output, or remove {self.folder} first.")
            shards = find_shards(self.folder)
            try:
                if shards:
                    check_same(found, wanted, self._path)
            except ResumeError:
                if not self._force:
                    raise
                remove_shards(shards)
        else:
            self._refuse_strangers()
        write_text(path, json.dumps(wanted, indent=2) + "\n")
        remove_unfinished(self.folder)

    def _refuse_strangers(self) -> None:
        strangers = sorted(entry.name for entry in self.folder.iterdir() if not entry.name.startswith("."))
        if strangers:
            raise ResumeError(
                f"{self.folder} holds {', '.join(strangers[:3])}{' ...' if len(strangers) > 3 else ''} and no "
                f"{SETTINGS_FILE}, so this command did not begin it. Name another output."
            )

    def finish(self, shards: list[Path], summary: dict[str, Any], digests: list[str]) -> None:
        """Says that the folder is whole, or writes the single file and beside it what it is.

        Raises:
            OutputError: The disk is full, or does not take the file.
        """
        if not self._single:
            write_text(self.folder / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")
            return
        assemble(self._path, self.folder, shards, summary["rows"], self._settings)
        about = {"settings": self._settings.to_dict(), "summary": summary, "rows_sha256": digests}
        write_text(self._about, json.dumps(about, indent=2) + "\n")

    def _remove_shards(self) -> None:
        """At once, as others see it: half of them would look like a begun output."""
        unseen = self.folder.with_name(f".{self.folder.name}.done")
        shutil.rmtree(unseen, ignore_errors=True)
        self.folder.replace(unseen)
        shutil.rmtree(unseen)


def shards_folder(path: Path) -> Path:
    """Where an output's shards are: those of a single file lie beside it until it is written."""
    return path.with_name(f"{path.name}.shards") if path.suffix in SINGLE_FILES else path


def about_file(path: Path) -> Path:
    """The file that says what a single file is."""
    return path.with_name(f"{path.name}.json")


def places(path: Path) -> list[Path]:
    """All that an output may write, which is no input."""
    return [path, shards_folder(path), about_file(path)]
