"""The hub, real code against a fake server, in processes of their own, since the endpoint is read at import."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from fake_hub import COMMIT, FakeHub, fake_hub

from ditto_fast import FastEncoder
from ditto_fast.errors import OptionError
from ditto_fast.export import HubOptions, export_model
from ditto_fast.tolerances import within

TOKEN = "hf_TheSecretOfThisTest"
TEXTS = ["Rain.", "The ferry left the harbour before sunrise."]


@pytest.fixture
def hub():
    with fake_hub() as server:
        yield server


@pytest.fixture
def environment(hub: FakeHub, tmp_path: Path) -> dict[str, str]:
    """No token, no proxy, an empty home, and the fake in place of the hub."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    kept.pop("HF_TOKEN", None)
    return {**kept, "HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub.url, "COLUMNS": "200"}


@pytest.fixture
def export(command, environment, tmp_path: Path):
    def execute(*arguments: object, **variables: str):
        everything = ("--head", "2-3", "--output", tmp_path / "out", *arguments)
        return command("ditto-export", *everything, env={**environment, **variables}, cwd=tmp_path)

    return execute


@pytest.fixture
def load(environment, tmp_path: Path):
    """Runs FastEncoder.from_pretrained("org/name", ...) and returns its vectors, or what it printed on failure."""

    def execute(arguments: str = "", **variables: str) -> np.ndarray | str:
        code = (
            "import numpy as np; from ditto_fast import FastEncoder\n"
            f"encoder = FastEncoder.from_pretrained('org/name', {arguments})\n"
            f"np.save('vectors.npy', encoder.encode({TEXTS}))"
        )
        command = [sys.executable, "-c", code]
        result = subprocess.run(
            command, env={**environment, **variables}, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        return np.load(tmp_path / "vectors.npy") if result.returncode == 0 else result.stderr

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


def test_only_what_is_needed_is_downloaded(hub: FakeHub, load, tiny_export: Path):
    hub.add("org/name", tiny_export)
    assert isinstance(load(), np.ndarray)
    small = {path.name for path in tiny_export.glob("*.json")}
    assert hub.downloaded()[:2] == ["ditto_config.json", "model_embedding.onnx"]
    assert set(hub.downloaded()) == small | {"model_embedding.onnx"}
    hub.requests.clear()
    vectors = load("pooling='cls'")
    assert hub.downloaded() == ["model.onnx"]  # the rest is in the cache
    assert within(vectors, FastEncoder(tiny_export, pooling="cls").encode(TEXTS))

    hub.requests.clear()
    assert within(load(HF_HUB_OFFLINE="1"), FastEncoder(tiny_export).encode(TEXTS))
    assert within(load("local_files_only=True"), FastEncoder(tiny_export).encode(TEXTS))
    assert hub.requests == []


def test_external_weights_come_with_their_graph(hub: FakeHub, load, tiny_export: Path, tmp_path: Path):
    import onnx

    folder = tmp_path / "external"
    shutil.copytree(tiny_export, folder)
    for name in ("model", "model_embedding"):
        model = onnx.load(folder / f"{name}.onnx")
        onnx.save(model, folder / f"{name}.onnx", save_as_external_data=True, location=f"{name}.weights")
    _refresh_manifest(folder)
    hub.add("org/name", folder)
    assert within(load(), FastEncoder(tiny_export).encode(TEXTS))
    assert "model_embedding.weights" in hub.downloaded()
    assert "model.weights" not in hub.downloaded()


def _refresh_manifest(folder: Path) -> None:
    from ditto_fast.artifact import Manifest

    Manifest.read(folder).write(folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", ["ModelNotFoundError", "'org/name'", "401"]),
        (f"token={TOKEN!r}, revision='v9'", ["ModelNotFoundError", "v9"]),
        (f"token={TOKEN!r}", ["ExportDirectoryError", "ditto-export --model org/name"]),
        ("local_files_only=True", ["ModelNotFoundError", "offline"]),
        ("pooling='sum'", ["OptionError", "pooling"]),
        ("tokens='typo'", ["TypeError", "tokens"]),
    ],
    ids=["private", "no revision", "no export", "not in the cache", "pooling", "unknown option"],
)
def test_what_cannot_be_opened_says_why(hub: FakeHub, load, checkpoint, arguments: str, words: list[str]):
    hub.add("org/name", checkpoint("bert"))
    hub.token = TOKEN
    printed = load(arguments)
    assert isinstance(printed, str)
    assert TOKEN not in printed.replace(f"token={TOKEN!r}", "")
    for word in words:
        assert word in printed.splitlines()[-1]


def _check_refused(result, words: list[str], written: bool = False) -> None:
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert TOKEN not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
