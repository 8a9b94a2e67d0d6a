"""Weights on disk: inside a lone graph file, or once in a file that several graphs share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import external_data_helper

_SMALLEST_SHARED = 1024  # bytes; smaller tensors stay in the graph
_ALIGNMENT = 4096  # a page, so that the runtime can map the file into memory


def save_graphs(graphs: Mapping[Path, onnx.ModelProto], weights: Path) -> None:
    """Writes graph files; where there are several, each distinct weight goes once into `weights`.

    Args:
        graphs: Each .onnx file to write, all in one folder, and its graph; the graphs are changed.
        weights: The file for shared weights, in the same folder.
    """
    for model in graphs.values():
        _merge_equal(model.graph)
    if len(graphs) == 1:
        for path, model in graphs.items():
            onnx.save(model, path)
        return
    offsets: dict[str, int] = {}
    with weights.open("wb") as file:
        for path, model in graphs.items():
            for tensor in model.graph.initializer:
                if len(tensor.raw_data) >= _SMALLEST_SHARED:
                    _move(tensor, file, weights.name, offsets)
            path.write_bytes(model.SerializeToString())


def _merge_equal(graph: onnx.GraphProto) -> None:
    """Keeps one of equal weights, in place: fusion writes what layers share once for each of them."""
    kept: dict[tuple[bytes, ...], str] = {}
    names: dict[str, str] = {}
    for tensor in graph.initializer:
        key = (hashlib.sha256(tensor.raw_data).digest(), str(tensor.data_type).encode(), str(tensor.dims).encode())
        if len(tensor.raw_data) >= _SMALLEST_SHARED:
            names[tensor.name] = kept.setdefault(key, tensor.name)
    if all(name == first for name, first in names.items()):
        return
    tensors = [tensor for tensor in graph.initializer if names.get(tensor.name, tensor.name) == tensor.name]
    copies = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in tensors]
    del graph.initializer[:]
    graph.initializer.extend(copies)
    for node in graph.node:
        branches = [attribute.g.node for attribute in node.attribute if attribute.HasField("g")]
        for reader in (node, *(inner for branch in branches for inner in branch)):
            for position, name in enumerate(reader.input):
                reader.input[position] = names.get(name, name)


def _move(tensor: onnx.TensorProto, file: BinaryIO, location: str, offsets: dict[str, int]) -> None:
    """Replaces a tensor's data by a reference into the shared file, writing it there if it is new."""
    data = tensor.raw_data
    digest = hashlib.sha256(data).hexdigest()
    if digest not in offsets:
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        offsets[digest] = file.tell()
        file.write(data)
    external_data_helper.set_external_data(tensor, location, offset=offsets[digest], length=len(data))
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
