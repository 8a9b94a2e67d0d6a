"""The text of docs/benchmarks.md and of the README's table; every figure comes from the records."""

from __future__ import annotations

import suite_cpu
import suite_memory
import suite_profile
from contenders import BASELINE, BY_KEY, floor_of
from gemm_floor import FLOORS
from job import Row
from measure import median
from names import name_of
from plots import PLOTS, THROUGHPUT, drawn
from records import MINILM, Records, spread
from section_tables import not_measured, reason, table
from sections import SECTIONS, steady
from targets import TARGETS
from workspace import RANDOM_BASE

_METHOD = """\
# Benchmarks

Written by `python benchmarks/run.py --report` from benchmarks/results/*.jsonl. `python benchmarks/run.py --suite all`
measures on your machine (`--quick` for small sizes), `--compare A.jsonl B.jsonl` shows what changed.

Vectors are checked against independent code on the very sentences that are timed, before any time is taken: fp32 within
the tolerance; int8 by its cosines, as they are and less the mean of all texts, and by its norms. Suite scale checks the
first 1,000 and gpu the first 64; heads, ray and memory are checked after they are measured. Budget, graphs, ray and the
race of scale compare ways of ours, and check each against another of ours. Contenders take turns in each round (A B C A
B C); suites heads, ray, memory and startup run each way in processes of its own. Ratios are taken round by round:
median, and range in brackets. Sentences are distinct, so that computing each text once gains nothing. All contenders
get the same number of threads. The floor is the model's matrix products with weights, at FastEncoder's batches, by the
same runtime on the same threads, and nothing else; int8 is held against a floor of its own, the products in int8. A
peer's own int8 may be a little looser than ours: how close it comes to fp32 is its least cosine. A target is met by the
median; its range may lie on both sides.
"""
_RANDOM = " (random weights)"  # as fast as trained ones, and vectors of no use


def _machine(row: Row) -> str:
    packages = ("onnxruntime", "torch", "transformers", "sentence-transformers", "openvino", "nncf", "fastembed")
    versions = ", ".join(f"{name} {row['versions'][name]}" for name in packages if name in row["versions"])
    changes = " with uncommitted changes" if row["dirty"] else ""
    return (
        f"{row['model']}, head {row['head']}, {_threads(row)}; {versions}; commit {_commit(row)}{changes}, "
        f"{row['started'][:10]}, load average {row['load']:.1f} at the start."
    )


def _threads(row: Row) -> str:
    """The processor, and how much of it was used."""
    instructions = " with " + ", ".join(row["instructions"]) if row.get("instructions") else ""
    return f"{row['threads']} thread{'s' * (row['threads'] > 1)} of {row['cpu']}{instructions}"


def _commit(row: Row) -> str:
    return row["commit"][:10] or "unknown"


def _throughput(records: Records, model: str) -> str:
    rows = []
    for row in sorted(records.suite("cpu", model), key=lambda row: [*BY_KEY, *FLOORS.values()].index(row["contender"])):
        key = row["contender"]
        how = BY_KEY[key].how if key in BY_KEY else "weights only, FastEncoder's batches"
        if not row.get("seconds"):
            rows.append([name_of(key), how, reason(row), "", "", ""])
            continue
        against = records.ratio("cpu", suite_cpu.CASE, BASELINE, key, model)
        of_floor = records.ratio("cpu", suite_cpu.CASE, floor_of(key), key, model)
        speed = f"{row['sentences'] / median(row['seconds']):.0f}"
        close = f"{row['cosine_min']:.4f}" if "cosine_min" in row else ""
        rows.append([name_of(key), how, speed, spread(against), f"{of_floor[0]:.0%}" if of_floor else "", close])
    header = ["contender", "how", "sentences/s", "against the first row", "of its floor", "least cosine with its check"]
    return table(header, rows, 2)


def _sentences(timed: Row) -> str:
    return f"{timed['sentences']} sentences ({timed['source']}), median (and range) of {len(timed['seconds'])} rounds"


def summary(records: Records) -> str:
    """What the README has between its markers."""
    rows = records.timed("cpu")
    if not rows:
        return "Not measured yet: `python benchmarks/run.py --suite cpu`."
    startup = [records.row("startup", case, "fp32") for case in ("import", "cold")]
    words = ""
    if startup[0] and startup[1]:
        seconds = [median(row["seconds"]) for row in startup if row]
        words = (
            f" `import ditto_fast` {seconds[0]:.2f} s; a cold process to its first vector {seconds[1]:.2f} s "
            f"(commit {_commit(startup[0])})."
        )
    picture = f"![{PLOTS[THROUGHPUT]}](docs/benchmarks/{THROUGHPUT})"
    return f"{_throughput(records, MINILM)}\n\n{picture}\n\n{_sentences(rows[0])}; {_machine(rows[0])}{words}"


def _targets(records: Records) -> str:
    notes = ["The targets were set on a two-core machine with AVX2 and no VNNI.", _machines(records), _shares(records)]
    notes.append(_load(records))
    rows = (target.cells(records) for target in TARGETS)
    return f"{' '.join(filter(None, notes))}\n\n{table(['target', 'wanted', 'measured', ''], rows)}"


def _machines(records: Records) -> str:
    """What the records were measured on, and by which suites where that is not one."""
    suites: dict[str, list[str]] = {}
    for row in records.rows:
        suites.setdefault(_threads(row), []).append(row["suite"])
    if len(suites) < 2:
        return "".join(f"The records are of {machine}." for machine in suites)
    each = (f"{machine} ({', '.join(dict.fromkeys(names))})" for machine, names in suites.items())
    return f"**The records are of more than one machine or number of threads**: {'; '.join(each)}."


def _shares(records: Records) -> str:
    """Where fp32's time goes."""
    spent = records.row("profile", suite_cpu.CASE, "fp32")
    if spent is None:
        return ""
    products = sum(spent["shares"].get(name, 0) for name in suite_profile.PRODUCTS)
    others = [name for name in spent["shares"] if name not in suite_profile.PRODUCTS]
    largest = sorted(others, key=lambda name: -spent["shares"][name])[:3]
    shares = ", ".join(f"{name} {spent['shares'][name]:.0%}" for name in largest)
    return (
        f"Of fp32's time inside operators {products:.0%} are the floor's own products; the largest of the rest "
        f"are ONNX Runtime's kernels {shares} (Where the time goes)."
    )


def _load(records: Records) -> str:
    """A warning where the machine was not quiet."""
    busiest = max(records.rows, key=lambda row: row["load"], default=None)
    if busiest is None or busiest["load"] <= busiest["cpus"]:
        return ""
    return (
        f"**The load average was {busiest['load']:.1f} on {busiest['cpus']} cores when suite {busiest['suite']} "
        "began**, from other jobs or from the suite before it: times may not be those of a quiet machine, and a "
        "ratio is no better than its range."
    )


def document(records: Records) -> str:
    """The text of docs/benchmarks.md: a section for each suite that has figures."""
    parts = [_METHOD, "## Targets\n", _targets(records), ""]
    models = dict.fromkeys(row["model"] for row in records.rows)
    for model in sorted(models, key=lambda model: model != MINILM):
        if rows := records.timed("cpu", model):
            parts += [
                f"## Throughput: {model}{_RANDOM * (model == RANDOM_BASE)}\n",
                _throughput(records, model),
                "",
                f"{_sentences(rows[0])}; {_machine(rows[0])}\n",
            ]
    for suite, (title, body) in SECTIONS.items():
        if rows := records.measured(suite):
            parts += [f"## {title}\n", body(records), "", f"{_machine(rows[0])}\n"]
    if records.row("memory", suite_memory.STEADY, "int8"):
        parts += ["## Steady memory\n", steady(records), ""]
    if plots := drawn(records):
        parts += ["## Plots\n", *(f"![{title}](benchmarks/{file})\n" for file, title in plots.items())]
    parts += ["## Not measured\n", not_measured(records), ""]
    return "\n".join(parts)
