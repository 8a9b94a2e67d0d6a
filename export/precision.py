"""The precisions of a graph: fp32 as traced, fp16 for GPUs, int8 for CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

import numpy as np
import onnx
from numpy.typing import NDArray

from ditto_fast.batches import graph_inputs
from ditto_fast.export.half import to_half
from ditto_fast.export.quantize import quantize
from ditto_fast.export.rows import project_rows
from ditto_fast.tokenizer import Tokenizer


def calibration_feeds(tokenizer: Tokenizer, input_names: Iterable[str]) -> list[dict[str, NDArray[np.int64]]]:
    """The neutral sentences of calibration.txt as graph inputs, one sentence each."""
    text = (files("ditto_fast.export") / "calibration.txt").read_text(encoding="utf-8")
    rows = [ids[None] for ids in tokenizer(text.splitlines())]
    return [graph_inputs(ids, np.ones_like(ids), input_names) for ids in rows]


def convert(
    model: onnx.ModelProto, precision: str, calibration: Sequence[Mapping[str, NDArray[np.int64]]]
) -> onnx.ModelProto:
    """Returns an optimised graph in the form that runs best in a precision; its inputs and outputs keep their types."""
    if precision == "fp16":
        return to_half(model)
    if precision == "int8":
        return quantize(model, calibration)
    project_rows(model)
    return model
