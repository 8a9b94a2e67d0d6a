"""The command `ditto-eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ditto_fast.checks import one_of
from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.errors import OptionError
from ditto_fast.evaluation.analysis import analyse, analysis_lines
from ditto_fast.evaluation.cited import SOURCES, Cited, cited, paper_poolers
from ditto_fast.evaluation.embed import LEARNT, PoolerOptions
from ditto_fast.evaluation.evaluate import evaluate
from ditto_fast.evaluation.hub import load_hub_task
from ditto_fast.evaluation.poolers import AUTHORS, POOLERS, find_pooler
from ditto_fast.evaluation.prompts import TEMPLATE
from ditto_fast.evaluation.protocol import SETTINGS
from ditto_fast.evaluation.report import detail_lines, latex, markdown, score_lines, screen, to_json
from ditto_fast.evaluation.sources import open_source
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tasks import TASKS, Task, load_task, read_sentences
from ditto_fast.heads import PAPER_MODELS


def _eval(
    model: Annotated[str | None, typer.Argument(help="Export directory, checkpoint folder, hub id or name.")] = None,
    senteval: Annotated[Path | None, typer.Option(help="Folder that holds downstream/.")] = None,
    hub: Annotated[bool, typer.Option("--hub", help="Take the sets from the hub instead.")] = False,
    head: Annotated[str | None, typer.Option(help="LAYER-HEAD from 1; the paper's for its checkpoints.")] = None,
    poolers: Annotated[
        str | None,
        typer.Option(
            help=f"A comma list of {', '.join(POOLERS)}; +whitening, +whitening-K or +flow may follow each. "
            "The authors' own that the model can serve by default."
        ),
    ] = None,
    tasks: Annotated[str, typer.Option(help=f"A comma list of {', '.join(TASKS)}.")] = ",".join(TASKS),
    setting: Annotated[str, typer.Option(help=f"What the table shows: {', '.join(SETTINGS)}.")] = "all",
    paper: Annotated[
        str | None,
        typer.Option(help=f"The paper's rows on a checkpoint, beside cited ones: {', '.join(PAPER_MODELS)}."),
    ] = None,
    fit: Annotated[
        str, typer.Option(help="What post-processing is fit on: target (each task's own sentences) or a file.")
    ] = "target",
    vectors: Annotated[Path | None, typer.Option(help="Word vectors, for the pooler glove.")] = None,
    template: Annotated[str, typer.Option(help="Template of the pooler prompt.")] = TEMPLATE,
    seed: Annotated[int, typer.Option(help="Of BERT-flow.")] = 0,
    max_seq_length: Annotated[int | None, typer.Option(help="Tokens that texts are cut to; no cut by default.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where checkpoints are exported to.")] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Pearson, alignment, uniformity, mean cosine too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print the table as LaTeX.")] = False,
    analysis: Annotated[
        Path | None, typer.Option(help="Instead: correlate diagonal and impact with TF-IDF over this corpus.")
    ] = None,
) -> None:
    """Score poolers on the paper's seven STS sets, by the authors' protocol."""
    if paper is not None:
        one_of("--paper", paper, PAPER_MODELS)
    source = open_source(_name(model, paper), _head(head, paper), cache, max_seq_length)
    if analysis is not None:
        _print_analysis(source, analysis, as_json)
        return
    one_of("setting", setting, SETTINGS)
    loaded = _tasks(tasks, senteval, hub)
    names = _poolers(source, poolers, paper, vectors is not None)
    fit_on = None if fit == "target" else read_sentences(Path(fit))
    options = PoolerOptions(template, vectors, fit_on)
    rows = evaluate(source, loaded, names, options, fit_on, seed, progress=True)
    beside = [None if paper is None else cited(paper, row.pooler) for row in rows]
    if as_json:
        about = {"model": source.sizes.name, "head": str(source.head) if source.head else None, "fit": fit}
        typer.echo(json.dumps(to_json(rows, about, beside), indent=2))
    elif as_markdown or as_latex:
        lines = score_lines(rows, setting, beside)
        typer.echo(markdown(lines) if as_markdown else latex(lines))
    else:
        title = f"{source.sizes.name}, head {source.head or 'none'}: Spearman x100, {setting}"
        stdout.print(screen(score_lines(rows, setting, beside), title))
        if details:
            stdout.print(screen(detail_lines(rows), "pairs and shape of the space"))
        _print_sources(beside)


def _name(model: str | None, paper: str | None) -> str:
    name = model or paper
    if name is None:
        raise OptionError("Name a model to evaluate, or one of the paper's with --paper.")
    return name


def _tasks(names: str, senteval: Path | None, hub: bool) -> list[Task]:
    if hub == (senteval is not None):
        raise OptionError("Name the folder that holds SentEval's downstream/ with --senteval, or pass --hub.")
    return [
        load_hub_task(name.strip()) if senteval is None else load_task(senteval, name.strip())
        for name in names.split(",")
    ]


def _head(head: str | None, paper: str | None) -> str | None:
    """The head asked for, else the paper's, also where a folder stands in for its checkpoint."""
    known = None if paper is None else PAPER_MODELS[paper].head
    return str(known) if head is None and known is not None else head


def _poolers(source: StateSource, asked: str | None, paper: str | None, vectors: bool) -> list[str]:
    if asked is not None:
        return [name.strip() for name in asked.split(",")]
    names = AUTHORS if paper is None else paper_poolers(paper, vectors)
    # a default leaves out what the model cannot serve; what is asked for by name is an error
    return [name for name in names if find_pooler(name).needs <= source.provides | LEARNT]


def _print_analysis(source: StateSource, corpus: Path, as_json: bool) -> None:
    result = analyse(source, read_sentences(corpus), progress=True)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
    else:
        title = f"correlation with TF-IDF: {source.sizes.name}, head {source.head}"
        stdout.print(screen(analysis_lines(result), title))


def _print_sources(beside: list[Cited | None]) -> None:
    known = [row for row in beside if row is not None]
    for source in sorted({row.source for row in known}):
        stderr.print(f"cited [{source}]: {SOURCES[source]}", markup=False, highlight=False)
    for row in known:
        if row.differs:
            stderr.print(f"{row.pooler}: cited with {row.differs}", markup=False, highlight=False)


def main() -> None:
    """Runs the command."""
    run(_eval)
