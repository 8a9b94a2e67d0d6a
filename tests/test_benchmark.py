"""The benchmark runs, records what it must, and refuses to time wrong vectors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import run
import workspace
from contenders import BY_KEY, CONTENDERS, chosen
from fake_hub import FakeHub
from gate import admit, gate, timed
from job import Job, Setting
from names import name_of
from sentences import load_sentences, synthetic_sentences, text_of
from suites import SUITES
from transformers import BertConfig

from ditto_fast.errors import OptionError, ParityError
from ditto_fast.heads import Head

ROOT = Path(__file__).resolve().parents[1]
RECORDED = {"cpu", "load", "commit", "dirty", "versions", "source", "suite", "case", "contender", "model", "threads"}


@pytest.fixture
def setting(minilm: Path, minilm_export: Path) -> Setting:
    return Setting(minilm, minilm_export, Head.parse("1-10"), 2)


def test_a_small_run_records_every_contender(tmp_path: Path):
    out = tmp_path / "results.jsonl"
    options = ["--suite", "cpu,kernels,gpu", "--sentences", "8", "--rounds", "1", "--threads", "1"]
    peers = ["--peers", "st,st-onnx-int8,openvino", "--out", str(out)]
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *options, *peers]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    cpu = {row["contender"]: row for row in rows if row["suite"] == "cpu"}
    assert set(cpu) == {"eager", "st", "st-onnx-int8", "openvino", "fp32", "int8", "floor", "floor-int8"}
    assert all(set(row) >= RECORDED for row in rows)
    assert all("seconds" in row or "not installed" in row["missing"] for row in cpu.values())
    assert cpu["int8"]["cosine_min"] > 0.97
    assert {row["suite"] for row in rows} == {"cpu", "kernels", "gpu"}
    for key in cpu:
        assert name_of(key).split()[0] in result.stdout


@pytest.mark.parametrize("option", ["suite", "peers"])
def test_an_unknown_suite_or_peer_is_an_error(option: str):
    with pytest.raises(OptionError, match="nonsense"):
        run._benchmark(**{option: "nonsense"})


def test_wrong_vectors_get_no_time():
    vectors = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    for key in ("fp32", "int8"):
        assert gate(BY_KEY[key], vectors, vectors)["difference"] == 0
        for wrong in (vectors[::-1], vectors * np.float32("nan"), vectors[:2]):
            with pytest.raises(ParityError, match=BY_KEY[key].name):
                gate(BY_KEY[key], wrong, vectors)
    nearly = vectors + np.float32(1e-3)
    assert gate(BY_KEY["int8"], nearly, vectors)["cosine_min"] > 0.99
    with pytest.raises(ParityError):
        gate(BY_KEY["fp32"], nearly, vectors)


def test_who_fails_or_is_missing_has_a_row(setting: Setting):
    def broken(_: Setting):
        raise RuntimeError("no such thing")

    wrong = replace(BY_KEY["fp32"], key="wrong", build=lambda _: lambda texts: np.ones((len(texts), 384), np.float32))
    field = (
        BY_KEY["fp32"],
        replace(BY_KEY["fp32"], key="broken", build=broken),
        replace(BY_KEY["fp32"], key="absent", needs=("no_such_module", "no_such.module")),
        wrong,
    )
    texts = ["One.", "Two of them."]
    rows = {row["contender"]: row for row in timed(admit(field, setting, texts, "case"), texts, "case", 2)}
    assert "no such thing" in rows["broken"]["error"]
    assert "no_such.module" in rows["absent"]["missing"]
    assert "ParityError" in rows["wrong"]["error"]
    assert len(rows["fp32"]["seconds"]) == 2
    assert len(rows) == 4


def test_peers_choose_among_the_contenders(setting: Setting):
    def keys(job: Job, *among: tuple[str, ...]) -> list[str]:
        return [contender.key for contender in chosen(job, *among)]

    job = Job(setting, [], 1)
    assert chosen(job) == list(CONTENDERS)
    assert keys(replace(job, peers=("st",))) == ["eager", "st", "fp32", "int8"]
    assert keys(replace(job, peers=()), ("eager", "sdpa", "fp32")) == ["eager", "fp32"]
    assert set(BY_KEY) - set(keys(replace(job, quick=True))) == {"compile", "openvino-int8", "openvino-int8-requests"}
    assert "compile" in keys(replace(job, quick=True, peers=("compile",)))


def test_without_a_compiler_torch_compile_has_a_row_with_its_error(
    checkpoint: Callable[[str], Path], tiny_export: Path, tmp_path: Path, monkeypatch
):
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # or what an earlier run has compiled would do
    setting = Setting(checkpoint("bert"), tiny_export, Head.parse("2-3"), 1)
    with config.patch({"cpp.cxx": ("no-such-compiler",)}):
        (row,) = admit([BY_KEY["compile"]], setting, ["word", "a word of them"], "case").rows
    assert "no-such-compiler" in row["error"]
    assert row["contender"] == "compile"


@pytest.mark.parametrize("name", ["latency", "precision", "budget", "length"])
def test_small_suites_give_rows_of_time(name: str, setting: Setting, monkeypatch):
    monkeypatch.setattr("suite_length.LENGTHS", (16,))
    monkeypatch.setattr("suite_length.SIZES", (8,))
    job = Job(setting, ["A cat.", "A dog sleeps.", "Rain fell on the roof."], 1, quick=True, peers=())
    rows = {row["contender"]: row for row in SUITES[name](job)}
    failed = {key: row["error"] for key, row in rows.items() if "error" in row}
    assert set(failed) <= {"int8"}, failed  # the fixture's export has fp32 alone
    assert all(row.get("seconds") for row in rows.values() if not {"error", "missing"} & set(row))
    assert {"fp32", "512 tokens"} & set(rows)


def test_a_hub_id_has_its_name_and_its_pooling(hub: FakeHub, environment: dict[str, str], minilm: Path, tmp_path: Path):
    """The cache's folder is called as the commit, and an export needs no pooling."""
    hub.add("org/name", minilm)
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import pathlib, workspace\n"
        f"workspace.FOLDER = pathlib.Path({str(tmp_path)!r})\nfolder = workspace.checkpoint_folder('org/name')\n"
        "print(folder.name, (folder / 'config.json').is_file(), (folder / '1_Pooling' / 'config.json').is_file())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout == "org--name True True\n", done.stderr


def test_the_peers_export_is_of_this_checkpoint(tmp_path: Path, monkeypatch):
    """Another that is called alike has an export of its own."""
    made: list[str] = []

    def main_export(checkpoint: str, output: Path, **_: object) -> None:
        made.append(checkpoint)
        output.mkdir()

    monkeypatch.setattr("optimum.exporters.onnx.main_export", main_export)
    monkeypatch.setattr(workspace, "FOLDER", tmp_path)
    checkpoints = [tmp_path / parent / "model" for parent in ("a", "b")]
    for number, checkpoint in enumerate(checkpoints):
        checkpoint.mkdir(parents=True)
        (checkpoint / "config.json").write_text(str(number))
    folders = [workspace.plain_onnx(checkpoint) for checkpoint in (*checkpoints, checkpoints[0])]
    assert folders[0] == folders[2] != folders[1]
    assert made == [str(checkpoint) for checkpoint in checkpoints]
    (checkpoints[0] / "config.json").write_text("trained on")
    assert workspace.plain_onnx(checkpoints[0]) not in folders


def test_the_model_of_random_weights_is_made_once(minilm: Path, tmp_path: Path, monkeypatch):
    config = BertConfig(hidden_size=48, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64)
    monkeypatch.setattr("transformers.BertConfig", lambda: config)
    monkeypatch.setattr(workspace, "FOLDER", tmp_path)
    folder = workspace.checkpoint_folder(workspace.RANDOM_BASE)
    assert json.loads((folder / "config.json").read_text())["hidden_size"] == 48
    assert json.loads((folder / "1_Pooling" / "config.json").read_text())["word_embedding_dimension"] == 48
    written = (folder / "model.safetensors").stat().st_mtime_ns
    assert (workspace.checkpoint_folder(workspace.RANDOM_BASE) / "model.safetensors").stat().st_mtime_ns == written


def test_sentences_are_the_same_every_time():
    source, texts = load_sentences(50, senteval=None)
    assert "synthetic" in source
    assert texts == load_sentences(50, senteval=None)[1]
    assert len({len(text.split()) for text in texts}) > 5
    assert max(len(text.split()) for text in synthetic_sentences(200, longest=7)) == 7
    assert len(text_of(40, seed=1).split()) == 40
    assert text_of(40, seed=1) != text_of(40, seed=2)


def test_sentences_of_the_data_are_distinct(senteval: Path):
    texts = load_sentences(1000, senteval)[1]
    assert len(set(texts)) == len(texts) == 1000
