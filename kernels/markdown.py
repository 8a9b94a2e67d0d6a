"""Generated tables in a Markdown file, between two marker lines."""

from __future__ import annotations

from pathlib import Path

from ditto_fast.errors import OptionError


def markers(name: str) -> tuple[str, str]:
    """The lines before and after the table of this name."""
    return f"<!-- {name} table: begin -->", f"<!-- {name} table: end -->"


def row(cells: list[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"


def header(cells: list[str]) -> list[str]:
    """The two lines above a table's rows."""
    return [row(cells), "|" + " --- |" * len(cells)]


def read_table(path: Path, name: str) -> list[str]:
    """The lines between the markers.

    Raises:
        OptionError: The file has not both markers.
    """
    return _split(path, name)[1].strip("\n").splitlines()


def write_table(path: Path, name: str, lines: list[str]) -> None:
    """Replaces the lines between the markers.

    Raises:
        OptionError: The file has not both markers.
    """
    before, _, after = _split(path, name)
    path.write_text(before + "\n".join(["", *lines, ""]) + after, encoding="utf-8")


def _split(path: Path, name: str) -> tuple[str, str, str]:
    """The text up to the first marker with it, the text between, and the text from the second marker on."""
    begin, end = markers(name)
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    between, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise OptionError(f"{path} needs the lines {begin!r} and {end!r}; add them where the table should be.")
    return before + begin, between, end + after
