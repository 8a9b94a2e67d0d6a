"""One pass over all heads against one eager run a head, on the same sentences: time and peak memory.

python benchmarks/head_search.py --out benchmarks/results/evaluation/heads.jsonl
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from record import append, environment
from sentences import senteval_folder
from workspace import minilm

from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.cpus import available_cpus
from ditto_fast.errors import DataError, ParityError
from ditto_fast.evaluation.head_scores import candidates, heads_of, pair_cosines
from ditto_fast.evaluation.states import open_states
from ditto_fast.evaluation.tasks import Subset, load_sts_b_dev
from ditto_fast.heads import Head

_TIMED = 3  # eager heads that are really run; the rest is extrapolated
_WAYS = ("nothing", "one pass", "eager")
_TOLERANCE = 1e-4  # of a Spearman correlation: ranks of nearly equal cosines may swap


def _dev(senteval: Path | None, count: int) -> Subset:
    folder = senteval_folder(senteval)
    if folder is None:
        raise DataError("STS-B dev is wanted: name the folder that holds downstream/ with --senteval.")
    return load_sts_b_dev(folder).take(np.arange(count))


def _one_pass(states: Path, dev: Subset) -> list[dict[str, Any]]:
    """Scores of all heads, first-last, and the seconds for them all."""
    source = open_states(states)
    started = time.perf_counter()
    ranking = candidates(heads_of(source), pair_cosines(source, dev), dev.gold)
    seconds = time.perf_counter() - started
    scores = {str(c.head): c.score for c in ranking if c.head is not None and c.variant == "first-last"}
    return [{"seconds": seconds, "scores": scores}]


def _eager(checkpoint: Path, dev: Subset) -> list[dict[str, Any]]:
    """The authors' way, a head after the other: attentions of all layers, batches of 128 in input order."""
    import torch
    from scipy.stats import spearmanr

    from ditto_fast.export.checkpoint import load_checkpoint
    from ditto_fast.export.reference import eager_outputs
    from ditto_fast.similarity import similarity_pairwise

    torch.set_num_threads(available_cpus())
    loaded = load_checkpoint(str(checkpoint))
    results = []
    for head in (Head(1, 10), Head(3, 7), Head(6, 1))[:_TIMED]:
        started = time.perf_counter()
        sides = []
        for texts in (dev.first, dev.second):
            rows = []
            for start in range(0, len(texts), 128):
                batch = loaded.tokenizer(texts[start : start + 128], padding=True, return_tensors="np")
                rows.append(eager_outputs(loaded.model, batch, head)["sentence_embedding"])
            sides.append(np.concatenate(rows))
        score = float(spearmanr(similarity_pairwise(*sides), dev.gold).statistic)
        results.append({"seconds": time.perf_counter() - started, "scores": {str(head): score}})
    return results


def _peak_mb() -> int:
    """Peak memory of this process; getrusage's would carry over from the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def _measure(
    way: Annotated[str | None, typer.Option(hidden=True)] = None,
    states: Annotated[Path | None, typer.Option(hidden=True)] = None,
    senteval: Annotated[Path | None, typer.Option(help="Folder that holds downstream/.")] = None,
    pairs: Annotated[int, typer.Option(help="Pairs of STS-B dev, from the first.")] = 1500,
    out: Annotated[Path, typer.Option(help="A JSON line is added to it.")] = Path(".demo/heads.jsonl"),
) -> None:
    """Time both ways, each in a process of its own, and check that they give the same scores."""
    checkpoint, dev = minilm(), _dev(senteval, pairs)
    if way is not None:
        run_way = {"eager": lambda: _eager(checkpoint, dev), "one pass": lambda: _one_pass(Path(str(states)), dev)}
        results = run_way.get(way, list)()
        typer.echo(json.dumps({"results": results, "peak_mb": _peak_mb()}))
        return
    from ditto_fast.evaluation.with_torch.states_graph import cached_states

    with tempfile.TemporaryDirectory() as cache:
        started = time.perf_counter()
        folder = cached_states(str(checkpoint), Path(cache))
        export_seconds = time.perf_counter() - started
        measured = {name: _in_a_process(name, folder, senteval, pairs) for name in _WAYS}
    append(out, [_row(dev, measured, export_seconds)])
    stdout.print(f"recorded in {out}", highlight=False)


def _in_a_process(way: str, states: Path, senteval: Path | None, pairs: int) -> dict[str, Any]:
    stderr.print(f"{way} ...", style="dim")
    options = ["--way", way, "--states", states, "--pairs", pairs]
    options += [] if senteval is None else ["--senteval", senteval]
    command = [sys.executable, __file__, *map(str, options)]
    record: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return record


def _row(dev: Subset, measured: dict[str, Any], export_seconds: float) -> dict[str, Any]:
    (ours,) = measured["one pass"]["results"]
    for result in measured["eager"]["results"]:
        for head, score in result["scores"].items():
            if not abs(ours["scores"][head] - score) < _TOLERANCE:
                raise ParityError(f"Head {head}: one pass gives {ours['scores'][head]:.5f}, eager {score:.5f}.")
    eager = [result["seconds"] for result in measured["eager"]["results"]]
    heads = len(ours["scores"])
    row = {
        **environment(),
        "model": "all-MiniLM-L6-v2",
        "pairs": len(dev),
        "heads": heads,
        "one_pass_seconds": ours["seconds"],
        "eager_seconds_a_head": eager,
        "speedup": heads * min(eager) / ours["seconds"],
        "export_seconds": export_seconds,
        "peak_mb": {name: result["peak_mb"] for name, result in measured.items()},
    }
    stdout.print(
        f"{heads} heads: one pass {ours['seconds']:.1f} s (all three poolings); eager {min(eager):.1f} s "
        f"a head, so {heads * min(eager):.0f} s: {row['speedup']:.0f}x. Peak memory (MB): {row['peak_mb']}.",
        highlight=False,
    )
    return row


if __name__ == "__main__":
    run(_measure)
