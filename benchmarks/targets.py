"""The targets of this project, and what the records say of each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import suite_cpu
import suite_gpu
import suite_length
import suite_memory
import suite_precision
from corpus_files import CORPUS, RACE
from gemm_floor import FLOOR
from head_cost import cost
from measure import median
from records import MINILM, Records, spread
from workspace import RANDOM_BASE

# what was measured, as text and as the number that is held against the bound
Figure = tuple[str, float]


@dataclass(frozen=True)
class Target:
    """One target.

    Args:
        what: In words.
        bound: The number.
        at_least: Whether the figure must be at least the bound, else at most.
        form: How the bound is printed.
        measured: The figure in the records, None where it was not measured.
    """

    what: str
    bound: float
    at_least: bool
    form: str
    measured: Callable[[Records], Figure | None]

    def cells(self, records: Records) -> list[str]:
        """What, bound, figure and verdict, as the table has them."""
        wanted = f"{'>=' if self.at_least else '<='} {self.form.format(self.bound)}"
        figure = self.measured(records)
        if figure is None:
            return [self.what, wanted, "", "not measured"]
        text, value = figure
        met = (operator.ge if self.at_least else operator.le)(value, self.bound)
        return [self.what, wanted, text, "met" if met else "**missed**"]


def _ratio(
    suite: str, case: str, slow: str, fast: str, model: str = MINILM, form: str = "{:.2f}x"
) -> Callable[[Records], Figure | None]:
    def measured(records: Records) -> Figure | None:
        ratio = records.ratio(suite, case, slow, fast, model)
        return None if ratio is None else (spread(ratio, form), ratio[0])

    return measured


def _openvino(records: Records) -> Figure | None:
    """Against whichever of its two ways is the faster here."""
    ways = (records.ratio(*_CPU, key, "fp32") for key in ("openvino", "openvino-requests"))
    least = min(filter(None, ways), default=None)
    return None if least is None else (spread(least), least[0])


def _seconds(case: str) -> Callable[[Records], Figure | None]:
    def measured(records: Records) -> Figure | None:
        row = records.row("startup", case, "fp32")
        if row is None:
            return None
        samples = row["seconds"]
        return f"{median(samples):.2f} s ({min(samples):.2f} to {max(samples):.2f})", median(samples)

    return measured


def _extra_memory(records: Records) -> Figure | None:
    case = suite_memory.case_of(512)
    eager, own = (records.row("memory", case, key) for key in ("eager", "fp32"))
    if eager is None or own is None:
        return None
    share = own["extra_mb"] / eager["extra_mb"]
    return f"{share:.2f} ({own['extra_mb']:.0f} MB against {eager['extra_mb']:.0f} MB)", share


def _spearman_loss(records: Records) -> Figure | None:
    full, small = (records.row("precision", suite_precision.CASE, key) for key in ("fp32", "int8"))
    if full is None or small is None or "spearman_test" not in full:
        return None
    loss = full["spearman_test"] - small["spearman_test"]
    return f"{loss:.2f} ({full['spearman_test']:.2f} and {small['spearman_test']:.2f})", loss


def _company(records: Records) -> Figure | None:
    row = records.row("precision", suite_precision.CASE, "int8")
    return None if row is None else (f"{row['cosine_alone']:.5f}", row["cosine_alone"])


def _head_search(records: Records) -> Figure | None:
    found = cost(records, "fp32")
    return None if found is None else (f"{spread(found.speedup, '{:.0f}x')}, extrapolated", found.speedup[0])


def _pool_bandwidth(records: Records) -> Figure | None:
    """The least of the shapes, None where one failed."""
    copy = records.row("kernels", "device", "copy")
    pools = [row for row in records.suite("kernels") if row["contender"] == "weighted_pool"]
    if copy is None or not pools or not all(row.get("seconds") for row in pools):
        return None
    least = min(pools, key=lambda row: row["gb_per_second"])
    share = least["gb_per_second"] / copy["gb_per_second"]
    return f"{share:.0%} at least ({least['case'].removeprefix('pool, ')})", share


def _over_floor(records: Records) -> Figure | None:
    row = records.row("kernels", "ditto, B 1024, T 128", "ditto_pool")
    return None if row is None else (f"{1 / row['of_floor']:.2f}x", 1 / row["of_floor"])


def _gpu_rate(records: Records) -> Figure | None:
    row = records.row("gpu", f"T = {suite_gpu.TOKENS}", "fp16")
    return None if row is None else (f"{row['of_floor']:.0%}", row["of_floor"])


_CPU = ("cpu", suite_cpu.CASE)
_LONG = ("length", suite_length.case_of(512, 8))
TARGETS = (
    Target("fp32 against the authors' eager path, unsorted", 2.8, True, "{}x", _ratio(*_CPU, "eager", "fp32")),
    Target("fp32 against the authors' path with sorting", 1.2, True, "{}x", _ratio(*_CPU, "eager-sorted", "fp32")),
    Target("fp32 against sentence-transformers on torch", 2.0, True, "{:g}x", _ratio(*_CPU, "st", "fp32")),
    Target("fp32 against sentence-transformers on ONNX", 2.0, True, "{:g}x", _ratio(*_CPU, "st-onnx", "fp32")),
    Target("fp32 against OpenVINO on our graph, its faster way", 1.05, True, "{}x", _openvino),
    Target("fp32 against the floor, MiniLM", 0.90, True, "{:.0%}", _ratio(*_CPU, FLOOR, "fp32", form="{:.0%}")),
    Target(
        "fp32 against the floor, base width",
        0.95,
        True,
        "{:.0%}",
        _ratio(*_CPU, FLOOR, "fp32", RANDOM_BASE, form="{:.0%}"),
    ),
    Target("int8 against our fp32", 1.7, True, "{}x", _ratio(*_CPU, "fp32", "int8")),
    Target("int8: STS-B test Spearman lost", 0.2, False, "{}", _spearman_loss),
    Target("int8: cosine alone and in a batch", 0.99999, True, "{}", _company),
    Target("int8 against the authors' eager path", 4.5, True, "{}x", _ratio(*_CPU, "eager", "int8")),
    Target(
        "encode_corpus (ditto-encode) against encode",
        0.95,
        True,
        "{:.0%}",
        _ratio("scale", RACE, "int8", CORPUS, form="{:.1%}"),
    ),
    Target("512 tokens: time against the authors' path", 2.3, True, "{}x", _ratio(*_LONG, "eager", "fp32")),
    Target("512 tokens: extra memory of the authors' path's", 0.2, False, "{}", _extra_memory),
    Target("`import ditto_fast`", 0.3, False, "{} s", _seconds("import")),
    Target("a cold process to its first vector", 0.8, False, "{} s", _seconds("cold")),
    Target("head search in one pass against separate runs", 50, True, "{}x", _head_search),
    Target("GPU: weighted_pool of the copy bandwidth", 0.9, True, "{:.0%}", _pool_bandwidth),
    Target("GPU: ditto_pool at T = 128 over its floor", 1.3, False, "{}x", _over_floor),
    Target("GPU: FastEncoder fp16 of the matmul rate at T = 128", 0.5, True, "{:.0%}", _gpu_rate),
)
