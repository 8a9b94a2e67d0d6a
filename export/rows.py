"""Projections on rows: between its attentions, a fused encoder works on one matrix (B * T, H).

There a projection is a Gemm, which adds its bias at next to no cost, and of BiasGelu remains Gelu, the faster kernel.
On (B, T, H) ONNX Runtime has MatMul only, and each bias is another pass over what it gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ditto_fast.export.biases import ProjectionBiases, attentions_of
from ditto_fast.export.rewrite import read_names, replace_nodes

# operators that treat each row alone; their other inputs are rows, too, or one vector for all
_ROWWISE = ("LayerNormalization", "Add", "BiasGelu", "Gelu")


def project_rows(model: onnx.ModelProto) -> None:
    """Makes the projections of an fp32 graph work on rows, in place; a graph without fused attention stays as it is."""
    if not any(attentions_of(node) for node in model.graph.node):
        return
    _Rewrite(model.graph).run()
    if "com.microsoft" not in {entry.domain for entry in model.opset_import}:
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


class _Rewrite:
    """One graph, written anew in place: a value (B, T, K) gets a form (B * T, K) where it is computed or read so."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._vectors = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 1}
        self._weights = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2}
        self._values: set[str] = set()
        self._find_values()
        projections = {node.output[0] for node in graph.node if self._projects(node)}
        self._biases = ProjectionBiases(graph, projections)
        self._nodes: list[onnx.NodeProto] = []
        self._rows: dict[str, str] = {}  # the form (B * T, K) by the value's name
        self._only_rows: set[str] = set()  # values that have no other form yet

    def _find_values(self) -> None:
        """Finds the values (B, T, K): what projections before attentions read, and what follows from it row by row."""
        projected = {name for node in self._graph.node for each in attentions_of(node) for name in each.input[:3]}
        self._values = {
            node.input[0] for node in self._graph.node if self._has_weights(node) and node.output[0] in projected
        }
        for node in self._graph.node:
            if attentions_of(node) or self._projects(node) or self._is_rowwise(node):
                self._values.add(node.output[0])

    def _has_weights(self, node: onnx.NodeProto) -> bool:
        return node.op_type == "MatMul" and node.input[1] in self._weights

    def _projects(self, node: onnx.NodeProto) -> bool:
        return self._has_weights(node) and node.input[0] in self._values

    def _is_rowwise(self, node: onnx.NodeProto) -> bool:
        others = set(node.input) - self._vectors
        return node.op_type in _ROWWISE and bool(others) and others <= self._values

    def run(self) -> None:
        self._graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), "one_row"))
        self._add("Shape", ["input_ids"], "batch_shape")
        self._add("Concat", ["batch_shape", "one_row"], "values_shape", axis=0)
        done: set[str] = set()  # outputs of nodes that a projection has taken in
        for node in self._graph.node:
            if node.output[0] in done:
                continue
            if self._projects(node):
                done.update(self._project(node))
            elif self._is_rowwise(node) and not self._rows.keys().isdisjoint(node.input):
                self._on_rows(node)
            else:
                self._restore(read_names(node))
                self._nodes.append(node)
        self._restore(output.name for output in self._graph.output)
        replace_nodes(self._graph, self._nodes)

    def _project(self, node: onnx.NodeProto) -> list[str]:
        """Adds a projection and its bias; returns the output of what added the bias before."""
        projected = node.output[0]
        bias, follower = self._biases.of(projected)
        output = follower.output[0] if follower is not None and follower.op_type == "Add" else projected
        inputs = [self._as_rows(node.input[0]), node.input[1]]
        if bias is None:
            self._add("MatMul", inputs, self._new_rows(output))
        else:
            self._add("Gemm", [*inputs, bias], self._new_rows(output))
        if follower is not None and follower.op_type == "BiasGelu":
            gelu = self._new_rows(follower.output[0])
            self._add("Gelu", [self._rows[projected]], gelu, domain="com.microsoft")
        return [] if follower is None else [follower.output[0]]

    def _on_rows(self, node: onnx.NodeProto) -> None:
        moved = onnx.NodeProto()
        moved.CopyFrom(node)
        moved.input[:] = [name if name in self._vectors else self._as_rows(name) for name in node.input]
        moved.output[0] = self._new_rows(node.output[0])
        self._nodes.append(moved)

    def _new_rows(self, value: str) -> str:
        self._rows[value] = f"{value}_rows"
        self._only_rows.add(value)
        return self._rows[value]

    def _as_rows(self, value: str) -> str:
        if value not in self._rows:
            self._rows[value] = f"{value}_rows"
            self._add("Flatten", [value], self._rows[value], axis=2)
        return self._rows[value]

    def _restore(self, names: Iterable[str]) -> None:
        """Gives the values among `names` their form (B, T, K), for what can read no other."""
        for name in dict.fromkeys(names):
            if name in self._only_rows:
                self._only_rows.remove(name)
                self._add("Reshape", [self._rows[name], "values_shape"], name)

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self._nodes.append(helper.make_node(operator, inputs, [output], name=f"{output}_{operator}", **attributes))
