"""Peers are met as they are used, one that fails takes no row of another, and no suite changes what others use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import suite_budget
import suite_latency
import suite_memory
import suite_startup
import workspace
from contenders import BY_KEY, Contender, floor_of
from gate import Field, gate, timed
from gemm_floor import FLOOR, FLOOR_INT8
from job import Encode, Job, Row, Setting
from measure import fresh_process_seconds
from memory_probe import texts_of
from peers_ours import ours
from sentences import synthetic_sentences
from suites import SUITES

from ditto_fast.errors import OptionError, ParityError
from ditto_fast.heads import Head

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ["a cat", "the old man walks by", "rain"]


@pytest.fixture
def tiny(checkpoint: Callable[[str], Path], tiny_export: Path) -> Setting:
    return Setting(checkpoint("bert"), tiny_export, Head.parse("2-3"), 1)


def _fake(key: str, calls: list[int], most: int = 1000) -> Contender:
    """Notes the texts of each call, and fails after so many calls."""

    def build(_: Setting) -> Encode:
        def encode(texts: list[str]) -> np.ndarray:
            calls.append(len(texts))
            if len(calls) > most:
                raise RuntimeError("out of memory")
            return np.ones((len(texts), 2), np.float32)

        return encode

    def expected(_: Setting) -> Encode:
        return lambda texts: np.ones((len(texts), 2), np.float32)

    return replace(BY_KEY["fp32"], key=key, build=build, expected=expected)


def _by_key(rows: list[Row], case: str) -> dict[str, Row]:
    return {row["contender"]: row for row in rows if row["case"] == case}


def test_latency_checks_and_warms_what_it_times_and_keeps_the_others_of_one_that_fails(tiny: Setting, monkeypatch):
    good, bad = [], []
    fakes = [_fake("bad", bad, most=len(TEXTS) + 1), _fake("good", good)]
    monkeypatch.setattr(suite_latency, "chosen", lambda *_: fakes)
    rows = list(SUITES["latency"](Job(tiny, TEXTS, 1)))
    assert set(good) == {1}
    assert len(good) == 3 * len(TEXTS)  # admitted, after a pause, in a row
    first = _by_key(rows, suite_latency.PAUSED)
    assert "out of memory" in first["bad"]["error"]
    assert len(first["good"]["seconds"]) == len(TEXTS)
    assert len(bad) == len(TEXTS) + 3  # it ends at the first error in each case


def test_who_fails_in_a_timed_round_or_has_no_floor_leaves_the_others_their_samples(tiny: Setting):
    def floor() -> Callable[[], None]:
        raise OptionError("not known")

    encoders = {"good": _fake("good", []).build(tiny), "bad": _fake("bad", [], most=1).build(tiny)}
    admitted = Field(encoders, {key: {"difference": 0.0} for key in encoders})
    rows = _by_key(timed(admitted, TEXTS, "case", 2, {FLOOR: floor}), "case")
    assert len(rows["good"]["seconds"]) == 2
    assert rows["good"]["difference"] == 0
    assert "out of memory" in rows["bad"]["error"]
    assert "OptionError: not known" in rows[FLOOR]["error"]
    assert set(admitted.encoders) == {"good"}


@pytest.mark.parametrize("name", ["cpu", "length"])
def test_a_suite_goes_on_without_a_floor(name: str, tiny: Setting, monkeypatch):
    def unknown(*_: object, **__: object) -> None:
        raise OptionError("not known")

    monkeypatch.setattr("gemm_floor.floor", unknown)
    monkeypatch.setattr(f"suite_{name}.chosen", lambda *_: [_fake("good", [])])
    monkeypatch.setattr("suite_length.LENGTHS", (16,))
    rows = {row["contender"]: row for row in SUITES[name](Job(tiny, TEXTS, 1, quick=True))}
    assert rows["good"]["seconds"]
    assert "not known" in rows[FLOOR]["error"]


def test_start_keeps_ours_beside_who_fails_or_is_missing(tiny: Setting, monkeypatch):
    statements: list[str] = []

    def seconds(codes: dict[str, str], *options: object) -> dict[str, list[float]]:
        statements.extend(codes.values())
        return fresh_process_seconds(codes, *options)

    monkeypatch.setattr(suite_startup, "fresh_process_seconds", seconds)
    for codes in (suite_startup._IMPORTS, suite_startup._COLD):
        monkeypatch.setitem(codes, "st", "import no_such_module")
    for needs, said in (((), "No module named 'no_such_module'"), (("no_such_module",), "not installed")):
        field = [replace(BY_KEY["st"], needs=needs), BY_KEY["fp32"]]
        monkeypatch.setattr(suite_startup, "chosen", lambda *_, field=field: field)
        rows = list(SUITES["startup"](Job(tiny, TEXTS, 1)))
        assert all(_by_key(rows, case)["fp32"]["seconds"] for case in ("import", "cold"))
        st = _by_key(rows, "import")["st"]
        assert said in st.get("error", st.get("missing"))
    assert any("num_threads=1)" in code for code in statements)


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_suite_that_exports_leaves_the_export_of_the_run_as_it_is(tiny: Setting, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(workspace, "FOLDER", tmp_path)
    monkeypatch.setattr("suite_graphs.LENGTHS", (16,))
    export = workspace.exported(tiny.checkpoint, tiny.head, precision=("fp32", "int8"))
    before = _content(export)
    rows = list(SUITES["graphs"](Job(replace(tiny, export=export), TEXTS, 1)))
    assert {row["contender"] for row in rows} == {"full", "basic", "none", "full, always masked"}
    assert _content(export) == before
    assert workspace.exported(tiny.checkpoint, tiny.head) != export


def _openvino_rows(setting: Setting, monkeypatch: pytest.MonkeyPatch, needs: tuple[str, ...]) -> dict[str, Row]:
    monkeypatch.setitem(BY_KEY, "openvino", replace(BY_KEY["openvino"], needs=needs))
    return _by_key(list(SUITES["budget"](Job(setting, TEXTS, 1))), suite_budget._OPENVINO)


def test_budget_tries_batches_of_openvino_where_it_is_installed(tiny: Setting, monkeypatch):
    tried: list[int] = []
    monkeypatch.setattr(suite_budget, "openvino", lambda setting, tokens: tried.append(tokens) or ours(setting))
    monkeypatch.setattr(suite_budget, "openvino_requests", ours)
    rows = _openvino_rows(tiny, monkeypatch, needs=())
    assert list(rows)[:4] == [f"{tokens} tokens" for tokens in tried] == [f"{n} tokens" for n in (512, 256, 1024, 2048)]
    assert len(rows) == 5
    assert all(row["seconds"] for row in rows.values())
    (row,) = _openvino_rows(tiny, monkeypatch, needs=("no_such_module",)).values()
    assert "no_such_module" in row["missing"]


def test_a_rule_that_fails_takes_no_row_of_another(tiny: Setting, monkeypatch):
    def build(setting: Setting, tokens: int) -> Encode:
        if tokens == 512:
            raise RuntimeError("no such operator")
        encode, calls = ours(setting), []

        def called(texts: list[str]) -> np.ndarray:
            calls.append(len(texts))
            if tokens == 256 and len(calls) == 2:
                raise RuntimeError("out of memory")
            return encode(texts) * (2 if tokens == 1024 else 1)

        return called

    monkeypatch.setattr(suite_budget, "openvino", build)
    monkeypatch.setattr(suite_budget, "openvino_requests", ours)
    rows = _openvino_rows(tiny, monkeypatch, needs=())
    assert "no such operator" in rows["512 tokens"]["error"]  # built
    assert "out of memory" in rows["256 tokens"]["error"]  # timed
    assert "ParityError" in rows["1024 tokens"]["error"]  # checked
    assert [key for key, row in rows.items() if row.get("seconds")] == ["2048 tokens", list(rows)[-1]]


class _Graph:
    """Stands for a session: gives a value, and fails after so many runs."""

    def __init__(self, value: float = 1.0, most: int = 1000) -> None:
        self.value, self.left = value, most

    def get_inputs(self) -> list[object]:
        return []

    def run(self, *_: object) -> list[np.ndarray]:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("out of memory")
        return [np.full((1, 2), self.value, np.float32)]


def test_a_graph_that_fails_takes_no_row_of_another(tiny: Setting, monkeypatch):
    graphs = {"full": _Graph(), "wrong": _Graph(2.0), "first": _Graph(most=0), "later": _Graph(most=1)}
    monkeypatch.setattr("suite_graphs._sessions", lambda _: {**graphs, "none": _Graph()})
    monkeypatch.setattr("suite_graphs.LENGTHS", (16,))
    rows = _by_key(list(SUITES["graphs"](Job(tiny, TEXTS, 1))), "T = 16")
    failed = {key: row["error"].split(":")[0] for key, row in rows.items() if "error" in row}
    assert failed == {"wrong": "ParityError", "first": "RuntimeError", "later": "RuntimeError"}
    assert all(rows[key]["seconds"] for key in ("full", "none"))


def test_openvino_gives_our_vectors_by_any_batches(tiny: Setting, tmp_path: Path, monkeypatch):
    pytest.importorskip("openvino")
    from peers_onnx import openvino, openvino_requests

    monkeypatch.setattr(workspace, "FOLDER", tmp_path)
    texts = synthetic_sentences(20, longest=8)
    for encode in (openvino(tiny), openvino(tiny, tokens=16), openvino_requests(replace(tiny, threads=2))):
        np.testing.assert_allclose(encode(texts), ours(tiny)(texts), atol=1e-5)


def test_synthetic_sentences_are_distinct():
    texts = synthetic_sentences(20_000, longest=5)
    assert len(texts) == len(set(texts)) == 20_000
    assert texts == synthetic_sentences(20_000, longest=5)
    assert {len(text.split()) for text in texts} == {3, 4, 5}


@pytest.mark.parametrize(
    ("how", "others"),
    [
        ("peers_ours:ours", "torch transformers"),
        ("fp32-batch", "torch transformers"),
        ("peers_torch:eager", "onnxruntime"),
    ],
)
def test_memory_is_measured_without_the_libraries_of_others(how: str, others: str, tiny: Setting):
    others += " contenders onnx optimum openvino sentence_transformers"
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import memory_probe; "
        f"memory_probe.main([{how!r}, *{[str(tiny.checkpoint), str(tiny.export), str(tiny.head)]!r}, '1', '16', '2']); "
        f"print(sorted(set({others!r}.split()) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_memory_of_other_vectors_is_no_figure(tiny: Setting, monkeypatch):
    def probe(script: Path, arguments: list[str]) -> Row:
        if script.name != "memory_probe.py":
            return {"peak_mb": 1.0}
        rows = ours(replace(tiny, max_seq_length=16))(texts_of(16, 8))
        scale = 1 if arguments[0] == "peers_ours:ours" else 2
        return {"peak_mb": 1.0, "loaded_mb": 0.5, "extra_mb": 0.5, "vectors": (scale * rows).tolist()}

    monkeypatch.setattr(suite_memory, "in_process", probe)
    monkeypatch.setattr(suite_memory, "LENGTHS", (16,))
    monkeypatch.setattr(suite_memory, "chosen", lambda *_: [BY_KEY["fp32"]])
    rows = _by_key(list(SUITES["memory"](Job(tiny, TEXTS, 1))), suite_memory.case_of(16))
    assert rows["fp32"]["peak_mb"] == 1
    assert rows["fp32"]["difference"] < 1e-5
    assert "vectors" not in rows["fp32"]
    assert "ParityError" in rows[suite_memory.ONE_BATCH]["error"]


def test_a_cold_process_that_gives_other_vectors_is_not_timed(tiny: Setting, monkeypatch):
    monkeypatch.setattr(suite_startup, "printed", lambda _: [1.0] * 48)
    monkeypatch.setattr(suite_startup, "chosen", lambda *_: [BY_KEY["fp32"]])
    rows = list(SUITES["startup"](Job(tiny, TEXTS, 1)))
    assert _by_key(rows, "import")["fp32"]["seconds"]
    assert "ParityError" in _by_key(rows, "cold")["fp32"]["error"]


def test_a_peers_own_int8_is_held_against_the_floor_of_int8():
    assert {floor_of(key) for key in ("int8", "st-onnx-int8", "openvino-int8")} == {FLOOR_INT8}
    assert {floor_of(key) for key in ("fp32", "eager", "openvino", "a way of another suite", FLOOR)} == {FLOOR}
    assert floor_of(FLOOR_INT8) == FLOOR_INT8


def test_a_peers_own_int8_has_to_be_of_the_model(tiny: Setting):
    contender = BY_KEY["openvino-int8"]
    expected = ours(tiny)(TEXTS)
    other = expected + 0.02 * np.abs(expected).max() * np.random.default_rng(0).standard_normal(expected.shape)
    assert 0.8 < gate(contender, other.astype(np.float32), expected)["cosine_min"] < 0.999
    alike = expected + 10 * np.abs(expected).max()  # any two texts have a cosine near 1
    gate(contender, alike + np.float32(1e-4), alike)
    for wrong, right in (
        (-expected, expected),
        (np.full_like(expected, np.nan), expected),
        (2 * expected, expected),
        (np.roll(alike, 1, axis=0), alike),
        (np.repeat(alike[:1], len(alike), axis=0), alike),
    ):
        with pytest.raises(ParityError):
            gate(contender, wrong, right)


@pytest.mark.parametrize("factor", [0.5, 0.8, 2, np.nan])
def test_a_lost_factor_passes_no_gate(factor: float):
    vectors = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    for key in ("fp32", "int8"):
        with pytest.raises(ParityError):
            gate(BY_KEY[key], np.float32(factor) * vectors, vectors)
