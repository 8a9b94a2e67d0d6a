"""Variants of one export: optimisation levels, precisions, kinds of graph, shared weights."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from families import FAMILIES, eager_reference, write_checkpoint

from ditto_fast import FastEncoder
from ditto_fast.artifact import GRAPHS, PRECISIONS, Manifest, graph_file
from ditto_fast.errors import ExportDirectoryError, OptionError, ParityError
from ditto_fast.export import export_model
from ditto_fast.export.again import verify_directory
from ditto_fast.export.pipeline import Verification
from ditto_fast.similarity import similarity_pairwise
from ditto_fast.tolerances import MIN_COSINES, within

TEXTS = ["The ferry left the harbour.", "x", "", "who repaired the old piano in the school hall? " * 3]
FUSED_FAMILIES = [name for name, family in FAMILIES.items() if family.fused]


@pytest.fixture(scope="module")
def everything(minilm: Path, tmp_path_factory) -> Path:
    """The real model in every kind and precision."""
    directory = tmp_path_factory.mktemp("export") / "everything"
    export_model(minilm, "1-10", directory, outputs=tuple(GRAPHS), precision=PRECISIONS)
    return directory


@pytest.mark.parametrize("family", FUSED_FAMILIES)
@pytest.mark.parametrize("head", ["1-1", "3-4"])
def test_full_fuses_every_attention_and_none_is_left(checkpoint, tmp_path: Path, family: str, head: str):
    """The head's own layer included: Ditto's part must not hide it from the fuser."""
    report = export_model(
        checkpoint(family), head, tmp_path / "out", outputs=("embedding",), verification=Verification(False)
    )
    for file, info in report.manifest.graphs.items():
        operators = Counter(node.op_type for node in onnx.load(tmp_path / "out" / file).graph.node)
        assert info.fused["MultiHeadAttention"] == report.manifest.num_layers == operators["If"]
        assert operators["Softmax"] == 0
        assert operators["BiasGelu"] + operators["Gelu"] == report.manifest.num_layers
        assert operators["SkipLayerNormalization"] == 0  # slower on CPU


@pytest.mark.parametrize("level", ["none", "basic", "full"])
def test_every_level_gives_the_same_vectors(checkpoint, tiny_export: Path, tmp_path: Path, level: str):
    report = export_model(checkpoint("bert"), "2-3", tmp_path / "out", optimize=level)
    assert report.manifest.optimize == level
    assert ("MultiHeadAttention" in report.manifest.graphs["model.onnx"].fused) == (level == "full")
    assert within(FastEncoder(tmp_path / "out").encode(TEXTS), FastEncoder(tiny_export).encode(TEXTS))


def test_saved_graphs_are_portable(everything: Path):
    """Operators that ONNX Runtime makes for one kind of CPU (the NCHWc layout) are in no file."""
    for file in Manifest.read(everything).graphs:
        domains = {node.domain for node in onnx.load(everything / file, load_external_data=False).graph.node}
        assert domains <= {"", "ai.onnx", "com.microsoft"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_each_precision_says_what_it_costs(everything: Path, precision: str):
    graphs = {f: i for f, i in Manifest.read(everything).graphs.items() if i.precision == precision}
    assert len(graphs) == len(GRAPHS)
    for info in graphs.values():
        assert MIN_COSINES[precision] <= info.parity["cosine_min"] <= info.parity["cosine_mean"] <= 1 + 1e-6
        assert (info.parity["tolerance"] is None) == (precision != "fp32")
    encoder = FastEncoder(everything, precision=precision)
    assert encoder.precision == precision
    cosines = similarity_pairwise(encoder.encode(TEXTS), FastEncoder(everything).encode(TEXTS))
    assert cosines.min() >= MIN_COSINES[precision]
    assert FastEncoder(everything).precision == "fp32"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_outputs_stay_float32_and_a_masked_row_finite(everything: Path, precision: str):
    session = onnxruntime.InferenceSession(everything / graph_file("tokens", precision))
    ids = np.full((2, 5), 2003)
    feeds = {"input_ids": ids, "attention_mask": np.array([[1] * 5, [0] * 5]), "token_type_ids": ids * 0}
    for output in session.run(None, feeds):
        assert output.dtype == np.float32
        assert np.isfinite(output).all()
    assert (session.run(["attention_diagonal"], feeds)[0][1] == 0).all()


def test_int8_does_not_depend_on_the_batch(everything: Path):
    """Static activation scales: with dynamic ones the cosine falls to 0.987 (performance.md)."""
    encoder = FastEncoder(everything, precision="int8")
    texts = [*TEXTS, *(f"{'many words ' * (i % 11)}and number {i}" for i in range(40))]
    alone = np.stack([encoder.encode(text) for text in texts])
    # the floors that docs/encoder.md and docs/export.md state
    assert similarity_pairwise(encoder.encode(texts), alone).min() > 0.99999
    assert similarity_pairwise(encoder.encode(texts, uniform_length=False), alone).min() > 0.999


def test_int8_weights_keep_to_seven_bits(everything: Path):
    """Without VNNI two 8-bit products saturate in 16 bits."""
    graph = onnx.load(everything / "model_int8.onnx").graph
    weights = [onnx.numpy_helper.to_array(t) for t in graph.initializer if t.data_type == onnx.TensorProto.INT8]
    assert len(weights) == 6 * 6
    assert max(np.abs(weight.astype(int)).max() for weight in weights) == 63
    assert not any(node.op_type == "DynamicQuantizeLinear" for node in graph.node)


def test_fp16_weights_are_half_and_the_ditto_part_is_not(everything: Path):
    graph = onnx.load(everything / "model_fp16.onnx").graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    gemm = next(node for node in graph.node if node.op_type == "Gemm")
    assert types[gemm.input[1]] == onnx.TensorProto.FLOAT
    matmuls = [node for node in graph.node if node.op_type == "MatMul" and node.input[1] in types]
    assert len(matmuls) == 6 * 6
    assert {types[node.input[1]] for node in matmuls} == {onnx.TensorProto.FLOAT16}


def test_fp16_that_overflows_is_refused_and_leaves_nothing(tmp_path: Path):
    folder = write_checkpoint("bert", tmp_path / "m")
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer.0.intermediate.dense.weight"] *= 1e5
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ParityError, match="use fp32 or int8"):
        export_model(folder, "1-1", tmp_path / "out", precision=("fp16",))
    assert not (tmp_path / "out").exists()


def test_the_threshold_is_settable(checkpoint, tmp_path: Path):
    with pytest.raises(ParityError, match=r"cosine below 0\.9999"):
        export_model(
            checkpoint("bert"),
            "1-1",
            tmp_path / "out",
            precision=("int8",),
            verification=Verification(min_cosine=0.99999),
        )


def test_variants_share_one_file_of_weights(everything: Path, minilm_export: Path):
    for precision in PRECISIONS:
        weights = everything / f"{graph_file('tokens', precision)}_data"
        graphs = [everything / graph_file(kind, precision) for kind in GRAPHS]
        assert sum(path.stat().st_size for path in graphs) < 0.02 * weights.stat().st_size
        for path in graphs:
            external = [t for t in onnx.load(path, load_external_data=False).graph.initializer if t.external_data]
            assert external
            assert {entry.value for t in external for entry in t.external_data if entry.key == "location"} == {
                weights.name
            }


@pytest.mark.parametrize("change", ["missing", "moved"])
def test_a_lost_weights_file_is_named(tiny_export: Path, tmp_path: Path, change: str):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_export, copy)
    weights = copy / "model.onnx_data"
    weights.unlink() if change == "missing" else weights.rename(copy / "elsewhere")
    with pytest.raises(ExportDirectoryError, match=r"lacks model\.onnx_data"):
        FastEncoder(copy)


def test_the_head_graph_gives_the_query_and_key(checkpoint, tmp_path: Path):
    export_model(checkpoint("bert"), "2-3", tmp_path / "out", outputs=("head",))
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model_head.onnx")
    ids = np.array([[2, 7, 8, 9, 3], [2, 7, 3, 0, 0]])
    mask = (ids > 0).astype(np.int64)
    query, key, first, last = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0})
    scores = np.where(mask[:, None, :] == 1, np.einsum("bid,bjd->bij", query, key), -np.inf)
    softmax = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    diagonal = np.einsum("bii->bi", softmax) * mask
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
    expected = eager_reference(checkpoint("bert"), inputs, 2, 3)
    assert within(diagonal, expected["attention_diagonal"])
    assert within(first[mask == 1], expected["first_hidden_state"][mask == 1])
    assert within(last[mask == 1], expected["last_hidden_state"][mask == 1])


def test_normalize_goes_into_the_graph(checkpoint, tmp_path: Path):
    export_model(checkpoint("bert"), "2-3", tmp_path / "out", outputs=("embedding",), normalize=True)
    for file in ("model_embedding.onnx", "model.onnx"):
        vectors = FastEncoder(tmp_path / "out" / file).encode(TEXTS)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert within(FastEncoder(tmp_path / "out").encode(TEXTS), vectors)


@pytest.mark.parametrize("opset", [17, 18, 20])
def test_the_operator_set_is_the_one_asked_for(checkpoint, tmp_path: Path, opset: int):
    export_model(checkpoint("bert"), "1-1", tmp_path / "out", opset=opset)
    imports = {entry.domain: entry.version for entry in onnx.load(tmp_path / "out" / "model.onnx").opset_import}
    assert imports[""] == opset


def test_wrong_choices_are_named(checkpoint, tmp_path: Path):
    for options, message in (
        ({"precision": ("fp8",)}, "fp32, fp16, int8"),
        ({"precision": "int8"}, "sequence"),
        ({"outputs": ("vectors",)}, "tokens, embedding, head"),
        ({"optimize": "max"}, "none, basic, full"),
    ):
        with pytest.raises(OptionError, match=message):
            export_model(checkpoint("bert"), "1-1", tmp_path / "out", **options)


def test_an_export_verifies_again_and_a_changed_file_is_named(checkpoint, tiny_export: Path, tmp_path: Path):
    reports = verify_directory(tiny_export, str(checkpoint("bert")), ["one", "two words", "three more words"])
    assert all(report.passed and report.sentences == 3 for report in reports)
    with pytest.raises(ParityError, match="other weights"):
        verify_directory(tiny_export, str(checkpoint("roberta")))
    copy = tmp_path / "copy"
    shutil.copytree(tiny_export, copy)
    (copy / "tokenizer.json").write_text("{}")
    with pytest.raises(ExportDirectoryError, match=r"tokenizer\.json is changed"):
        verify_directory(copy, str(checkpoint("bert")))


def test_list_inspect_and_verify_on_the_command_line(command, checkpoint, tiny_export: Path):
    listed = command("ditto-export", "--list", "--json")
    assert json.loads(listed.stdout)["models"]["bert-base"] == {"model": "bert-base-uncased", "head": "1-10"}
    shown = command("ditto-export", "--inspect", tiny_export)
    assert shown.returncode == 0
    for word in ("head 2-3", "model_embedding.onnx", "MultiHeadAttention", "max abs difference"):
        assert word in " ".join(shown.stdout.replace("│", " ").split())
    verified = command("ditto-export", "--verify", tiny_export, "--model", checkpoint("bert"))
    assert verified.stdout.count("passed") == 2


def test_sts_b_before_and_after(minilm: Path, senteval: Path, tmp_path: Path):
    """int8 on the real model: within 0.3 points (the target of the issue that asked for it)."""
    report = export_model(
        minilm, "1-10", tmp_path / "out", precision=("int8",), verification=Verification(senteval=senteval)
    )
    drop = report.manifest.graphs["model_int8.onnx"].parity["sts_b_dev"]
    assert drop["eager"] == pytest.approx(78.00, abs=0.01)
    assert drop["eager"] - drop["exported"] < 0.3
    with pytest.raises(ParityError, match="--max-spearman-drop"):
        export_model(
            minilm,
            "1-10",
            tmp_path / "again",
            precision=("int8",),
            verification=Verification(senteval=senteval, max_spearman_drop=-1.0),
        )


def test_attention_takes_no_mask_where_nothing_is_padded(tiny_export: Path):
    """Each If has a branch without the mask, which is faster, and one with it; both give the same vector."""
    model = onnx.load(tiny_export / "model_embedding.onnx")
    choices = [node for node in model.graph.node if node.op_type == "If"]
    for node in choices:
        branches = {attribute.name: attribute.g.node[0] for attribute in node.attribute}
        assert len(branches["then_branch"].input) < len(branches["else_branch"].input)
    assert len(choices) == 3
    ids = np.array([[2, 7, 8, 3], [2, 7, 3, 0]])
    mask = (ids > 0).astype(np.int64)
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids * 0}
    session = onnxruntime.InferenceSession(tiny_export / "model_embedding.onnx")
    alone = {name: value[1:, :3] for name, value in feeds.items()}
    assert within(session.run(None, feeds)[0][1:], session.run(None, alone)[0])
