"""ditto-export and the hub: real code against the fake hub."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from fake_hub import COMMIT, TEXTS, TOKEN, FakeHub

from ditto_fast import FastEncoder
from ditto_fast.errors import ExportDirectoryError, OptionError
from ditto_fast.export import HubOptions, export_model, publish
from ditto_fast.tolerances import within


@pytest.fixture
def export(command, environment, tmp_path: Path):
    def execute(*arguments: object, **variables: str):
        everything = ("--head", "2-3", "--output", tmp_path / "out", *arguments)
        return command("ditto-export", *everything, env={**environment, **variables}, cwd=tmp_path)

    return execute


def test_a_hub_id_is_exported_and_again_offline(hub: FakeHub, export, checkpoint, tmp_path: Path):
    hub.add("org/name", checkpoint("bert"))
    card = b"---\nlicense: mit\n---\n# a card\n"
    hub.repositories["org/name"] |= {"README.md": card, "onnx/model.onnx": b"big", "pytorch_model.bin": b"pickle"}
    hub.token = TOKEN
    result = export("--model", "org/name", "--token", TOKEN, "--cache-dir", tmp_path / "cache", "--json")
    assert result.returncode == 0, result.stderr
    assert {"onnx/model.onnx", "pytorch_model.bin"}.isdisjoint(hub.downloaded())
    assert (tmp_path / "cache" / "models--org--name").is_dir()
    assert not (tmp_path / "home" / "hub").exists()
    source = json.loads(result.stdout)["manifest"]["source"]
    assert (source["model_id"], source["revision"]) == ("org/name", COMMIT)
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*"))
    assert TOKEN not in result.stdout + result.stderr
    assert TOKEN.encode() not in written
    assert str(tmp_path).encode() not in written
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "license: mit\n" in readme
    assert "base_model: org/name\n" in readme

    hub.requests.clear()
    again = export("--model", "org/name", "--cache-dir", tmp_path / "cache", "--force", HF_HUB_OFFLINE="1")
    assert again.returncode == 0, again.stderr
    assert hub.requests == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "org/other"], ["hub id 'org/other'", "401"]),
        (["--model", "org/other", "--token", TOKEN], ["hub id 'org/other'", "404"]),
        (["--model", "org/name", "--token", TOKEN, "--revision", "v9"], ["404", "v9"]),
    ],
    ids=["no token", "no repository", "no revision"],
)
def test_a_refusal_says_why_without_the_token(hub: FakeHub, export, checkpoint, arguments, words):
    hub.add("org/name", checkpoint("bert"))
    hub.token = TOKEN
    _check_refused(export(*arguments), words)


@pytest.fixture
def pickled(checkpoint, tmp_path: Path) -> Path:
    folder = tmp_path / "pickled"
    shutil.copytree(checkpoint("bert"), folder)
    model = transformers.AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


@pytest.mark.parametrize("where", ["folder", "hub"])
def test_pickled_weights_are_loaded_only_when_asked_for(hub: FakeHub, export, pickled: Path, where: str):
    hub.add("org/name", pickled)
    model = pickled if where == "folder" else "org/name"
    _check_refused(export("--model", model), ["pytorch_model.bin", "can run code", "--allow-pickle"])
    assert "pytorch_model.bin" not in hub.downloaded()
    result = export("--model", model, "--allow-pickle")
    assert result.returncode == 0, result.stderr
    assert ("pytorch_model.bin" in hub.downloaded()) == (where == "hub")


@pytest.fixture
def with_code(checkpoint, tmp_path: Path) -> Path:
    """A BERT under another model type, which only its own Python file can load; the file leaves a mark."""
    folder = tmp_path / "with-code"
    shutil.copytree(checkpoint("bert"), folder)
    code = (
        "from pathlib import Path\nfrom transformers import BertConfig\n"
        f"Path({str(tmp_path / 'mark')!r}).touch()\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
    )
    (folder / "own.py").write_text(code)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("where", ["folder", "hub"])
def test_code_of_a_checkpoint_runs_only_when_asked_for(hub: FakeHub, export, with_code: Path, tmp_path: Path, where):
    hub.add("org/name", with_code)
    model = with_code if where == "folder" else "org/name"
    _check_refused(export("--model", model), ["own.OwnConfig", "--trust-remote-code"])
    assert not (tmp_path / "mark").exists()
    result = export("--model", model, "--trust-remote-code")
    assert "trust_remote_code=True" in result.stderr  # the warning
    assert "'own' cannot be exported" in result.stderr  # its code ran and gave the type, which has no adapter
    assert (tmp_path / "mark").exists()


def test_wrong_options_are_refused_before_the_long_work(checkpoint, tmp_path: Path):
    folder, output = checkpoint("bert"), tmp_path / "out"
    with pytest.raises(OptionError, match="is a folder"):
        export_model(folder, "1-1", output, hub=HubOptions(revision="v1"))
    for repo_id in ("name", "org/na me", "a/b/c"):
        with pytest.raises(OptionError, match="ORG/NAME"):
            export_model(folder, "1-1", output, push_to_hub=repo_id)
    assert not output.exists()
    with pytest.raises(ExportDirectoryError, match=r"ditto_config\.json"):
        publish(folder, "org/name")


@pytest.mark.parametrize("token", ["", f"{TOKEN}\n", f" {TOKEN}", f"{TOKEN}ü"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str):
    with pytest.raises(OptionError, match="not shown") as caught:
        HubOptions(token=token)
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(HubOptions(token=TOKEN))


def test_an_export_is_pushed_and_opened_from_the_hub(hub: FakeHub, export, load, checkpoint, tmp_path: Path):
    hub.token = TOKEN
    arguments = ("--model", checkpoint("bert"), "--outputs", "tokens,embedding", "--push-to-hub", "org/name")
    refused = export(*arguments, "--token", "hf_wrong")
    _check_refused(refused, ["is complete", "401", "ditto_fast.export.publish("], written=True)
    result = export(*arguments, "--token", TOKEN, "--force")
    assert result.returncode == 0, result.stderr
    assert f"org/name/commit/{COMMIT}" in result.stdout
    assert TOKEN not in result.stdout + result.stderr
    folder = tmp_path / "out"
    assert hub.repositories["org/name"] == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert 'from_pretrained("org/name")' in (folder / "README.md").read_text()

    vectors = load(f"token={TOKEN!r}")
    assert isinstance(vectors, np.ndarray), vectors
    assert within(vectors, FastEncoder(folder).encode(TEXTS))


def _check_refused(result, words: list[str], written: bool = False) -> None:
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert TOKEN not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
