"""The tables of docs/evaluation.md and the README's lines on evaluation, written from records.

python benchmarks/evaluation_report.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import suite_heads
from head_cost import cost
from heads_probe import ONE_PASS
from measure import median
from names import name_of
from records import spread
from report import committed

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "evaluation"
DOCS, README = ROOT / "docs" / "evaluation.md", ROOT / "README.md"
_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _table(lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], rule, *lines[1:]))


def scores() -> str:
    """The table of `ditto-eval`."""
    record = _read("evaluation.json")
    lines = [["pooler", *_TASKS, "Avg", "mean cosine, STS-B"]]
    for row in record["rows"]:
        cells = [f"{row['tasks'][task]['printed']['all']:.2f}" for task in _TASKS]
        cosine = row["tasks"]["STS-B"]["mean_cosine"]
        lines.append([row["pooler"], *cells, f"{row['average']['all']:.2f}", f"{cosine:.3f}"])
    caption = (
        f"{record['model']}, head {record['head']}, Spearman x100, setting all; post-processing fit on the target."
    )
    return f"{_table(lines)}\n\n{caption}"


def search() -> str:
    """What `ditto-heads` said, and what suite heads found that it costs."""
    verdict = f"> {_read('dev.json')['verdict']}"
    records = committed()
    ours = records.row("heads", suite_heads.CASE, ONE_PASS)
    if ours is None:
        return f"{verdict}\n\nWhat one pass costs is not measured yet: `python benchmarks/run.py --suite heads`."
    parts = [
        f"One pass over {ours['pairs']} pairs scores {ours['heads']} heads with three poolings in "
        f"{median(ours['seconds']):.1f} s."
    ]
    for key in suite_heads.SEPARATE:
        row, found = records.row("heads", suite_heads.CASE, key), cost(records, key)
        if row is not None and found is not None:
            parts.append(
                f"A run a head by {name_of(key)} takes {median(row['seconds']):.1f} s, so {found.seconds:.0f} s for "
                f"all, extrapolated from {len(row['seconds'])} runs: {spread(found.speedup, '{:.0f}x')}."
            )
    parts.append(
        f"Peak memory of the pass: {ours['peak_mb']:.0f} MB, of which imports are {ours['imports_mb']:.0f} MB. Writing "
        f"the states graph, once a checkpoint: {ours['export_seconds']:.1f} s. {ours['cpu']}, {ours['threads']} "
        f"threads; commit {ours['commit'][:10]}."
    )
    return f"{verdict}\n\n{' '.join(parts)}"


def unlabeled() -> str:
    """Regret by criterion and by where the sentences are from."""
    record = _read("unlabeled.json")
    lines = [["chosen by", *(f"sentences of {name}" for name in record["sentences"])]]
    by_criterion: dict[str, list[str]] = {}
    for result in record["sentences"].values():
        for pick in result["picks"]:
            cell = f"{pick['head']}: {pick['spearman']:.2f} (regret {pick['regret']:.2f}, {pick['over_plain']:+.2f})"
            by_criterion.setdefault(pick["criterion"], []).append(cell)
    lines += [[name, *cells] for name, cells in by_criterion.items()]
    any_result = next(iter(record["sentences"].values()))
    agreements = [pick["agreement"] for result in record["sentences"].values() for pick in result["picks"]]
    caption = (
        f"{record['model']}, first-last pooling, average Spearman x100 of the seven sets; in brackets what is lost "
        f"against the best head ({any_result['best_head']}: {any_result['best']:.2f}) and the difference to the plain "
        f"average ({any_result['plain']:.2f}). A head at random: {any_result['random_head']:.2f}. Over all heads the "
        f"criteria correlate with the scores at {min(agreements):+.2f} to {max(agreements):+.2f} (Spearman)."
    )
    return f"{_table(lines)}\n\n{caption}"


def readme() -> str:
    """The README's lines."""
    found, record = _read("dev.json"), _read("unlabeled.json")
    results = list(record["sentences"].values())
    picks = [pick for result in results for pick in result["picks"]]
    worst = max(picks, key=lambda pick: pick["regret"])
    over_plain = sum(pick["over_plain"] > 0 for pick in picks)
    over_random = sum(pick["spearman"] > result["random_head"] for result in results for pick in result["picks"])
    stable = {
        name: {pick["head"] for pick in picks if pick["criterion"] == name} for name in {p["criterion"] for p in picks}
    }
    unstable = sum(len(heads) > 1 for heads in stable.values())
    agreements = [pick["agreement"] for pick in picks]
    works = min(agreements) > 0 and over_plain > 0
    claim = "Heads without labels" if works else "Heads without labels do not work here"
    return (
        f"On {record['model']}: {found['verdict']}\n\n"
        f"{claim} (`--unlabeled`): of {len(picks)} picks by {len(stable)} criteria on {len(results)} sets of "
        f"sentences, {over_plain} beat the plain average over the seven STS sets and {over_random} the mean of all "
        "heads. "
        f"{unstable} of the {len(stable)} criteria pick another head when the sentences change. Over all heads the "
        f"criteria correlate with the scores at {min(agreements):+.2f} to {max(agreements):+.2f}. The worst pick "
        f"({worst['criterion']}, {worst['head']}) loses {worst['regret']:.2f} points against the best head. This is "
        "one model, which the plain average serves best: choose with labels where there are any."
    )


BLOCKS = {"scores": (DOCS, scores), "search": (DOCS, search), "unlabeled": (DOCS, unlabeled), "heads": (README, readme)}


def updated(text: str, name: str, content: str) -> str:
    """The text with the content between the block's markers."""
    start, end = f"<!-- {name}: python benchmarks/evaluation_report.py -->", f"<!-- end of {name} -->"
    before, rest = text.split(start)
    return f"{before}{start}\n{content}\n{end}{rest.split(end)[1]}"


if __name__ == "__main__":
    for block, (path, make) in BLOCKS.items():
        path.write_text(updated(path.read_text(encoding="utf-8"), block, make()), encoding="utf-8")
