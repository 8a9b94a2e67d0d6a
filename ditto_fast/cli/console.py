"""One way to run a command: results on stdout, progress and errors on stderr, no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer
from rich.console import Console

from ditto_fast.errors import DittoError

_FILE_WIDTH = 140  # columns of a pipe or a file, which have no width of their own; rich would cut tables at 80

stdout = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _FILE_WIDTH)
stderr = Console(stderr=True)


def run(command: Callable[..., None]) -> None:
    """Runs a command of one function and exits: 0 done, 1 an error (its message on stderr), 2 wrong usage."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command()(command)
    try:
        app()
    except (DittoError, OSError) as error:
        stderr.print("[bold red]error:[/]", end=" ")
        stderr.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
