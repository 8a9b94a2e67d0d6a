"""FastEncoder.from_pretrained: real code against the fake hub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_hub import COMMIT, TEXTS, TOKEN, FakeHub

from ditto_fast import FastEncoder
from ditto_fast.export import export_model
from ditto_fast.tolerances import within


def test_only_what_is_needed_is_downloaded(hub: FakeHub, load, tiny_export: Path):
    hub.add("org/name", tiny_export)
    assert isinstance(load(), np.ndarray)
    small = {path.name for path in tiny_export.glob("*.json")}
    assert hub.downloaded()[:2] == ["ditto_config.json", "model_embedding.onnx"]
    assert set(hub.downloaded()) == small | {"model_embedding.onnx", "model.onnx_data"}
    hub.requests.clear()
    vectors = load("pooling='cls'")
    assert hub.downloaded() == ["model.onnx"]  # the rest is in the cache
    assert within(vectors, FastEncoder(tiny_export, pooling="cls").encode(TEXTS))

    hub.requests.clear()
    assert within(load(HF_HUB_OFFLINE="1"), FastEncoder(tiny_export).encode(TEXTS))
    assert within(load("local_files_only=True"), FastEncoder(tiny_export).encode(TEXTS))
    assert hub.requests == []


def test_verify_brings_every_file_of_the_manifest(hub: FakeHub, load, tiny_export: Path):
    hub.add("org/name", tiny_export)
    assert within(load("verify=True"), FastEncoder(tiny_export).encode(TEXTS))
    files = {path.name for path in tiny_export.iterdir()} - {"README.md"}
    assert sorted(hub.downloaded()) == sorted(files)
    assert within(load("verify=True", HF_HUB_OFFLINE="1"), FastEncoder(tiny_export).encode(TEXTS))
    hub.repositories["org/name"]["model.onnx"] = b"another graph"
    assert "model.onnx is changed" in load("verify=True, cache_dir='empty'")


def test_a_pooling_backend_brings_its_graph(hub: FakeHub, load, tiny_export: Path):
    hub.add("org/name", tiny_export)
    assert within(load("pooling_backend='numpy'"), FastEncoder(tiny_export, pooling_backend="numpy").encode(TEXTS))
    assert "model.onnx" in hub.downloaded()
    assert "model_embedding.onnx" not in hub.downloaded()


def test_a_graph_that_was_not_asked_for_says_how_to_get_it(
    hub: FakeHub, load, environment, tiny_export: Path, tmp_path
):
    hub.add("org/name", tiny_export)
    load()
    code = "from ditto_fast import FastEncoder; FastEncoder.from_pretrained('org/name').token_weights('Rain.')"
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert "lacks model.onnx" in result.stderr
    assert "pooling_backend='numpy') loads them" in result.stderr


def test_on_cuda_the_head_graph_comes_too(hub: FakeHub, load, checkpoint, tmp_path: Path):
    export_model(checkpoint("bert"), "2-3", tmp_path / "heads", outputs=("embedding", "head"))
    hub.add("org/name", tmp_path / "heads")
    load("providers='cuda'")  # an error where there is no CUDA, once the files are here
    assert {"model_embedding.onnx", "model_head.onnx"} <= set(hub.downloaded())


def test_external_weights_come_with_their_graph(hub: FakeHub, load, checkpoint, tmp_path: Path):
    """Of two precisions, each with a file of shared weights, the other's stays where it is."""
    folder = tmp_path / "both"
    export_model(checkpoint("bert"), "2-3", folder, outputs=("embedding",), precision=("fp32", "int8"))
    hub.add("org/name", folder)
    assert within(load("precision='int8'"), FastEncoder(folder, precision="int8").encode(TEXTS))
    assert {"model_embedding_int8.onnx", "model_int8.onnx_data"} <= set(hub.downloaded())
    assert not {"model.onnx_data", "model_embedding.onnx", "model.onnx"} & set(hub.downloaded())


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


def test_a_cluster_opens_one_commit_and_its_driver_needs_the_manifest_alone(
    hub: FakeHub, environment: dict[str, str], tiny_export: Path, tmp_path: Path
):
    hub.add("org/name", tiny_export)
    code = (
        "import numpy as np, pickle, sys\nfrom ditto_fast.errors import OptionError\n"
        "from ditto_fast.ray_models import prepare\n"
        "model = pickle.dumps(prepare('org/name', revision='main'))\n"
        "print(pickle.loads(model).options['revision'], flush=True)\nsys.stdin.readline()\n"
        f"np.save('vectors.npy', pickle.loads(model).open().encode({TEXTS}))\n"
        "try: prepare('org/name', precision='int8')\nexcept OptionError as error: print(error)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1, text=True
    )
    with process:
        assert process.stdout.readline() == f"{COMMIT}\n"
        assert hub.downloaded() == ["ditto_config.json"]
        printed, errors = process.communicate("\n", timeout=60)
    assert "precision must be one of fp32" in printed, errors
    assert within(np.load(tmp_path / "vectors.npy"), FastEncoder(tiny_export).encode(TEXTS))
