"""The text of docs/benchmarks.md and of the README's table; every figure comes from the records."""

from __future__ import annotations

from collections.abc import Iterable

import suite_cpu
import suite_latency
import suite_length
import suite_memory
import suite_precision
from contenders import BASELINE, BY_KEY
from gemm_floor import FLOOR
from job import Row
from measure import median, percentile
from names import name_of
from plots import drawn
from records import MINILM, Records, spread
from targets import TARGETS

_METHOD = """\
# Benchmarks

Written by `python benchmarks/run.py --report` from benchmarks/results/*.jsonl. `python benchmarks/run.py --suite all`
measures on your machine (`--quick` for small sizes), `--compare A.jsonl B.jsonl` shows what changed.

Vectors are checked against independent code on the very sentences that are timed, before any time is taken: fp32 within
the tolerance, int8 by cosine. Contenders take turns in each round (A B C A B C), and ratios are taken round by round:
median, and range in brackets. Sentences are distinct, so that computing each text once gains nothing. All contenders
get the same number of threads. The floor is the model's matrix products with weights at FastEncoder's batches, by the
same runtime on the same threads, and nothing else.
"""
_RESIDENT = ("loaded_mb", "peak_mb", "end_mb")
_STEADY = (
    "Many sentences of mixed lengths through one FastEncoder, then a tenth as many of at most five words; with ONNX "
    "Runtime's arena for comparison."
)


def table(header: Iterable[str], rows: Iterable[Iterable[str]], text_columns: int = 1) -> str:
    """A Markdown table; all but the first columns are figures."""
    names = list(header)
    marks = ["---"] * text_columns + ["---:"] * (len(names) - text_columns)
    lines = [f"| {' | '.join(names)} |", f"|{'|'.join(marks)}|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _machine(row: Row) -> str:
    packages = ("onnxruntime", "torch", "transformers", "sentence-transformers", "openvino", "fastembed")
    versions = ", ".join(f"{name} {row['versions'][name]}" for name in packages if name in row["versions"])
    changes = " with uncommitted changes" if row["dirty"] else ""
    return (
        f"{row['model']}, head {row['head']}, {row['threads']} thread{'s' * (row['threads'] > 1)} of "
        f"{row['cpu']}; {versions}; "
        f"commit {row['commit'][:10]}{changes}, {row['started'][:10]}, load average {row['load']:.1f} at the start."
    )


def _reason(row: Row) -> str:
    """Why a row has no figures, in one line."""
    return str(row["missing"]) if "missing" in row else f"failed: {row['error'].splitlines()[0][:100]}"


def _throughput(records: Records, model: str) -> str:
    rows = []
    for row in sorted(records.suite("cpu", model), key=lambda row: [*BY_KEY, FLOOR].index(row["contender"])):
        key = row["contender"]
        how = BY_KEY[key].how if key in BY_KEY else "weights only, FastEncoder's batches"
        if "seconds" not in row:
            rows.append(
                [name_of(key), how, row.get("missing") or "failed: " + row["error"].split("\n")[0][:80], "", ""]
            )
            continue
        against = records.ratio("cpu", suite_cpu.CASE, BASELINE, key, model)
        of_floor = records.ratio("cpu", suite_cpu.CASE, FLOOR, key, model)
        speed = f"{row['sentences'] / median(row['seconds']):.0f}"
        rows.append([name_of(key), how, speed, spread(against), f"{of_floor[0]:.0%}" if of_floor else ""])
    return table(["contender", "how", "sentences/s", "against the first row", "of the floor"], rows, 2)


def _sentences(rows: list[Row]) -> str:
    timed = next(row for row in rows if row.get("seconds"))
    return f"{timed['sentences']} sentences ({timed['source']}), median (and range) of {len(timed['seconds'])} rounds"


def summary(records: Records) -> str:
    """What the README has between its markers."""
    rows = records.suite("cpu")
    startup = [records.row("startup", case, "fp32") for case in ("import", "cold")]
    words = ""
    if startup[0] and startup[1]:
        seconds = [median(row["seconds"]) for row in startup if row]
        words = f" `import ditto_fast` {seconds[0]:.2f} s; a cold process to its first vector {seconds[1]:.2f} s."
    return f"{_throughput(records, MINILM)}\n\n{_sentences(rows)}; {_machine(rows[0])}{words}"


def _targets(records: Records) -> str:
    rows = (target.cells(records) for target in TARGETS)
    note = (
        "The targets were set on a two-core machine with AVX2 and no VNNI. With AVX-512 torch gains more than ONNX "
        "Runtime, so that ratios to torch are smaller; with VNNI int8 gains more."
    )
    busiest = max(records.rows, key=lambda row: row["load"])
    if busiest["load"] > busiest["cpus"]:
        note += (
            f" **Other jobs held the machine: the load average was {busiest['load']:.1f} on {busiest['cpus']} cores.** "
            "Times are not those of a quiet machine, and a ratio is no better than its range."
        )
    return f"{note}\n\n{table(['target', 'wanted', 'measured', ''], rows)}"


def _lengths(records: Records) -> str:
    keys = list(dict.fromkeys(row["contender"] for row in records.suite("length") if row.get("seconds")))
    rows = []
    for key in keys:
        cells = []
        for tokens in suite_length.LENGTHS:
            case = suite_length.case_of(tokens)
            row = records.row("length", case, key)
            ratio = records.ratio("length", case, BASELINE, key)
            cells.append(f"{row['tokens'] / median(row['seconds']):.0f} ({ratio[0]:.2f}x)" if row and ratio else "")
        rows.append([name_of(key), *cells])
    header = ["tokens/s (against the first row)", *(suite_length.case_of(tokens) for tokens in suite_length.LENGTHS)]
    return table(header, rows)


def _latency(records: Records) -> str:
    rows = []
    for row in records.suite("latency"):
        if row.get("seconds"):
            against = records.ratio("latency", suite_latency.CASE, BASELINE, row["contender"])
            figures = [f"{1000 * percentile(row['seconds'], percent):.1f}" for percent in (50, 95)]
            rows.append([name_of(row["contender"]), *figures, f"{against[0]:.2f}x" if against else ""])
    return table(["one sentence", "p50 ms", "p95 ms", "against the first row"], rows)


def _memory(records: Records) -> str:
    keys = [row["contender"] for row in records.suite("memory") if row["case"] == suite_memory.case_of(512)]
    rows = []
    for key in keys:
        found = [records.row("memory", suite_memory.case_of(tokens), key) for tokens in suite_memory.LENGTHS]
        rows.append([name_of(key), *(f"{row['extra_mb']:.0f}" if row else "" for row in found)])
    header = ["MB over the loaded model", *(suite_memory.case_of(tokens) for tokens in suite_memory.LENGTHS)]
    return table(header, rows)


def _steady(records: Records) -> str:
    rows = [
        [
            name_of(row["contender"]),
            f"{row['sentences']}",
            *(f"{row[k]:.0f}" for k in ("loaded_mb", "peak_mb", "end_mb")),
        ]
        for row in records.suite("memory")
        if row["case"] == suite_memory.STEADY and "peak_mb" in row
    ]
    header = ["resident memory, MB", "sentences", "after loading", "peak", "at the end"]
    return f"{_STEADY}\n\n{table(header, rows)}"


def _precision(records: Records) -> str:
    rows = []
    for row in records.suite("precision"):
        if row.get("seconds"):
            scores = [f"{row[key]:.2f}" if key in row else "" for key in ("spearman_dev", "spearman_test")]
            against = records.ratio("precision", suite_precision.CASE, "fp32", row["contender"])
            alone = f"{row['cosine_alone']:.5f}"
            rows.append([name_of(row["contender"]), spread(against), *scores, f"{row['cosine_min']:.4f}", alone])
    header = [
        "",
        "against ditto_fast",
        "STS-B dev",
        "STS-B test",
        "least cosine with its check",
        "alone and in a batch",
    ]
    return table(header, rows)


def _plain(records: Records, suite: str) -> str:
    """Sentences a second and ratios to the first row of each case."""
    rows = []
    first: dict[str, str] = {}
    for row in (row for row in records.suite(suite) if row.get("seconds")):
        case, key = row["case"], row["contender"]
        ratio = records.ratio(suite, case, first.setdefault(case, key), key)
        speed = f"{row['sentences'] / median(row['seconds']):.0f}" if "sentences" in row else ""
        rows.append([case, name_of(key), f"{median(row['seconds']):.2f}", speed, spread(ratio)])
    return table(["case", "", "seconds", "sentences/s", "against the first of the case"], rows, 2)


def _not_measured(records: Records) -> str:
    lines = [
        f"- {row['suite']}, {row['model']}, {row['case']}, {name_of(row['contender'])}: {_reason(row)}"
        for row in records.rows
        if "missing" in row or "error" in row
    ]
    return "\n".join(lines) or "Nothing."


def document(records: Records) -> str:
    """The text of docs/benchmarks.md: a section for each suite that has records."""
    parts = [_METHOD, "## Targets\n", _targets(records), ""]
    for model in dict.fromkeys(row["model"] for row in records.rows if row["suite"] == "cpu"):
        rows = records.suite("cpu", model)
        parts += [
            f"## Throughput: {model}\n",
            _throughput(records, model),
            "",
            f"{_sentences(rows)}; {_machine(rows[0])}\n",
        ]
    sections = {
        "length": ("Length of the texts", _lengths),
        "latency": ("Latency", _latency),
        "memory": ("Memory of long texts", _memory),
        "precision": ("Precision", _precision),
        "scale": ("Number of sentences", lambda records: _plain(records, "scale")),
        "budget": ("Tokens of a batch, and layout of the threads", lambda records: _plain(records, "budget")),
        "graphs": ("Other graphs of the model", lambda records: _plain(records, "graphs")),
        "startup": ("Start", lambda records: _plain(records, "startup")),
    }
    for suite, (title, body) in sections.items():
        if rows := records.suite(suite):
            parts += [f"## {title}\n", body(records), "", f"{_machine(rows[0])}\n"]
    if records.row("memory", suite_memory.STEADY, "int8"):
        parts += ["## Steady memory\n", _steady(records), ""]
    parts += ["## Plots\n", *(f"![{title}](benchmarks/{file})\n" for file, title in drawn(records).items())]
    parts += ["## Not measured\n", _not_measured(records), ""]
    return "\n".join(parts)
