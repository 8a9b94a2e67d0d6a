"""The one caller of Optimum: writes a traced module as ONNX with inputs, outputs and axes of ours."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from optimum.exporters.onnx import export as optimum_export
from optimum.exporters.onnx.config import TextEncoderOnnxConfig
from optimum.utils import NormalizedTextConfig
from torch.jit._trace import TracerWarning

_OUTPUT_AXES = {
    "sentence_embedding": {0: "batch"},
}
_TOKEN_AXES = {0: "batch", 1: "sequence"}


class TracedGraph(Protocol):
    """A torch module that can be written: it knows the checkpoint's config and names its outputs."""

    config: Any
    output_names: tuple[str, ...]

    def eval(self) -> Any:
        """Puts the module into evaluation mode and returns it."""


class DittoOnnxConfig(TextEncoderOnnxConfig):  # type: ignore[misc]  # Optimum ships no types
    """Declares exactly the graph's inputs and outputs; a checkpoint's own output_* settings play no part."""

    NORMALIZED_CONFIG_CLASS = NormalizedTextConfig

    def __init__(self, config: Any, input_names: tuple[str, ...], output_names: tuple[str, ...]) -> None:
        super().__init__(config, task="feature-extraction")
        self._input_names = input_names
        self._output_names = output_names

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        """Input names and their dynamic axes."""
        return dict.fromkeys(self._input_names, _TOKEN_AXES)

    @property
    def outputs(self) -> dict[str, dict[int, str]]:
        """Output names and their dynamic axes."""
        return {name: _OUTPUT_AXES.get(name, _TOKEN_AXES) for name in self._output_names}


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the tracer's and Optimum's remarks about code that is not ours."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=TracerWarning)
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", category=UserWarning, module="torch.onnx")
            yield
    finally:
        logging.disable(previous)


def write_onnx(graph: TracedGraph, input_names: tuple[str, ...], path: Path, opset: int) -> None:
    """Traces `graph` and writes it.

    Args:
        graph: The module, which is put into evaluation mode.
        input_names: Inputs of the graph.
        path: The .onnx file.
        opset: ONNX operator set.
    """
    config = DittoOnnxConfig(graph.config, input_names, graph.output_names)
    with _quiet():
        optimum_export(graph.eval(), config, path, opset=opset)
