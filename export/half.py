"""fp16 graphs: two regions, fp16 and fp32, with a cast only where a value crosses.

The converter that ONNX Runtime ships casts to fp16 and back between any two nodes that are to stay fp32, which
loses what they were to keep. In fp32 here: the Ditto part, softmax, norms that the graph spells out, and
whatever makes floats from other types. LayerNormalization and MultiHeadAttention take fp16 and sum in fp32.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ditto_fast.export.graph import is_ditto
from ditto_fast.session import import_onnxruntime

onnxruntime = import_onnxruntime()

_FP32_OPERATORS = {"Softmax", "ReduceMean", "ReduceSum", "ReduceLogSumExp", "Pow", "Sqrt", "Exp", "Log"}
_SUFFIX: dict[int, str] = {TensorProto.FLOAT: "_fp32", TensorProto.FLOAT16: "_fp16"}
# For a mask constant that fp16 cannot hold: half its largest, so that adding a score stays finite.
_LARGEST = 32752.0


def to_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns an fp32 graph in fp16; its inputs and outputs keep their types."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    floats = _float_values(model)
    _Converter(half.graph, floats).run()
    return half


def _float_values(model: onnx.ModelProto) -> set[str]:
    """Names of the float32 values. The runtime knows; onnx's own inference stops at fused operators."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    known = {output.name for output in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in known]
    probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    floats = {value.name for value in session.get_outputs() if value.type == "tensor(float)"}
    return floats | {tensor.name for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT}


class _Converter:
    """Assigns each node a region and rewrites a graph in place."""

    def __init__(self, graph: onnx.GraphProto, floats: set[str]) -> None:
        self._graph = graph
        self._floats = floats
        self._constants = {tensor.name: tensor for tensor in graph.initializer if tensor.name in floats}
        self._type: dict[str, int] = {}  # of each value that a node makes
        self._nodes: list[onnx.NodeProto] = []
        self._made: set[str] = set()  # casts and converted constants

    def run(self) -> None:
        for node in self._graph.node:
            if node.op_type == "Constant" and node.output[0] in self._floats:
                constant = TensorProto()
                constant.CopyFrom(helper.get_attribute_value(node.attribute[0]))
                constant.name = node.output[0]
                self._constants[constant.name] = constant
            else:
                self._convert(node)
        outputs = {output.name for output in self._graph.output}
        for name in outputs:
            if self._type.get(name) == TensorProto.FLOAT16:
                self._restore_output(name)
        others = [tensor for tensor in self._graph.initializer if tensor.name not in self._constants]
        kept = others + [tensor for name, tensor in self._constants.items() if name in self._made]
        kept = [TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in self._nodes]
        del self._graph.node[:], self._graph.initializer[:], self._graph.value_info[:]
        self._graph.node.extend(nodes)
        self._graph.initializer.extend(kept)

    def _region(self, node: onnx.NodeProto) -> int:
        makes_floats = not any(name in self._floats for name in node.input)
        stays = makes_floats or node.op_type in _FP32_OPERATORS or is_ditto(node.name)
        return TensorProto.FLOAT if stays else TensorProto.FLOAT16

    def _convert(self, node: onnx.NodeProto) -> None:
        region = self._region(node)
        for position, name in enumerate(node.input):
            if name in self._floats:
                node.input[position] = self._as(name, region)
        for name in node.output:
            if name in self._floats:
                self._type[name] = region
        if node.op_type == "Cast" and node.output[0] in self._floats:
            node.attribute[0].i = region
        self._nodes.append(node)

    def _as(self, name: str, wanted: int) -> str:
        """The name of a value in the region's type, cast where it is not."""
        if name in self._constants:
            return self._constant(name, wanted)
        if self._type[name] == wanted:
            return name
        cast = name + _SUFFIX[wanted]
        if cast not in self._made:
            self._nodes.append(helper.make_node("Cast", [name], [cast], name=f"{cast}_cast", to=wanted))
            self._made.add(cast)
        return cast

    def _constant(self, name: str, wanted: int) -> str:
        if wanted == TensorProto.FLOAT:
            self._made.add(name)
            return name
        half = name + _SUFFIX[wanted]
        if half not in self._made:
            values = numpy_helper.to_array(self._constants[name])
            fits = np.abs(values) <= np.finfo(np.float16).max
            values = np.where(fits, values, np.sign(values) * _LARGEST).astype(np.float16)
            self._constants[half] = numpy_helper.from_array(values, half)
            self._made.add(half)
        return half

    def _restore_output(self, name: str) -> None:
        """Renames an fp16 value that is an output of the graph and casts it back under its name."""
        half = f"{name}_half"
        for node in self._nodes:
            for names in (node.input, node.output):
                for position, value in enumerate(names):
                    if value == name:
                        names[position] = half
        self._nodes.append(helper.make_node("Cast", [half], [name], name=f"{name}_cast", to=TensorProto.FLOAT))
