"""Ours against the ways users have now: same sentences, same threads, correct before timed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from compare import print_comparison
from contenders import BY_KEY
from job import Job, Row, Setting, failure
from record import append, environment
from records import CRASHED
from report import write_report
from sentences import load_sentences, senteval_folder
from suites import DEFAULT, SUITES
from tables import print_suite
from workspace import RANDOM_BASE, checkpoint_folder, exported

from ditto_fast.checks import one_of
from ditto_fast.cli.console import run, stderr
from ditto_fast.cpus import available_cpus
from ditto_fast.heads import Head


def _benchmark(
    suite: Annotated[str, typer.Option(help=f"NAME[,NAME] of {', '.join(SUITES)}, or all.")] = DEFAULT,
    model: Annotated[str | None, typer.Option(help=f"Folder, hub id or {RANDOM_BASE}; all-MiniLM-L6-v2.")] = None,
    head: Annotated[str, typer.Option(help="LAYER-HEAD.")] = "1-10",
    senteval: Annotated[Path | None, typer.Option(help="Folder that holds downstream/.")] = None,
    sentences: Annotated[int, typer.Option(help="How many sentences.", min=1)] = 1500,
    rounds: Annotated[int, typer.Option(help="Timed rounds, interleaved.", min=1)] = 5,
    threads: Annotated[int | None, typer.Option(help="Threads of every contender; all by default.", min=1)] = None,
    peers: Annotated[str | None, typer.Option(help=f"KEY[,KEY] of {', '.join(BY_KEY)}; all by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, 3 rounds: under two minutes.")] = False,
    out: Annotated[Path, typer.Option(help="JSON lines are added to it.")] = Path(".demo/benchmark.jsonl"),
    report: Annotated[bool, typer.Option("--report", help="Write README.md and docs/benchmarks.md.")] = False,
    compare: Annotated[tuple[Path, Path] | None, typer.Option(help="Two files of records; 1 on a regression.")] = None,
) -> None:
    """Time every way to the same vectors, record the samples, print a table."""
    if compare is not None:
        if print_comparison(*compare):
            raise typer.Exit(1)
        return
    if report:
        write_report()
        return
    if quick:
        sentences, rounds = 64, 3
    names = list(SUITES) if suite == "all" else [one_of("--suite", name, SUITES) for name in suite.split(",")]
    asked = None if peers is None else tuple(one_of("--peers", key, BY_KEY) for key in peers.split(",") if key)
    source, texts = load_sentences(sentences, senteval_folder(senteval))
    checkpoint = checkpoint_folder(model)
    stderr.print("exporting ...", style="dim")
    export = exported(checkpoint, Head.parse(head), precision=("fp32", "int8"))
    setting = Setting(checkpoint, export, Head.parse(head), threads or available_cpus())
    job = Job(setting, texts, rounds, quick, asked, senteval_folder(senteval))
    about: dict[str, Any] = {"model": checkpoint.name, "head": head, "source": source, "threads": setting.threads}
    about |= {"quick": quick, "rounds": rounds, "peers": asked}
    failed = False
    for name in names:
        stderr.print(f"suite {name} ...", style="dim")
        rows = list(_recorded(name, job, about, out))
        print_suite(name, rows, about)
        failed = failed or any("error" in row for row in rows)
    stderr.print(f"recorded in {out}", style="dim", highlight=False)
    if failed:
        raise typer.Exit(1)


def _recorded(name: str, job: Job, about: dict[str, Any], out: Path) -> Iterator[Row]:
    """The rows of a suite, each recorded as it comes, so that a later failure loses none; all say when it began."""
    common = {**environment(), **about, "suite": name}

    def rows() -> Iterable[Row]:
        try:
            yield from SUITES[name](job)
        except Exception as error:  # of any library: it becomes a row
            yield failure(CRASHED, name, error)

    for row in rows():
        append(out, [{**common, **row}])
        yield row


if __name__ == "__main__":
    run(_benchmark)
