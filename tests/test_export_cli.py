"""`ditto-export` as a user runs it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import transformers

from ditto_fast import FastEncoder

OFFLINE = {"HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def run(command, tmp_path_factory):
    def execute(*arguments: object):
        home = tmp_path_factory.mktemp("home")
        environment = {**os.environ, **OFFLINE, "HF_HOME": str(home), "COLUMNS": "200"}
        return command("ditto-export", *arguments, env=environment, cwd=home)

    return execute


def test_a_folder_becomes_an_export_that_encodes(run, checkpoint, tmp_path: Path):
    result = run(
        "--model", checkpoint("roberta"), "--head", "1-2", "--output", tmp_path / "out", "--outputs", "embedding"
    )
    assert result.returncode == 0, result.stderr
    assert "head 1-2" in result.stdout
    assert "max abs difference" in result.stdout
    assert "FastEncoder(" in result.stdout
    assert "verifying model_embedding.onnx" in result.stderr
    assert FastEncoder(tmp_path / "out").encode(["Rain."]).shape == (1, 48)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # no temporary left

    again = run("--model", checkpoint("roberta"), "--head", "1-3", "--output", tmp_path / "out")
    assert again.returncode == 1
    assert "--force" in again.stderr
    forced = run(
        "--model",
        checkpoint("roberta"),
        "--head",
        "1-3",
        "--output",
        tmp_path / "out",
        "--force",
        "--json",
        "--no-verify",
    )
    assert forced.returncode == 0, forced.stderr
    summary = json.loads(forced.stdout)  # nothing else on stdout
    assert summary["manifest"]["head"] == "1-3"
    assert summary["manifest"]["graphs"]["model.onnx"]["parity"] is None
    assert not (tmp_path / "out" / "model_embedding.onnx").exists()


def test_out_of_tolerance_leaves_no_directory(checkpoint, tmp_path: Path, monkeypatch, capsys):
    """In this process, since the tolerance must be made impossible."""
    from ditto_fast.cli.console import run as run_command
    from ditto_fast.export import cli
    from ditto_fast.tolerances import TOLERANCES

    monkeypatch.setitem(TOLERANCES, "fp32", 1e-12)
    arguments = [
        "ditto-export",
        "--model",
        str(checkpoint("bert")),
        "--head",
        "1-1",
        "--output",
        str(tmp_path / "out"),
    ]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as exit_:
        run_command(cli._export)
    assert exit_.value.code == 1
    assert list(tmp_path.iterdir()) == []
    assert "attention_diagonal: max abs" in " ".join(capsys.readouterr().err.split())


def _gpt2(folder: Path) -> None:
    transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2).save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"")


def _t5(folder: Path) -> None:
    transformers.T5Config(d_model=16).save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"")


def _unknown(folder: Path) -> None:
    transformers.LukeConfig().save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"")


def _no_attentions(folder: Path) -> None:
    transformers.FNetConfig().save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(b"")


def _no_weights(folder: Path) -> None:
    transformers.BertConfig().save_pretrained(folder)


FOLDERS = {
    "decoder-only": (_gpt2, ["decoder-only", "bert"]),
    "encoder-decoder": (_t5, ["encoder-decoder", "bert"]),
    "unsupported": (_unknown, ["'luke'", "Supported: ", "roberta"]),
    "no attentions": (_no_attentions, ["fnet has no attention matrix", "Supported: ", "roberta"]),
    "no weights": (_no_weights, ["no weights", "model.safetensors"]),
    "no config": (lambda _: None, ["no config.json"]),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_cannot_be_exported_says_why(run, tmp_path: Path, name: str):
    make, words = FOLDERS[name]
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder)
    _check_refused(run("--model", folder, "--head", "1-1", "--output", tmp_path / "out"), words)
    assert not (tmp_path / "out").exists()


def test_weights_that_do_not_belong_to_the_config(run, checkpoint, tmp_path: Path):
    """Missing weights would be random, in silence."""
    folder = tmp_path / "folder"
    shutil.copytree(checkpoint("bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))
    _check_refused(run("--model", folder, "--head", "5-1", "--output", tmp_path / "out"), ["lacks", "random"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--head", "1.10"], ["'1.10'", "LAYER-HEAD"]),
        (["--head", "0-3"], ["'0-3'", "counted from 1"]),
        (["--head", "4-1"], ["1-1 to 3-4"]),
        ([], ["--head"]),
        (["--head", "1-1", "--outputs", "tokens,embeding"], ["embedding", "Did you mean"]),
        (["--head", "1-1", "--max-seq-length", "65"], ["from 1 to 64"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_options(run, checkpoint, tmp_path: Path, arguments: list[str], words: list[str]):
    _check_refused(run("--model", checkpoint("bert"), "--output", tmp_path / "out", *arguments), words)
    assert not (tmp_path / "out").exists()


def test_an_unknown_name_without_network_says_what_was_tried(run):
    _check_refused(
        run("--model", "bert-bsae", "--head", "1-1"),
        ["bert-bsae", "bert-base", "hub id", "local folder", "offline"],
    )


def _check_refused(result, words: list[str]) -> None:
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
