"""The command `ditto-heads`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.errors import OptionError
from ditto_fast.evaluation.criteria import head_criteria
from ditto_fast.evaluation.head_scores import VARIANTS, Candidate, heads_of
from ditto_fast.evaluation.heat_map import terminal_heat_map, write_heat_maps
from ditto_fast.evaluation.regret import measure_regret, regret_lines
from ditto_fast.evaluation.report import screen
from ditto_fast.evaluation.search import Search, search
from ditto_fast.evaluation.sources import open_checkpoint
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tasks import TASKS, load_pairs, load_sts_b_dev, load_task, read_sentences
from ditto_fast.heads import Head


def _heads(
    model: Annotated[str, typer.Argument(help="Checkpoint folder, hub id or short name.")],
    dev: Annotated[Path | None, typer.Option(help="Lines of sentence<TAB>sentence<TAB>score.")] = None,
    senteval: Annotated[Path | None, typer.Option(help="Folder that holds downstream/: STS-B dev is used.")] = None,
    unlabeled: Annotated[
        Path | None, typer.Option(help="Choose without labels, on these sentences; with --senteval, and what it costs.")
    ] = None,
    tasks: Annotated[str, typer.Option(help="With --unlabeled and --senteval: what the cost is on.")] = ",".join(TASKS),
    top: Annotated[int, typer.Option(help="Rows of the ranked table.")] = 10,
    png: Annotated[Path | None, typer.Option(help="Write the heat maps there.")] = None,
    export: Annotated[Path | None, typer.Option(help="Export the winner to this directory.")] = None,
    seed: Annotated[int, typer.Option(help="Of the bootstrap and the held-out split.")] = 0,
    max_seq_length: Annotated[int | None, typer.Option(help="Tokens that texts are cut to; no cut by default.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where checkpoints' graphs are kept.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Find the attention head for Ditto: all heads in one pass over a dev set, or without labels."""
    if unlabeled is None and dev is None and senteval is None:
        raise OptionError("Name a dev set with --dev FILE or --senteval DIR, or plain sentences with --unlabeled FILE.")
    pairs = None if dev is None else load_pairs(dev)
    sentences = None if unlabeled is None else read_sentences(unlabeled)
    source = open_checkpoint(model, "ditto-heads", cache, max_seq_length)
    if sentences is not None:
        loaded = [] if senteval is None else [load_task(senteval, task.strip()) for task in tasks.split(",")]
        criteria = head_criteria(source, sentences, progress=True)
        heads = heads_of(source)
        picks = {name: heads[int(np.argmax(values))] for name, values in criteria.items()}
        about = {"model": source.sizes.name, "sentences": len(sentences)}
        record: dict[str, Any] = {**about, "picks": {name: str(head) for name, head in picks.items()}}
        if loaded:
            result = measure_regret(source, criteria, loaded, progress=True)
            record["regret"] = result.to_dict()
            lines = regret_lines(result)
        else:
            lines = [["criterion", "head"], *([name, str(head)] for name, head in picks.items())]
        _show(record, as_json, [screen(lines, f"{source.sizes.name}: heads without labels")])
        winner = picks["combined"]
    else:
        dev_set = load_sts_b_dev(Path(str(senteval))) if pairs is None else pairs
        found = search(source, dev_set, seed, progress=True)
        _show({"model": source.sizes.name, **found.to_dict()}, as_json, _tables(source, found, top))
        if png is not None:
            grids = {variant: found.grid(variant) for variant in VARIANTS}
            plain = {c.variant: 100 * c.score for c in found.ranking if c.head is None}
            write_heat_maps(grids, plain, png, f"{source.sizes.name} on {found.name}")
        winner = _head(found.winner)
    if export is not None:
        _export(model, winner, export)


def _head(candidate: Candidate) -> Head:
    if candidate.head is None:
        raise OptionError(f"{candidate} has no head to export.")
    return candidate.head


def _show(record: dict[str, Any], as_json: bool, tables: list[Any]) -> None:
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    for table in tables:
        stdout.print(table, highlight=False)


def _tables(source: StateSource, found: Search, top: int) -> list[Any]:
    """The ranked table with the plain averages among it, the heat map of the winner's pooling, the verdict."""
    ranked = [candidate for candidate in found.ranking if candidate.head is not None][:top]
    rows = sorted([*ranked, *(c for c in found.ranking if c.head is None)], key=lambda c: -c.score)
    lines = [["pooler", "head", "Spearman"], *([c.pooler, str(c.head or ""), f"{100 * c.score:.2f}"] for c in rows)]
    runner_up = found.over_runner_up
    return [
        screen(lines, f"{source.sizes.name}: {found.name}, {found.pairs} pairs, best {top} and plain averages"),
        *(terminal_heat_map(found.grid(name), f"\nditto-{name}: Spearman x100") for name in VARIANTS),
        f"\nBest head over the next: {runner_up.difference:+.2f} "
        f"(95 % interval {runner_up.low:+.2f} to {runner_up.high:+.2f}).",
        *(
            f"Chosen on one half: {half.head}; on the other half {half.head_score:.2f}, "
            f"{half.plain} {half.plain_score:.2f}."
            for half in found.halves
        ),
        found.verdict(),
    ]


def _export(model: str, head: Head, directory: Path) -> None:
    from ditto_fast.export import export_model

    report = export_model(model, head, directory, progress=lambda step: stderr.print(f"{step} ...", style="dim"))
    stderr.print(f"exported head {head} to {report.directory}", highlight=False)


def main() -> None:
    """Runs the command."""
    run(_heads)
