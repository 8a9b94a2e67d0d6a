"""The sections of docs/benchmarks.md, one a suite; every figure comes from the records."""

from __future__ import annotations

from collections.abc import Callable

import suite_gpu
import suite_heads
import suite_latency
import suite_length
import suite_memory
import suite_precision
import suite_profile
import suite_ray
import suite_scale
from contenders import BASELINE
from head_cost import cost
from heads_probe import ONE_PASS
from measure import median, percentile
from names import name_of
from records import Records, spread
from section_tables import of_floor, on_gpu, table, times

_STEADY = (
    "Many sentences of mixed lengths through one FastEncoder, then a tenth as many of at most five words; and "
    "without ONNX Runtime's arena."
)
_LENGTH = (
    "Texts of exactly so many tokens, so many a call, one call after the other; FastEncoder makes its own batches of a "
    "call, and the others' are no larger than a call. In brackets: against the first row, and of its floor."
)
_SCALE = (
    f"Synthetic sentences; vectors are checked on the first {suite_scale.COUNTS[0]}. A peer stops where a round would "
    f"take more than {suite_scale.PATIENCE} s."
)
_FILES = (
    "Memory of encode_corpus by the rows of its input, distinct and of a few tokens, each in a process of its own; ids "
    "are checked to be there in order, and vectors against encode's."
)
_RAY = (
    "A worker is an actor of one thread, the rate that of workers that run: their start and first batch are beside it. "
    "The prediction is docs/distributed.md's."
)
_PROFILE = (
    "Shares of the time inside operators, by ONNX Runtime's profiler, on one thread: suite cpu's sentences, and long "
    "texts. What the floor has is the products with weights; what is under 0.5 % everywhere is left out."
)
_LEAST_SHARE = 0.005
_MEMORY_CASES = tuple(map(suite_memory.case_of, suite_memory.LENGTHS))
_KERNELS = (
    "fp16 tensors that are on the card, batches of B texts of T tokens; the floor and the work that rates count are "
    "those of docs/kernels.md."
)
_GPU = f"Texts of {suite_gpu.TOKENS} tokens, from text to vectors; the floor is the card's matrix rate, as measured."


def _lengths(records: Records) -> str:
    measured = records.timed("length")
    rows = []
    for size in suite_length.SIZES:
        for key in dict.fromkeys(row["contender"] for row in measured if row["size"] == size):
            cells = []
            for tokens in suite_length.LENGTHS:
                case = suite_length.case_of(tokens, size)
                row, ratio = records.row("length", case, key), records.ratio("length", case, BASELINE, key)
                if row and ratio:
                    fraction = of_floor(records, "length", case, key)
                    against = f"{ratio[0]:.2f}x{', ' * bool(fraction)}{fraction}"
                    cells.append(f"{row['tokens'] / median(row['seconds']):.0f} ({against})")
                else:
                    cells.append("")
            rows.append([str(size), name_of(key), *cells])
    header = ["texts a call", "tokens/s", *(f"T = {tokens}" for tokens in suite_length.LENGTHS)]
    return f"{_LENGTH}\n\n{table(header, rows, 2)}"


def _latency(records: Records) -> str:
    measured = records.timed("latency")
    rows = []
    for key in dict.fromkeys(row["contender"] for row in measured):
        cells = []
        for case in suite_latency.CASES:
            row, ratio = records.row("latency", case, key), records.ratio("latency", case, BASELINE, key)
            cells += [f"{1000 * percentile(row['seconds'], percent):.1f}" if row else "" for percent in (50, 95)]
            cells += [f"{ratio[0]:.2f}x" if ratio else "", of_floor(records, "latency", case, key)]
        rows.append([name_of(key), *cells])
    figures = ("p50 ms", "p95 ms", "against the first row", "of its floor")
    header = ["one sentence", *(f"{case}: {figure}" for case in suite_latency.CASES for figure in figures)]
    return table(header, rows)


def _memory(records: Records) -> str:
    keys = [row["contender"] for row in records.suite("memory") if row["case"] == suite_memory.case_of(512)]
    rows = []
    for key in keys:
        found = [records.row("memory", case, key) for case in _MEMORY_CASES]
        loaded = next((f"{row['loaded_mb']:.0f}" for row in found if row), "")
        rows.append([name_of(key), loaded, *(f"{row['extra_mb']:.0f}" if row else "" for row in found)])
    header = ["MB", "process with the model loaded", *(f"over it, {case}" for case in _MEMORY_CASES)]
    return table(header, rows)


def steady(records: Records) -> str:
    """Memory over a long run."""
    rows = [
        [
            name_of(row["contender"]),
            f"{row['sentences']}",
            *(f"{row[name]:.0f}" for name in ("loaded_mb", "peak_mb", "end_mb")),
        ]
        for row in records.suite("memory")
        if row["case"] == suite_memory.STEADY and "peak_mb" in row
    ]
    header = ["resident memory, MB", "sentences", "after loading", "peak", "at the end"]
    return f"{_STEADY}\n\n{table(header, rows)}"


def _precision(records: Records) -> str:
    rows = []
    for row in records.suite("precision"):
        if row.get("seconds") and "cosine_alone" in row:
            scores = [f"{row[key]:.2f}" if key in row else "" for key in ("spearman_dev", "spearman_test")]
            against = records.ratio("precision", suite_precision.CASE, "fp32", row["contender"])
            fraction = of_floor(records, "precision", suite_precision.CASE, row["contender"])
            close = [f"{row['cosine_min']:.4f}", f"{row['cosine_alone']:.5f}"]
            rows.append([name_of(row["contender"]), spread(against), fraction, *scores, *close])
    header = [
        "",
        "against ditto_fast",
        "of its floor",
        "STS-B dev",
        "STS-B test",
        "least cosine with its check",
        "alone and in a batch",
    ]
    return table(header, rows)


def _scale(records: Records) -> str:
    """Calls, then files."""
    memory = [
        [f"{row['sentences']:,}", *(f"{row[name]:.0f}" for name in ("loaded_mb", "peak_mb"))]
        for row in records.suite("scale")
        if "peak_mb" in row
    ]
    files = table(["rows of a file", "MB after loading", "peak MB"], memory, 0)
    return f"{_SCALE}\n\n{times(records, 'scale')}\n\n{_FILES}\n\n{files}"


def _profile(records: Records) -> str:
    columns = [row for row in records.suite("profile") if "shares" in row]
    operators = {name: max(row["shares"].get(name, 0) for row in columns) for row in columns for name in row["shares"]}
    shown = sorted((name for name in operators if operators[name] >= _LEAST_SHARE), key=lambda name: -operators[name])
    rows = [
        [name, *(f"{row['shares'][name]:.1%}" if name in row["shares"] else "" for row in columns)] for name in shown
    ]
    products = [sum(row["shares"].get(name, 0) for name in suite_profile.PRODUCTS) for row in columns]
    rows.append(["products with weights, as in the floor", *(f"{share:.1%}" for share in products)])
    header = ["operator", *(f"{name_of(row['contender'])}, {row['case']}" for row in columns)]
    return f"{_PROFILE}\n\n{table(header, rows)}"


def _heads(records: Records) -> str:
    rows = []
    for row in records.timed("heads"):
        found = cost(records, row["contender"])
        figures = [f"{median(row['seconds']):.2f}", str(row["heads"])]
        if found is not None:
            label = " (extrapolated)" * (row["heads"] < found.heads)
            figures += [f"{found.seconds:.0f}{label}", spread(found.speedup), f"{row['peak_mb']:.0f}"]
        rows.append([name_of(row["contender"]), *figures])
    first = records.row("heads", suite_heads.CASE, ONE_PASS)
    words = "" if first is None else f"{first['pairs']} pairs of STS-B dev, {first['heads']} heads. "
    header = ["", "seconds a run", "heads a run", "seconds, all heads", "the pass against it", "peak MB"]
    note = f"{words}Each way in a process of its own, loaded and exported before it is timed."
    return f"{note}\n\n{table(header, rows)}"


def _ray(records: Records) -> str:
    """Rates beside the prediction: workers, as far as there are cores, times the rate of one process."""
    alone = records.row("ray", suite_ray.CASE, suite_ray.ALONE)
    rates = {
        row["contender"]: row["sentences"] / median(row["seconds"]) for row in records.suite("ray") if "seconds" in row
    }
    rows = []
    for workers in suite_ray.WORKERS:
        row = records.row("ray", suite_ray.CASE, suite_ray.name_of_workers(workers))
        if row and alone:
            rate, predicted = rates[row["contender"]], rates[suite_ray.ALONE] * min(workers, row["cpus"])
            figures = [
                f"{rate:.0f}",
                f"{predicted:.0f}",
                f"{rate / predicted:.2f}",
                f"{median(row['start_seconds']):.1f}",
            ]
            rows.append([row["contender"], *figures])
    header = ["", "sentences/s", "predicted", "efficiency", "start and first batch, s"]
    said = f"FastEncoder in one process on one thread: {rates.get(suite_ray.ALONE, 0):.0f} sentences/s. "
    return f"{said}{_RAY}\n\n{table(header, rows)}"


SECTIONS: dict[str, tuple[str, Callable[[Records], str]]] = {
    "length": ("Length of the texts", _lengths),
    "latency": ("Latency", _latency),
    "memory": ("Memory of long texts", _memory),
    "precision": ("Precision", _precision),
    "profile": ("Where the time goes", _profile),
    "heads": ("All heads in one pass", _heads),
    "scale": ("Number of sentences", _scale),
    "budget": ("Tokens of a batch, and layout of the threads", lambda records: times(records, "budget")),
    "graphs": ("Other graphs of the model", lambda records: times(records, "graphs")),
    "ray": ("Workers of a Ray cluster", _ray),
    "startup": ("Start", lambda records: times(records, "startup")),
    "kernels": ("Kernels on a GPU", lambda records: on_gpu(records, "kernels", _KERNELS)),
    "gpu": ("FastEncoder on a GPU", lambda records: on_gpu(records, "gpu", _GPU)),
}
