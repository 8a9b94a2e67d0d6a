"""The graph files of one export: traced, optimised, converted, saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from ditto_fast.artifact import graph_file, weights_file
from ditto_fast.export.checkpoint import Checkpoint
from ditto_fast.export.diagonal import ProjectedDiagonal
from ditto_fast.export.graph import DittoGraph
from ditto_fast.export.optimize import count_fused, optimize
from ditto_fast.export.optimum_export import write_onnx
from ditto_fast.export.precision import calibration_feeds, convert
from ditto_fast.export.weights import save_graphs
from ditto_fast.heads import Head
from ditto_fast.tokenizer import Tokenizer


@dataclass(frozen=True)
class GraphOptions:
    """What to write.

    Args:
        kinds: Kinds of graph, keys of `ditto_fast.artifact.GRAPHS`.
        precisions: Precisions, of `ditto_fast.artifact.PRECISIONS`.
        level: Level of optimisation, of `ditto_fast.export.optimize.LEVELS`.
        normalize: Divide the embedding by its L2 norm inside the graph.
        opset: ONNX operator set.
    """

    kinds: tuple[str, ...]
    precisions: tuple[str, ...]
    level: str
    normalize: bool
    opset: int

    def each(self) -> list[tuple[str, str]]:
        """Every (kind, precision) to write."""
        return [(kind, precision) for precision in self.precisions for kind in self.kinds]


def write_graphs(
    checkpoint: Checkpoint,
    head: Head,
    options: GraphOptions,
    tokenizer: Tokenizer,
    folder: Path,
    progress: Callable[[str], None],
) -> dict[str, dict[str, int]]:
    """Writes every graph of `options` into `folder`; returns each file's count of fused operators."""
    fused: dict[str, dict[str, int]] = {}
    calibration = calibration_feeds(tokenizer, checkpoint.input_names) if "int8" in options.precisions else []
    with TemporaryDirectory(dir=folder.parent) as scratch:
        traced: dict[str, Path] = {}
        level = options.level
        for kind in options.kinds:
            progress(f"tracing the {kind} graph")
            traced[kind] = Path(scratch) / graph_file(kind)
            graph = DittoGraph(checkpoint.traced_model, checkpoint.architecture, head, kind, options.normalize)
            if level == "full" and not isinstance(graph.diagonal, ProjectedDiagonal):
                level = "basic"  # the fuser has no pattern for attention whose scores are more than q k^T
            write_onnx(graph, checkpoint.input_names, traced[kind], options.opset)
        for precision in options.precisions:
            graphs: dict[Path, onnx.ModelProto] = {}
            for kind in options.kinds:
                path = folder / graph_file(kind, precision)
                progress(f"writing {path.name}")
                optimized = optimize(traced[kind], checkpoint.model.config, level, gpu=precision == "fp16")
                graphs[path] = convert(optimized, precision, calibration)
                fused[path.name] = count_fused(graphs[path])
            save_graphs(graphs, folder / weights_file(precision))
    return fused
