"""Biases move from an attention to the projections before it, and only where that changes nothing."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ditto_fast.export.biases import take_attention_biases
from ditto_fast.session import import_onnxruntime
from ditto_fast.tolerances import within

_WIDTH = 8
PROJECTED = ("q", "k", "v")


def _model(extra_reader: bool = False, unprojected: bool = False) -> onnx.ModelProto:
    """One attention of two heads after three projections."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(random.standard_normal((_WIDTH, _WIDTH)).astype(np.float32), f"w{name}")
        for name in PROJECTED
    ]
    bias = numpy_helper.from_array(random.standard_normal(3 * _WIDTH).astype(np.float32), "bias")
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [name]) for name in PROJECTED]
    inputs = ["x" if unprojected else "q", "k", "v", "bias"]
    nodes.append(helper.make_node("MultiHeadAttention", inputs, ["y"], domain="com.microsoft", num_heads=2))
    outputs = ["y"]
    if extra_reader:
        nodes.append(helper.make_node("Neg", ["k"], ["z"]))
        outputs.append("z")
    shape = ["batch", "tokens", _WIDTH]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", *outputs)]
    graph = helper.make_graph(nodes, "attention", infos[:1], infos[1:], [*weights, bias])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _run(model: onnx.ModelProto) -> np.ndarray:
    x = np.random.default_rng(1).standard_normal((2, 5, _WIDTH)).astype(np.float32)
    session = import_onnxruntime().InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": x})[0]


def test_the_projections_add_the_biases():
    model = _model()
    expected = _run(model)
    taken = take_attention_biases(model.graph, set(PROJECTED))
    assert set(taken) == set(PROJECTED)
    (attention,) = (node for node in model.graph.node if node.op_type == "MultiHeadAttention")
    assert list(attention.input) == list(PROJECTED)
    assert not within(_run(model), expected)  # until they are added
    for name, bias in taken.items():
        producer = next(node for node in model.graph.node if node.output[0] == name)
        producer.output[0] = f"{name}_alone"
        model.graph.node.append(helper.make_node("Add", [f"{name}_alone", bias], [name]))
    nodes = sorted(model.graph.node, key=lambda node: ("MatMul", "Add", "MultiHeadAttention").index(node.op_type))
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    assert within(_run(model), expected)


@pytest.mark.parametrize("model", [_model(extra_reader=True), _model(unprojected=True)], ids=["read", "unprojected"])
def test_an_attention_keeps_its_bias_where_its_inputs_are_not_its_own(model: onnx.ModelProto):
    before = model.SerializeToString()
    assert take_attention_biases(model.graph, set(PROJECTED)) == {}
    assert model.SerializeToString() == before


def test_some_projections_are_not_enough():
    model = _model()
    assert take_attention_biases(model.graph, {"q", "v"}) == {}
