"""Every graph, for every family and several heads, against transformers' eager attention in fp64."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from families import FAMILIES, eager_reference

from ditto_fast.artifact import GRAPHS, Manifest, graph_file
from ditto_fast.export import export_model
from ditto_fast.export.pipeline import Verification
from ditto_fast.tolerances import within

KINDS = ("tokens", "embedding")
SHAPES = ((3, 23), (2, 40))  # the tracer's is (2, 16)
ALL_SHAPES = ((1, 1), *SHAPES, (5, 8))  # for the paper's architectures


@pytest.fixture(
    scope="module",
    params=[(name, head) for name, family in FAMILIES.items() for head in family.heads],
    ids=lambda p: "-".join(p),
)
def exported(request, checkpoint: Callable[[str], Path], tmp_path_factory) -> tuple[str, Path, str]:
    name, head = request.param
    directory = tmp_path_factory.mktemp("export") / "out"
    export_model(checkpoint(name), head, directory, outputs=("tokens", "embedding"), verification=Verification(False))
    return name, directory, head


def _feeds(session: onnxruntime.InferenceSession, vocab_size: int, batch: int, tokens: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(batch * tokens)
    lengths = rng.integers(1, tokens + 1, batch)
    lengths[0] = tokens
    mask = (np.arange(tokens) < lengths[:, None]).astype(np.int64)
    pad_free = rng.integers(5, vocab_size, (batch, tokens))
    feeds = {
        "input_ids": np.where(mask == 1, pad_free, 1),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }
    return {node.name: feeds[node.name] for node in session.get_inputs()}


def _reference(checkpoint, name: str, feeds: dict[str, np.ndarray], layer: int, number: int) -> dict[str, np.ndarray]:
    return eager_reference(checkpoint(name), feeds, layer, number, fp64=FAMILIES[name].fp64)


def test_named_outputs_equal_the_eager_model(exported, checkpoint):
    name, directory, head = exported
    sessions = {kind: onnxruntime.InferenceSession(directory / graph_file(kind)) for kind in KINDS}
    vocab_size = Manifest.read(directory).vocab_size
    for shape in ALL_SHAPES if name in ("bert", "roberta", "electra") else SHAPES:
        feeds = _feeds(sessions["tokens"], vocab_size, *shape)
        mask = feeds["attention_mask"]
        expected = _reference(checkpoint, name, feeds, *map(int, head.split("-")))
        for kind in KINDS:
            names = GRAPHS[kind][1]
            assert [node.name for node in sessions[kind].get_outputs()] == list(names)
            actual = dict(zip(names, sessions[kind].run(None, feeds), strict=True))
            for output, values in actual.items():
                assert values.dtype == np.float32
                tokens = mask == 1 if output.endswith("hidden_state") else slice(None)
                assert within(values[tokens], expected[output][tokens]), (output, shape)
            if kind == "tokens":
                assert (actual["attention_diagonal"][mask == 0] == 0).all()


def test_another_head_gives_other_vectors(exported, checkpoint):
    """The comparison above can fail: the neighbouring head's reference is far away."""
    name, directory, head = exported
    layer, number = map(int, head.split("-"))
    session = onnxruntime.InferenceSession(directory / "model.onnx")
    feeds = _feeds(session, Manifest.read(directory).vocab_size, 3, 23)
    other = _reference(checkpoint, name, feeds, layer, number % 4 + 1)
    assert not within(session.run(["attention_diagonal"], feeds)[0], other["attention_diagonal"])


def test_a_fully_masked_row_is_zero_and_harms_no_other(exported):
    _, directory, _ = exported
    session = onnxruntime.InferenceSession(directory / "model.onnx")
    embedding = onnxruntime.InferenceSession(directory / "model_embedding.onnx")
    feeds = _feeds(session, Manifest.read(directory).vocab_size, 3, 9)
    alone = {name: value[:1] for name, value in feeds.items()}
    feeds["attention_mask"][1] = 0
    outputs = session.run(None, feeds)
    assert all(np.isfinite(output).all() for output in outputs)
    assert (outputs[0][1] == 0).all()
    pooled = embedding.run(None, feeds)[0]
    assert (pooled[1] == 0).all()
    assert within(pooled[:1], embedding.run(None, alone)[0])


def test_only_the_named_outputs_whatever_the_checkpoint_asks_for(tmp_path: Path):
    """A config with output_attentions and output_hidden_states on changes nothing, and is left as it was."""
    from families import write_checkpoint

    folder = write_checkpoint("bert", tmp_path / "m", output_attentions=True, output_hidden_states=True)
    before = (folder / "config.json").read_bytes()
    report = export_model(folder, "1-2", tmp_path / "out")
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [node.name for node in session.get_outputs()] == list(GRAPHS["tokens"][1])
    assert report.manifest.graphs["model.onnx"].parity is not None
    assert (folder / "config.json").read_bytes() == before


def test_the_manifest_says_what_was_made(tiny_export: Path):
    manifest = json.loads((tiny_export / "ditto_config.json").read_text())
    assert manifest["head"] == "2-3"
    assert manifest["model_type"] == "bert"
    assert (manifest["num_layers"], manifest["num_heads"], manifest["head_dim"]) == (3, 4, 12)
    for kind in KINDS:
        info = manifest["graphs"][graph_file(kind)]
        assert info["outputs"] == list(GRAPHS[kind][1])
        assert info["parity"]["cosine_min"] > 0.99999
    files = {path.name for path in tiny_export.iterdir()} - {"ditto_config.json", "README.md"}  # people edit the card
    assert set(manifest["files"]) == files
    assert {"model.onnx", "tokenizer.json", "config.json"} <= files
