"""The command `ditto-explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.errors import OptionError
from ditto_fast.evaluation.explanation import bars, explain, html, write_png
from ditto_fast.evaluation.sources import open_source
from ditto_fast.evaluation.tasks import read_sentences


def _explain(
    sentence: Annotated[str, typer.Argument(help="The sentence to look at.")],
    model: Annotated[str | None, typer.Option(help="Export directory, checkpoint folder, hub id or name.")] = None,
    head: Annotated[str | None, typer.Option(help="LAYER-HEAD from 1; an export's own, or the paper's.")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Sentences, one a line, that TF-IDF is counted on.")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw the bars there.")] = None,
    html_: Annotated[Path | None, typer.Option("--html", help="Write the shaded sentence there.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where checkpoints are exported to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Show what a head weighs: its diagonal beside the impact matrix and TF-IDF."""
    if model is None:
        raise OptionError("Name the model with --model.")
    documents = [] if corpus is None else read_sentences(corpus)
    explanation = explain(open_source(model, head, cache), sentence, documents)
    if as_json:
        typer.echo(json.dumps(explanation.to_dict(), indent=2, ensure_ascii=False))
    else:
        stdout.print(bars(explanation), highlight=False)
        for line in explanation.missing:
            stderr.print(line, markup=False, highlight=False)
    if png is not None:
        write_png(explanation, png)
    if html_ is not None:
        html_.write_text(html(explanation), encoding="utf-8")


def main() -> None:
    """Runs the command."""
    run(_explain)
