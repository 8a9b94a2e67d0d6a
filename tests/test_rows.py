"""A graph on rows computes the same, whatever reads its values, and what has no fused attention is left alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ditto_fast.export.rows import project_rows
from ditto_fast.session import import_onnxruntime
from ditto_fast.tolerances import within

_WIDTH = 8
_NODES = {
    "plain": [],
    "a value read in both forms": [("Neg", ["attended"], "outside", {}), ("Add", ["outside", "last"], "more", {})],
    "a projection of something else": [
        ("MatMul", ["table", "w_o"], "other", {}),
        ("Add", ["last", "other"], "more", {}),
    ],
    "a value that two read": [("Add", ["inner", "last"], "more", {})],
}


def _layer(extra: list, masked: bool) -> onnx.ModelProto:
    """A layer of an encoder as the fuser leaves it, and `extra` nodes behind it."""
    random = np.random.default_rng(0)
    shapes = {"w_q": 2, "w_k": 2, "w_v": 2, "w_o": 2, "w_i": 2, "w_u": 2, "b_o": 1, "b_i": 1, "gain": 1, "shift": 1}
    tensors = {name: random.standard_normal([_WIDTH] * rank) for name, rank in shapes.items()}
    tensors |= {"b_qkv": random.standard_normal(3 * _WIDTH), "table": random.standard_normal((1, 5, _WIDTH))}
    attention = ["q", "k", "v", "b_qkv", *(["lengths"] if masked else [])]
    microsoft = {"domain": "com.microsoft"}
    steps = [
        ("Gather", ["embeddings", "input_ids"], "x", {}),
        *(("MatMul", ["x", f"w_{name}"], name, {}) for name in "qkv"),
        ("MultiHeadAttention", attention, "attended", {**microsoft, "num_heads": 2}),
        ("MatMul", ["attended", "w_o"], "o", {}),
        ("Add", ["b_o", "o"], "o_biased", {}),
        ("Add", ["o_biased", "x"], "residual", {}),
        ("LayerNormalization", ["residual", "gain", "shift"], "normalized", {}),
        ("MatMul", ["normalized", "w_i"], "i", {}),
        ("BiasGelu", ["i", "b_i"], "inner", microsoft),
        ("MatMul", ["inner", "w_u"], "u", {}),
        ("Add", ["u", "normalized"], "last", {}),
        *extra,
    ]
    nodes = [helper.make_node(operator, inputs, [output], **rest) for operator, inputs, output, rest in steps]
    weights = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()]
    weights.append(numpy_helper.from_array(random.standard_normal((9, _WIDTH)).astype(np.float32), "embeddings"))
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])]
    inputs += [helper.make_tensor_value_info("lengths", TensorProto.INT32, ["batch"])] if masked else []
    output = helper.make_tensor_value_info(steps[-1][2], TensorProto.FLOAT, ["batch", "tokens", _WIDTH])
    graph = helper.make_graph(nodes, "layer", inputs, [output], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _run(model: onnx.ModelProto) -> np.ndarray:
    feeds = {"input_ids": np.random.default_rng(1).integers(0, 9, (3, 5)), "lengths": np.array([5, 2, 4], np.int32)}
    session = import_onnxruntime().InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {node.name: feeds[node.name] for node in session.get_inputs()})[0]


@pytest.mark.parametrize("masked", [False, True], ids=["unmasked", "masked"])
@pytest.mark.parametrize("extra", _NODES.values(), ids=_NODES)
def test_a_layer_on_rows_computes_the_same(extra: list, masked: bool):
    model = _layer(extra, masked)
    expected = _run(model)
    project_rows(model)
    onnx.checker.check_model(model, full_check=False)
    assert within(_run(model), expected)
    operators = Counter(node.op_type for node in model.graph.node)
    assert operators["Gemm"] == 5  # all but u, which has no bias
    assert operators["Gelu"] == 1
    assert not operators["BiasGelu"]


def test_a_bias_stays_where_its_projection_is_read_without_it():
    model = _layer([("Add", ["i", "i"], "more", {})], masked=False)
    expected = _run(model)
    project_rows(model)
    assert within(_run(model), expected)
    assert Counter(node.op_type for node in model.graph.node)["BiasGelu"] == 1


def test_without_fused_attention_nothing_changes():
    model = _layer([], masked=False)
    (attention,) = (node for node in model.graph.node if node.op_type == "MultiHeadAttention")
    attention.op_type, attention.domain = "Sum", ""
    before = model.SerializeToString()
    project_rows(model)
    assert model.SerializeToString() == before
