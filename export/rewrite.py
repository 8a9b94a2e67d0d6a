"""New nodes in the place of a graph's old ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, those inside its branches included."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from inner.input


def replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Makes `nodes` the graph's nodes, in place, and drops the initializers that none of them reads."""
    # copies: a message of a repeated field is gone with the field
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    read = {name for node in copies for name in read_names(node)}
    kept = [
        onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in graph.initializer if tensor.name in read
    ]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(copies)
    graph.initializer.extend(kept)
