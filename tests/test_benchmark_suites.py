"""Suites that measure more than encoders side by side, on tiny models, and the page that shows all of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import suite_heads
import suite_kernels
import suite_length
import suite_profile
import suite_ray
import suite_scale
import torch
from contenders import BY_KEY, in_calls
from gate import Field
from head_cost import cost
from heads_probe import ONE_PASS, measured, one_head, one_pass
from job import Job, Row, Setting, Vectors, parts
from pages import document, summary
from plots import drawn
from records import CRASHED, Records
from suite_profile import operator_seconds
from suites import SUITES
from targets import TARGETS
from workspace import RANDOM_BASE

from ditto_fast import FastEncoder
from ditto_fast.errors import ParityError
from ditto_fast.evaluation.tasks import Subset
from ditto_fast.evaluation.with_torch.states_graph import cached_states
from ditto_fast.heads import Head

TEXTS = ["a cat", "the old man walks by", "rain", "a dog sleeps in the sun", "two words", "one more of them"]


@pytest.fixture
def tiny(checkpoint: Callable[[str], Path], tiny_export: Path) -> Setting:
    return Setting(checkpoint("bert"), tiny_export, Head.parse("2-3"), 1)


def test_one_pass_and_a_run_a_head_give_the_same_score(tiny: Setting, tmp_path: Path):
    dev = Subset("dev", TEXTS, [*TEXTS[1:], TEXTS[0]], np.arange(len(TEXTS), dtype=np.float64))  # no pair twice
    scores = one_pass(cached_states(str(tiny.checkpoint), tmp_path))(dev)
    assert len(scores) == 3 * 4
    for key in suite_heads.SEPARATE:
        suite_heads._require_same(key, one_head(key, tiny)(dev), scores)
    with pytest.raises(ParityError, match="Head 2-3"):
        suite_heads._require_same("fp32", {"2-3": scores["2-3"] + 0.1}, scores)


def test_heads_without_data_say_so(tiny: Setting):
    (row,) = SUITES["heads"](Job(tiny, TEXTS, 1, quick=True))
    assert "--senteval" in row["missing"]


def test_a_way_is_built_once_and_warm_before_it_is_timed():
    dev = Subset("dev", TEXTS * 2, TEXTS * 2, np.arange(2.0 * len(TEXTS)))
    built, sizes = [], []

    def build():
        built.append(1)
        return lambda pairs: sizes.append(len(pairs)) or {"2-3": 0.5}

    found = measured(build, dev)
    assert (built, sizes) == ([1], [8, 12])
    assert found["scores"] == {"2-3": 0.5}
    assert found["peak_mb"] >= found["imports_mb"] > 0 < found["seconds"]


@dataclass
class Probes:
    """Stands for the processes of suite heads: notes the way of each; those of these numbers fail, or score wrong."""

    failing: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()
    keys: list[str] = field(default_factory=list)

    def __call__(self, _: Path, arguments: Sequence[str]) -> Row:
        number = len(self.keys)
        self.keys.append(arguments[0])
        if number in self.failing:
            raise RuntimeError("it ended")
        scores = {"2-3": 0.9 if number in self.wrong else 0.5}
        return {"seconds": float(number), "scores": scores, "imports_mb": 1.0 * number, "peak_mb": 50.0 + number % 4}

    def rows(self, setting: Setting, monkeypatch: pytest.MonkeyPatch, quick: bool = False) -> list[Row]:
        """The suite's, after two rounds."""
        monkeypatch.setattr(suite_heads, "in_process", self)
        monkeypatch.setattr(suite_heads, "cached_states", lambda _, cache: cache)
        return list(SUITES["heads"](Job(setting, TEXTS, 2, quick, senteval=Path("data"))))


def test_ways_to_score_heads_take_turns(tiny: Setting, monkeypatch):
    probes = Probes()
    rows = probes.rows(tiny, monkeypatch)
    assert probes.keys == 2 * [ONE_PASS, *suite_heads.SEPARATE]
    assert [row["contender"] for row in rows] == [ONE_PASS, *suite_heads.SEPARATE]
    assert [row["seconds"] for row in rows] == [[0, 3], [1, 4], [2, 5]]
    assert [(row["peak_mb"], row["imports_mb"]) for row in rows] == [(53, 3), (51, 1), (52, 2)]
    assert ["export_seconds" in row for row in rows] == [True, False, False]
    quick = Probes()
    quick.rows(tiny, monkeypatch, quick=True)
    assert quick.keys == [ONE_PASS, *suite_heads.SEPARATE]


@pytest.mark.parametrize("probes", [Probes(failing=(1,)), Probes(wrong=(1,))])
def test_a_way_to_score_heads_that_fails_costs_a_row(probes: Probes, tiny: Setting, monkeypatch):
    one, failed, eager = probes.rows(tiny, monkeypatch)
    assert probes.keys == [ONE_PASS, "fp32", "eager", ONE_PASS, "eager"]
    assert failed["contender"] == "fp32"
    assert ("it ended" if probes.failing else "ParityError") in failed["error"]
    assert (one["seconds"], eager["seconds"]) == ([0, 3], [2, 4])


@pytest.mark.parametrize(
    ("probes", "ran"), [(Probes(failing=(0,)), 1), (Probes(failing=(3,)), 4), (Probes(wrong=(3,)), 4)]
)
def test_without_the_one_pass_the_suite_ends(probes: Probes, ran: int, tiny: Setting, monkeypatch):
    with pytest.raises((RuntimeError, ParityError)):
        probes.rows(tiny, monkeypatch)
    assert len(probes.keys) == ran


@pytest.fixture
def on_ray(monkeypatch) -> list[tuple[object, int]]:
    """The order of what suite ray runs on 8 texts, two a batch, with no cluster: who, and how many texts."""
    ran: list[tuple[object, int]] = []

    def workers_on_ray(export: Path, texts: list[str], workers: int) -> tuple[float, Vectors]:
        ran.append((workers, len(texts)))
        return float(len(texts)), FastEncoder(export, num_threads=1).encode(texts)

    monkeypatch.setitem(sys.modules, "ray", MagicMock())
    monkeypatch.setattr(suite_ray, "find_spec", lambda name: name)
    monkeypatch.setattr(suite_ray, "_SENTENCES", 8)
    monkeypatch.setattr(suite_ray, "_BATCH", 2)
    monkeypatch.setattr(suite_ray, "_ROUNDS", 2)
    monkeypatch.setattr(suite_ray, "_alone", lambda _, texts: ran.append(("alone", len(texts))))
    monkeypatch.setattr(suite_ray, "_on_ray", workers_on_ray)
    return ran


def test_workers_take_turns_with_one_process(on_ray: list[tuple[object, int]], tiny: Setting):
    rows = list(SUITES["ray"](Job(tiny, TEXTS, 1)))
    assert on_ray == 2 * [("alone", 8), (1, 2), (1, 8), (2, 4), (2, 8)]
    assert [row["contender"] for row in rows] == ["one process", "1 worker", "2 workers"]
    assert [row["sentences"] for row in rows] == [8, 6, 4]
    assert len(rows[0]["seconds"]) == 2
    assert [(row["workers"], row["seconds"], row["start_seconds"]) for row in rows[1:]] == [
        (1, [6, 6], [2, 2]),
        (2, [4, 4], [4, 4]),
    ]
    assert (sys.modules["ray"].init.call_count, sys.modules["ray"].shutdown.call_count) == (1, 1)


def test_workers_that_fail_cost_a_row(on_ray: list[tuple[object, int]], tiny: Setting, monkeypatch):
    works = suite_ray._on_ray
    monkeypatch.setattr(suite_ray, "_on_ray", lambda *given: works(*given) if given[2] == 2 else (1.0, np.ones((8, 2))))
    alone, failed, two = SUITES["ray"](Job(tiny, TEXTS, 1))
    assert "ParityError" in failed["error"]
    assert on_ray == 2 * [("alone", 8), (2, 4), (2, 8)]
    assert len(alone["seconds"]) == len(two["seconds"]) == 2


def test_a_profile_has_shares_of_one(tiny: Setting):
    rows = list(SUITES["profile"](Job(tiny, TEXTS, 1, quick=True)))
    assert [row["contender"] for row in rows] == ["fp32", "int8"] * 2
    assert all(("shares" in row) == (row["contender"] == "fp32") for row in rows)  # the export has fp32 alone
    assert sum(rows[0]["shares"].values()) == pytest.approx(1, abs=0.01)
    assert sum(rows[0]["shares"].get(name, 0) for name in suite_profile.PRODUCTS) > 0


def test_an_operator_that_holds_others_is_not_counted_twice():
    def event(name: str, operator: str, micros: int) -> dict[str, object]:
        return {"cat": "Node", "name": name, "args": {"op_name": operator}, "dur": micros}

    events = [
        {"cat": "Session", "name": "model_run", "args": {}, "dur": 9},
        event("a_fence_before", "MatMul", 1),
        event("a_kernel_time", "MatMul", 2),
        event("b_kernel_time", "If", 5),
        event("c_kernel_time", "Attention", 4),
    ]
    assert operator_seconds(events) == pytest.approx({"MatMul": 2e-6, "Attention": 4e-6})


def test_texts_are_given_so_many_a_call(tiny: Setting):
    sizes = []

    def build(_: Setting):
        return lambda texts: sizes.append(len(texts)) or np.ones((len(texts), 2), np.float32)

    encode = in_calls(replace(BY_KEY["fp32"], build=build), 4).build(tiny)
    assert encode(TEXTS).shape == (6, 2)
    assert sizes == [4, 2]
    assert parts(TEXTS, 6) == [TEXTS]


def test_a_peer_stops_where_it_would_take_too_long_and_ours_go_on(tiny: Setting, monkeypatch):
    def field(contenders, setting, texts, case):
        return Field({contender.key: len for contender in contenders})

    def timed(admitted, texts, case, rounds, floors):
        slow = suite_scale.PATIENCE / 200  # of a sentence
        return [{"case": case, "contender": key, "seconds": [slow * len(texts)]} for key in admitted.encoders]

    monkeypatch.setattr(suite_scale, "admit", field)
    monkeypatch.setattr(suite_scale, "timed", timed)
    rows = list(SUITES["scale"](Job(tiny, TEXTS, 1, quick=True, peers=("st",))))
    later = [row for row in rows if row["case"] == suite_scale.case_of(300)]
    assert {row["contender"]: "seconds" in row for row in later} == {
        "eager": False,
        "st": False,
        "fp32": True,
        "int8": True,
    }
    assert all("left out" in row["missing"] for row in later if "seconds" not in row)


def _row(suite: str, case: str, contender: str, **figures: object) -> dict[str, object]:
    machine = {"cpu": "a CPU", "cpus": 2, "threads": 2, "load": 0.0, "versions": {}, "commit": "c" * 40, "dirty": False}
    about = {"started": "2026-01-01", "model": "all-MiniLM-L6-v2", "head": "1-10", "source": "texts", "sentences": 8}
    return {**machine, **about, "suite": suite, "case": case, "contender": contender, **figures}


def test_the_page_shows_every_suite():
    short, long = (suite_length.case_of(16, size) for size in (1, 8))
    records = Records(
        (
            _row("cpu", "throughput", "fp32", seconds=[1.0], model=RANDOM_BASE),
            _row("cpu", "throughput", "fp32", seconds=[1.0]),
            _row("length", short, "eager", seconds=[2.0], tokens=160, size=1),
            _row("length", short, "fp32", seconds=[1.0], tokens=160, size=1),
            _row("length", long, "eager", seconds=[4.0], tokens=160, size=8),
            _row("scale", suite_scale.case_of(1000), "fp32", seconds=[1.0]),
            _row("scale", suite_scale.case_of(3000), "st", missing="left out: slow"),
            _row("profile", "T = 512", "int8", shares={"MatMulIntegerToFloat": 0.7, "Add": 0.298, "Cast": 0.002}),
            _row("heads", "heads", ONE_PASS, seconds=[2.0, 2.0], heads=72, pairs=9, peak_mb=5.0),
            _row("heads", "heads", "fp32", seconds=[3.0, 4.0], heads=1, pairs=9, peak_mb=4.0),
        )
    )
    page = document(records)
    assert page.index("Throughput: all-MiniLM-L6-v2\n") < page.index(f"Throughput: {RANDOM_BASE} (random weights)\n")
    assert "| 1 | ditto_fast | 160 (2.00x) |" in page
    assert "| 8 | authors' eager path | 40 (1.00x) |" in page
    assert "left out: slow" in page
    assert "| products with weights, as in the floor | 70.0% |" in page
    assert "Cast" not in page
    assert "252 (extrapolated) | 126.00x (108.00x to 144.00x) | 4 |" in page
    assert "126x (108x to 144x), extrapolated | met" in page


CRASHES = tuple(_row(suite, CRASHED, suite, error="RuntimeError: it ended") for suite in SUITES)
NO_TIME = _row("cpu", "throughput", "fp32", error="RuntimeError: no")
UNEQUAL = tuple(
    _row("cpu", "throughput", key, seconds=[1.0] * n) for n, key in enumerate(("eager", "fp32", "floor"), 1)
)


@pytest.mark.parametrize("rows", [(), CRASHES, (NO_TIME,), CRASHES[1:2], UNEQUAL, (*UNEQUAL, *CRASHES)])
def test_the_page_and_the_summary_have_what_there_is(rows: tuple[dict[str, object], ...]):
    page, table = document(Records(rows)), summary(Records(rows))
    before, after = page.split("## Not measured")
    for row in rows:
        if row["case"] == CRASHED:
            assert f"- {row['suite']}, all-MiniLM-L6-v2, suite, {row['suite']}: failed: RuntimeError: it ended" in after
    assert "it ended" not in before + table
    timed = rows[:3] == UNEQUAL
    assert ("## Throughput" in before, "Not measured yet" in table) == (timed, not timed)
    assert before.count("\n## ") == (3 if timed else 1)  # targets; throughput, plots


def test_blank_lines_between_records_are_none(tmp_path: Path):
    file = tmp_path / "a.jsonl"
    file.write_text("\n" + json.dumps(UNEQUAL[0]) + "\n\n")
    assert len(Records.read(file).rows) == 1


def test_a_floor_of_other_rounds_has_no_bars():
    assert set(drawn(Records(UNEQUAL))) == {"throughput.svg", "floor.svg"}  # the floor's own fraction
    assert set(drawn(Records(UNEQUAL[:2]))) == {"throughput.svg"}


def test_the_page_says_what_it_was_measured_on():
    rows = (_row("cpu", "throughput", "fp32", seconds=[1.0]), _row("startup", "import", "fp32", seconds=[0.1]))
    rows += (_row("startup", "cold", "fp32", seconds=[0.4]) | {"commit": "d" * 40},)
    other = {"cpu": "another", "threads": 1, "instructions": ["avx2", "avx512_vnni"]}
    page = document(Records(rows))
    assert "no VNNI. The records are of 2 threads of a CPU." in page
    assert "torch gains more" not in page
    page = document(Records((rows[0], rows[1] | other)))
    machines = "2 threads of a CPU (cpu); 1 thread of another with avx2, avx512_vnni (startup)."
    assert f"**The records are of more than one machine or number of threads**: {machines}" in page
    assert "0.40 s (commit cccccccccc)" in summary(Records(rows))


def test_a_gpu_has_sections_where_it_was_measured():
    missing = _row("kernels", "kernels", "ditto_pool", missing="needs CUDA")
    copy = _row("kernels", "device", "copy", seconds=[0.0005], gb_per_second=4000.0, gpu="A GPU")
    pool = _row("kernels", "pool, B 1, T 2", "weighted_pool", seconds=[0.0004], gb_per_second=3900.0, of_floor=0.8)
    half = _row("gpu", "T = 128", "fp16", seconds=[2.0], tflops=300.0, of_floor=0.6, gpu="A GPU")
    assert "on a GPU\n" not in document(Records((missing,)))
    page = document(Records((copy, pool, half)))
    assert "A GPU. fp16 tensors" in page
    assert "| pool, B 1, T 2 | weighted_pool | 0.400 | 3900 |  | 80% |" in page
    assert "| T = 128 | ditto_fast, fp16 | 2000.000 |  | 300.0 | 60% |" in page


def test_the_target_of_the_head_search_reads_its_record():
    target = next(target for target in TARGETS if "head search" in target.what)
    assert target.cells(Records(()))[-1] == "not measured"
    assert cost(Records(()), "fp32") is None


def test_a_kernel_that_lost_its_factor_gets_no_time():
    rows = torch.ones(2, 4)
    assert suite_kernels._checked("ditto_pool", rows, rows) == pytest.approx(1)
    with pytest.raises(ParityError, match="ditto_pool"):
        suite_kernels._checked("ditto_pool", 2 * rows, rows)
