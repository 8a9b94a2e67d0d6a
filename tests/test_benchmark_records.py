"""What is recorded, read back, compared, held against the targets and kept from publishing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import record
import report
import run
import typer
from compare import MEMORY_MARGIN, Compared, comparison, print_comparison
from gemm_floor import FLOOR
from record import environment
from records import CRASHED, Records
from tables import print_suite
from targets import TARGETS

from ditto_fast.errors import DataError

ABOUT = {"head": "1-10", "cpus": 2, "load": 0.0, "versions": {}, "commit": "", "dirty": False}


def _row(started: str, seconds: list[float], contender: str = "fp32") -> dict[str, object]:
    return {
        "started": started,
        "suite": "cpu",
        "model": "all-MiniLM-L6-v2",
        "case": "throughput",
        "contender": contender,
        "seconds": seconds,
        "cpu": "a CPU",
        "threads": 2,
        **ABOUT,
    }


def _write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def test_the_newest_run_of_a_suite_counts(tmp_path: Path):
    rows = [_row("2026-01-02", [1.0, 2.0]), _row("2026-01-02", [3.0, 4.0], "eager"), _row("2026-01-01", [9.0])]
    records = Records.read(_write(tmp_path / "a.jsonl", rows))
    assert len(records.rows) == 2
    assert records.ratio("cpu", "throughput", "eager", "fp32") == (2.5, 2.0, 3.0)
    assert records.ratio("cpu", "throughput", "st", "fp32") is None


def _compared(before: list[dict[str, object]], after: list[dict[str, object]]) -> list[Compared]:
    return comparison(Records(tuple(before)), Records(tuple(after)))


def _verdicts(before: list[dict[str, object]], after: list[dict[str, object]]) -> dict[str, str]:
    return {row.key[3]: row.verdict for row in _compared(before, after)}


def test_comparison_tells_a_regression_from_noise():
    rows = [_row("1", [1.0, 1.2]), _row("1", [5.0, 7.0], "eager"), _row("1", [9.0, 9.5], "int8")]
    rows += [_row("1", [1.0], "st"), _row("1", [1.0, 1.1], "sdpa")]
    before = rows
    rows = [_row("2", [2.0, 2.4]), _row("2", [6.0, 8.0], "eager"), _row("2", [4.0, 4.5], "int8")]
    rows += [_row("2", [3.0], "st"), _row("2", [], "sdpa") | {"error": "RuntimeError: no"}]
    found = {row.key[3]: (row.ratio and round(row.ratio, 2), row.verdict) for row in _compared(before, rows)}
    assert found == {
        "fp32": (2.0, "slower"),
        "eager": (1.17, "within the spread"),
        "int8": (0.46, "faster"),
        "st": (3.0, "one sample"),
        "sdpa": (None, "no longer measured"),
    }


def test_what_a_slower_machine_does_to_all_is_no_regression():
    def run(started: str, machine: float, **code: float) -> list[dict[str, object]]:
        slow = {"eager": 3.0, FLOOR: 1.0, "fp32": 1.2, "st": 2.0, **code}
        return [_row(started, [machine * s, 1.1 * machine * s], key) for key, s in slow.items()]

    slower = {row.key[3]: row for row in _compared(run("1", 1), run("2", 2))}
    assert {key: row.verdict for key, row in slower.items()} == {
        "eager": "the machine's",
        FLOOR: "within the spread",
        "fp32": "within the spread",
        "st": "within the spread",
    }
    assert not any(row.regression for row in slower.values())
    assert (slower["fp32"].ratio, slower["fp32"].against, slower["fp32"].relative) == (2, "eager", 1)
    # and what the code does is one, however fast the machine has become
    assert _verdicts(run("1", 2), run("2", 1, fp32=2.0))["fp32"] == "slower"
    # such as batches that slow the floor as well
    assert _verdicts(run("1", 1), run("2", 1, fp32=2.4, floor=2.0))["fp32"] == "slower"
    without = [[row for row in run(name, float(name)) if row["contender"] != "eager"] for name in "12"]
    found = {row.key[3]: row for row in _compared(*without)}
    assert (found["fp32"].verdict, found["fp32"].against) == ("within the spread", FLOOR)
    assert found[FLOOR].verdict == "the machine's"


def test_a_regression_exits_with_1(tmp_path: Path):
    files = [_write(tmp_path / f"{name}.jsonl", [_row(name, [s, s])]) for name, s in (("1", 1.0), ("2", 2.0))]
    with pytest.raises(typer.Exit) as exit_with:
        run._benchmark(compare=(files[0], files[1]))
    assert exit_with.value.exit_code == 1
    run._benchmark(compare=(files[1], files[0]))


def test_one_outlier_of_many_samples_hides_no_regression():
    slow, fast = [0.1] * 199 + [0.001], [0.01] * 199 + [1.0]
    assert _verdicts([_row("1", fast)], [_row("2", slow)]) == {"fp32": "slower"}
    assert _verdicts([_row("1", slow)], [_row("2", fast)]) == {"fp32": "faster"}


def test_what_vanished_or_is_not_finite_is_no_longer_measured():
    before = [_row("1", [1.0, 1.0]), _row("1", [1.0, 1.0], "int8"), _row("1", [1.0, 1.0]) | {"suite": "scale"}]
    crash = _row("2", [], "cpu") | {"case": CRASHED, "error": "RuntimeError: no"}
    for after in ([crash], [_row("2", [1.0, float("nan")]), _row("2", [1.0, float("inf")], "int8")]):
        assert _verdicts(before, after) == {"fp32": "no longer measured", "int8": "no longer measured"}


@pytest.mark.parametrize("other", [{"head": "2-3"}, {"source": "others"}, {"sentences": 9}, {"quick": True}])
def test_another_workload_is_not_a_regression(other: dict[str, object]):
    about = {"head": "1-10", "source": "texts", "sentences": 8}
    before, after = _row("1", [1.0, 1.0]) | about, _row("2", [9.0, 9.0]) | about | other
    (found,) = _compared([before], [after])
    assert (found.verdict, found.regression) == ("another workload", False)
    if "sentences" not in other:  # a case that such a run has not
        assert _verdicts([before | {"case": "of many"}], [after]) == {"fp32": "another workload"}


def test_a_peer_that_was_not_asked_for_is_no_regression(tmp_path: Path):
    before = [_row("1", [1.0, 1.0], key) for key in ("eager", "st", "sdpa", "fp32", FLOOR)]
    found = _verdicts(before, [_row("2", [1.0, 1.0]) | {"peers": ["sdpa"]}])
    missed = "no longer measured"  # the baseline, ours, the floor and whom the run was asked for always have a row
    assert found == {
        "eager": missed,
        "st": "not asked for now",
        "sdpa": missed,
        "fp32": "within the spread",
        FLOOR: missed,
    }
    failed = _row("2", [], "st") | {"error": "RuntimeError: no", "peers": []}
    assert _verdicts(before[1:2], [failed]) == {"st": missed}  # by a suite that asks nobody
    for peers in ({}, {"peers": None}):
        assert _verdicts(before[1:2], [_row("2", [1.0]) | peers]) == {"st": missed}
    asked, quick = _row("1", [1.0], "compile") | {"quick": True}, _row("2", [1.0]) | {"quick": True, "peers": None}
    assert _verdicts([asked], [quick]) == {"compile": "not asked for now"}  # it starts too slowly for a quick run
    files = [_write(tmp_path / name, rows) for name, rows in (("a", before[1:2]), ("b", [failed | {"case": "other"}]))]
    with pytest.raises(DataError, match="Nothing to compare"):
        print_comparison(*files)


def _memory(peak: float | None, contender: str, **figures: object) -> dict[str, object]:
    row = {**_row("1", [], contender), "suite": "memory", "peak_mb": peak, "extra_mb": 1.0, **figures}
    return {name: value for name, value in row.items() if value not in (None, [])}


def test_peaks_are_compared_where_times_have_no_spread():
    keys = ("eager", "sdpa", "fp32", "int8", "st")
    before = [_memory(100.0, key) for key in keys] + [_memory(100.0, "int8-no-arena", seconds=[1.0])]
    peaks = (101.0 * MEMORY_MARGIN, 99.0 / MEMORY_MARGIN, 99.0 * MEMORY_MARGIN, None, float("nan"))
    after = [_memory(peak, key) for key, peak in zip(keys, peaks, strict=True)]
    after += [_memory(150.0, "int8-no-arena", seconds=[9.0])]
    found = {row.key[3]: (row.verdict, row.regression) for row in _compared(before, after)}
    assert found == {
        "eager": ("more memory", True),
        "sdpa": ("less memory", False),
        "fp32": ("about as much memory", False),
        "int8": ("no longer measured", True),
        "st": ("no longer measured", True),
        "int8-no-arena": ("more memory", True),
    }
    timed = [_memory(peak, "fp32", seconds=seconds) for peak, seconds in ((100.0, [2.0, 2.1]), (900.0, [1.0, 1.1]))]
    assert _verdicts(timed[:1], timed[1:]) == {"fp32": "faster"}


BROKEN = {
    "cut short": (json.dumps(_row("1", [1.0]))[:40], "no JSON"),
    "a merge mark": ("<<<<<<< HEAD", "no JSON"),
    "no UTF-8": (b"\xff\xfe", "can't decode"),
    "a list": ("[1, 2]", "list [1, 2], no JSON object"),
    "without keys": (json.dumps({"case": "a", "seconds": [1.0]}), "it has no model, suite, contender"),
}


@pytest.mark.parametrize("option", ["--report", "--compare"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_line_that_is_no_record_is_one_message(option: str, how: str, tmp_path: Path, monkeypatch, capsys):
    line, problem = BROKEN[how]
    for name in ("ROOT", "README", "DOCUMENT", "FOLDER"):
        monkeypatch.setattr(report, name, tmp_path / ("" if name == "ROOT" else name))
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    file = _write(tmp_path / "benchmarks" / "results" / "a.jsonl", [_row("1", [1.0])])
    file.write_bytes(file.read_bytes() + b"\n" + (line if isinstance(line, bytes) else line.encode()))
    monkeypatch.setattr("sys.argv", ["run.py", option, *([str(file)] * 2 if option == "--compare" else [])])
    with pytest.raises(SystemExit) as exit_with:
        run.run(run._benchmark)
    assert exit_with.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {file}, line 3: ")
    assert problem in err
    assert err.endswith("remove this one, and run its suite again.\n")
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {file}


def test_rows_say_which_peers_were_asked_for(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(run, "SUITES", {"cpu": lambda _: iter([{"case": "case", "contender": "fp32"}])})
    for name, value in (("load_sentences", ("texts", ["a"])), ("checkpoint_folder", tmp_path), ("exported", tmp_path)):
        monkeypatch.setattr(run, name, lambda *_, value=value, **__: value)
    out = tmp_path / "a.jsonl"
    for peers in ("st,openvino", "", None):
        run._benchmark(suite="cpu", peers=peers, out=out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["peers"] for row in rows] == [["st", "openvino"], [], None]


def test_a_table_has_no_ratio_of_other_rounds(capsys):
    rows = [_row("1", seconds, key) for key, seconds in (("eager", [4.0, 4.0]), ("fp32", [1.0]), (FLOOR, [1.0]))]
    print_suite("cpu", rows, rows[0])
    lines = {line.split("│")[2].strip(): line for line in capsys.readouterr().out.splitlines() if "throughput" in line}
    assert "1.00x" in lines["authors' eager path"]
    assert "x" not in lines["ditto_fast"].split("│")[4]
    assert "100%" in lines["ditto_fast"]
    assert "%" not in lines["authors' eager path"]


def test_suites_of_one_file_are_named_and_nothing_in_common_is_an_error(tmp_path: Path, capsys):
    rows = [_row("1", [1.0]), _row("1", [1.0]) | {"suite": "scale"}]
    both, one = (_write(tmp_path / name, rows[:count]) for name, count in (("a.jsonl", 2), ("b.jsonl", 1)))
    assert print_comparison(both, one) == 0
    assert "scale" in capsys.readouterr().err
    with pytest.raises(DataError, match="Nothing to compare"):
        print_comparison(one, _write(tmp_path / "c.jsonl", rows[1:]))


def test_each_suite_says_when_it_began_and_all_its_rows_the_same(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(run, "environment", ({"started": str(second)} for second in range(9)).__next__)
    row = {**_row("", []), "case": "case"}
    row = {name: value for name, value in row.items() if name not in ("started", "suite")}
    monkeypatch.setattr(run, "SUITES", {name: lambda _: iter([row, row]) for name in "ab"})
    out = tmp_path / "a.jsonl"
    for name in "ab":
        list(run._recorded(name, None, {"model": "all-MiniLM-L6-v2", "quick": True}, out))
    records = Records.read(out)
    assert [(row["suite"], row["started"], row["quick"]) for row in records.rows] == 2 * [("a", "0", True)] + 2 * [
        ("b", "1", True)
    ]


@pytest.mark.parametrize("place", ["no git", "no repository"])
def test_a_tree_that_git_does_not_vouch_for_is_changed(place: str, tmp_path: Path, monkeypatch):
    if place == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(record, "_ROOT", tmp_path)
    assert (environment()["commit"], environment()["dirty"]) == ("", True)


def test_quick_records_are_not_published(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(report, "ROOT", tmp_path)
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    file = _write(tmp_path / "benchmarks" / "results" / "a.jsonl", [_row("1", [1.0]), _row("2", [1.0], "int8")])
    assert len(report.committed().rows) == 1
    _write(file, [_row("1", [1.0]) | {"quick": True}])
    with pytest.raises(DataError, match="--quick runs of cpu"):
        report.committed()


@pytest.mark.parametrize("option", ["--sentences", "--rounds", "--threads"])
def test_no_sentences_rounds_or_threads_is_wrong_usage(option: str, monkeypatch):
    monkeypatch.setattr("sys.argv", ["run.py", option, "0"])
    with pytest.raises(SystemExit) as exit_with:
        run.run(run._benchmark)
    assert exit_with.value.code == 2


def test_a_target_is_met_missed_or_not_measured():
    target = TARGETS[0]
    for seconds, verdict in ((3.0, "met"), (2.0, "**missed**")):
        records = Records((_row("1", [seconds], "eager"), _row("1", [1.0])))
        assert target.cells(records)[-1] == verdict
    assert target.cells(Records(()))[-1] == "not measured"
    unequal = Records((_row("1", [1.0, 2.0], "eager"), _row("1", [1.0])))
    assert target.cells(unequal)[-1] == "not measured"


def test_the_targets_of_a_gpu_read_their_records():
    def gpu(suite: str, case: str, contender: str, **figures: float) -> dict[str, object]:
        return _row("1", [1.0], contender) | {"suite": suite, "case": case, **figures}

    rows = [
        gpu("kernels", "device", "copy", gb_per_second=4000.0),
        gpu("kernels", "pool, B 4096, T 16", "weighted_pool", gb_per_second=3700.0),
        gpu("kernels", "pool, B 1024, T 128", "weighted_pool", gb_per_second=3800.0),
        gpu("kernels", "ditto, B 1024, T 128", "ditto_pool", of_floor=0.5),
        gpu("gpu", "T = 128", "fp16", of_floor=0.6),
    ]
    targets = [target for target in TARGETS if target.what.startswith("GPU")]
    cells = [target.cells(Records(tuple(rows)))[2:] for target in targets]
    assert cells == [["92% at least (B 4096, T 16)", "met"], ["2.00x", "**missed**"], ["60%", "met"]]
    failed = {**rows[1], "error": "RuntimeError: no"}
    del failed["seconds"]
    assert targets[0].cells(Records((rows[0], failed, rows[2])))[-1] == "not measured"
