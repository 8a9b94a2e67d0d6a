"""Ours against the ways users have now: same sentences, same threads, correct before timed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from contenders import BASELINE, CONTENDERS, Contender, Encode, Setting, Vectors
from measure import cold_seconds, import_seconds, interleaved, median
from record import append, environment
from rich.table import Table
from sentences import load_sentences, senteval_folder
from workspace import exported, minilm

from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.cpus import available_cpus
from ditto_fast.errors import ParityError
from ditto_fast.heads import Head
from ditto_fast.tolerances import TOLERANCES, difference


def gate(contender: Contender, actual: Vectors, expected: Vectors) -> float:
    """Returns how far the vectors lie apart.

    Raises:
        ParityError: Too far: no time is worth printing.
    """
    distance = difference(actual, expected)
    if not distance <= TOLERANCES["fp32"]:
        raise ParityError(f"{contender.name} differs by {distance:.3g} from {contender.expected.__name__}.")
    return distance


def _benchmark(
    model: Annotated[Path | None, typer.Option(help="Checkpoint folder; all-MiniLM-L6-v2 by default.")] = None,
    head: Annotated[str, typer.Option(help="LAYER-HEAD.")] = "1-10",
    senteval: Annotated[Path | None, typer.Option(help="Folder that holds downstream/.")] = None,
    sentences: Annotated[int, typer.Option(help="How many sentences.")] = 1500,
    rounds: Annotated[int, typer.Option(help="Timed rounds, interleaved.")] = 5,
    threads: Annotated[int | None, typer.Option(help="Threads of every contender; all by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="128 sentences, 3 rounds.")] = False,
    out: Annotated[Path, typer.Option(help="JSON lines are added to it.")] = Path(".demo/benchmark.jsonl"),
) -> None:
    """Time the authors' eager path, sentence-transformers and ditto_fast on the same sentences."""
    if quick:
        sentences, rounds = 128, 3
    source, texts = load_sentences(sentences, senteval_folder(senteval))
    checkpoint = model or minilm()
    stderr.print("exporting ...", style="dim")
    setting = Setting(checkpoint, exported(checkpoint, Head.parse(head)), Head.parse(head), threads or available_cpus())
    stderr.print("checking that all give the same vectors ...", style="dim")
    built: dict[str, Encode] = {}
    distances = {}
    for contender in CONTENDERS:
        built[contender.name] = contender.build(setting)
        distances[contender.name] = gate(contender, built[contender.name](texts), contender.expected(setting)(texts))
    stderr.print("timing ...", style="dim")
    samples = interleaved({name: partial(encode, texts) for name, encode in built.items()}, rounds)
    startup = {"import": import_seconds(rounds), "cold": cold_seconds(setting.export, rounds)}
    common: dict[str, Any] = {
        **environment(),
        "model": checkpoint.name,
        "head": head,
        "sentences": len(texts),
        "source": source,
        "threads": setting.threads,
    }
    append(out, _rows(common, samples, distances, startup))
    _print(common, samples, startup)
    stderr.print(f"recorded in {out}", style="dim", highlight=False)


def _rows(
    common: dict[str, Any],
    samples: dict[str, list[float]],
    distances: dict[str, float],
    startup: dict[str, list[float]],
) -> list[dict[str, Any]]:
    rows = [
        {**common, "case": "throughput", "contender": name, "seconds": seconds, "difference": distances[name]}
        for name, seconds in samples.items()
    ]
    return rows + [{**common, "case": case, "contender": "ditto_fast", "seconds": s} for case, s in startup.items()]


def _print(common: dict[str, Any], samples: dict[str, list[float]], startup: dict[str, list[float]]) -> None:
    table = Table(
        title=f"{common['sentences']} sentences ({common['source']}), head {common['head']}, "
        f"{common['threads']} threads, median of {len(samples[BASELINE])} interleaved rounds"
    )
    table.add_column("contender", no_wrap=True)
    table.add_column("how")
    table.add_column("sentences/s", justify="right")
    table.add_column("against the baseline", justify="right")
    for contender in CONTENDERS:
        seconds = samples[contender.name]
        ratio = median([base / own for base, own in zip(samples[BASELINE], seconds, strict=True)])
        table.add_row(contender.name, contender.how, f"{common['sentences'] / median(seconds):.0f}", f"{ratio:.2f}x")
    stdout.print(table)
    stdout.print(
        f"import ditto_fast: {median(startup['import']):.2f} s; "
        f"a cold process to its first vector: {median(startup['cold']):.2f} s",
        highlight=False,
    )


if __name__ == "__main__":
    run(_benchmark)
