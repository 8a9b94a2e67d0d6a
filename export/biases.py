"""The bias of each projection (MatMul with a constant matrix), wherever in the graph it is added.

A MultiHeadAttention adds those of query, key and value in three passes over its inputs, and an Add or BiasGelu takes
another pass: Gemm and MatMulIntegerToFloat add a bias at next to no cost.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import numpy_helper

_ATTENTION = "MultiHeadAttention"
_PROJECTED = 3  # the first inputs: query, key, value; the bias of all three follows


class ProjectionBiases:
    """What is added to a projection right behind it.

    Args:
        graph: An optimised graph; the biases in its attentions are taken out, in place.
        projections: Outputs of the projections that are to take their bias in.
    """

    def __init__(self, graph: onnx.GraphProto, projections: set[str]) -> None:
        self._vectors = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 1}
        self._uses = Counter(name for node in graph.node for name in node.input)
        self._uses.update(output.name for output in graph.output)
        self._consumers = {name: node for node in graph.node for name in node.input}
        self._taken = take_attention_biases(graph, projections)

    def of(self, projected: str) -> tuple[str | None, onnx.NodeProto | None]:
        """The name of the bias, and the Add or BiasGelu that adds it: none where an attention did, or nothing does."""
        if projected in self._taken:
            return self._taken[projected], None
        follower = self._consumers.get(projected)
        if self._uses[projected] != 1 or follower is None or follower.op_type not in ("Add", "BiasGelu"):
            return None, None
        bias = follower.input[0] if follower.input[1] == projected else follower.input[1]
        return (bias, follower) if bias in self._vectors else (None, None)


def take_attention_biases(graph: onnx.GraphProto, projections: set[str]) -> dict[str, str]:
    """Takes the biases out of the graph's attentions, in place.

    Args:
        graph: An optimised graph; an attention may be an If on two attentions of the same inputs.
        projections: Outputs of the projections that can take a bias. An attention with other inputs, or with inputs
            that something else reads, keeps its bias.

    Returns:
        Name of the bias, a new initializer, by the projection's output.
    """
    vectors = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 1}
    sites = [attentions_of(node) for node in graph.node]
    readers = Counter(name for node in graph.node for name in node.input if node.op_type != _ATTENTION)
    readers += Counter(name for attentions in sites if attentions for name in set(attentions[0].input[:_PROJECTED]))
    taken: dict[str, str] = {}
    for attentions in filter(None, sites):
        inputs = list(attentions[0].input)
        projected, bias = inputs[:_PROJECTED], "".join(inputs[_PROJECTED : _PROJECTED + 1])
        alone = all(readers[name] == 1 for name in projected)
        if bias not in vectors or not alone or not projections.issuperset(projected):
            continue
        parts = np.split(numpy_helper.to_array(vectors[bias]), _PROJECTED)
        for name, part in zip(projected, parts, strict=True):
            taken[name] = f"{name}_bias"
            graph.initializer.append(numpy_helper.from_array(part, taken[name]))
        for attention in attentions:
            attention.input[_PROJECTED] = ""
            while not attention.input[-1]:
                attention.input.pop()
    return taken


def attentions_of(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The attention that a node is, or those of an If's branches; none for other nodes."""
    inner = [each for attribute in node.attribute for each in attribute.g.node] if node.op_type == "If" else [node]
    return inner if all(each.op_type == _ATTENTION for each in inner) else []
