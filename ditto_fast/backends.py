"""Where the pooling is done: inside the graph, in numpy, or in a kernel on the device."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ditto_fast.artifact import Manifest, graph_file
from ditto_fast.checks import one_of
from ditto_fast.errors import OptionError
from ditto_fast.pooling import DEFAULT_POOLING
from ditto_fast.providers import Providers, prefers_cuda
from ditto_fast.runner import GraphRunner
from ditto_fast.selection import BACKENDS, Selection, choose_graph, select

if TYPE_CHECKING:
    import onnxruntime


def select_backend(
    path: Path, pooling: str | None, precision: str | None, backend: str, providers: Providers
) -> Selection:
    """Chooses the graph for a pooling backend.

    Args:
        path: An export directory, or an .onnx file in it, which is then the choice.
        pooling: See `ditto_fast.selection.select`.
        precision: See `ditto_fast.selection.select`.
        backend: A key of `BACKENDS`, or "auto": the kernel where CUDA is the first provider, the directory
            holds the head graph, triton is installed and torch sees a GPU, else inside the graph where it can be,
            else numpy.
        providers: What the graph will run on.

    Raises:
        ExportDirectoryError: The export lacks the graph; the message says what it holds.
        OptionError: The backend is none, or cannot do that pooling; or providers are none.
    """
    one_of("pooling_backend", backend, [*BACKENDS, "auto"])
    if backend == "triton" and pooling not in (None, DEFAULT_POOLING):
        raise OptionError(
            f"pooling_backend='triton' pools {DEFAULT_POOLING} alone; got pooling={pooling!r}. Use 'numpy' for it."
        )
    kind = BACKENDS.get(backend)
    if backend == "auto" and prefers_cuda(providers) and pooling in (None, DEFAULT_POOLING) and path.is_dir():
        head = graph_file("head", _precision(path, precision))
        kind = "head" if head in Manifest.read(path).graphs and _kernels_run() else None
    selection = select(path, pooling, precision, kind)
    if backend != "auto" and selection.info.kind != kind:
        raise OptionError(
            f"pooling_backend={backend!r} takes the {kind} graph, and {selection.path.name} is the "
            f"{selection.info.kind} graph. Pass the directory, or leave pooling_backend out."
        )
    return selection


def graph_files(
    manifest: Manifest, pooling: str | None, precision: str | None, backend: str, providers: Providers
) -> list[str]:
    """Files of the graphs that `select_backend` may choose, wherever it runs; the arguments are its own.

    Raises:
        OptionError: The pooling, precision, backend or providers are none.
    """
    one_of("pooling_backend", backend, [*BACKENDS, "auto"])
    names = [choose_graph(manifest, pooling, precision, BACKENDS.get(backend))]
    if backend == "auto" and prefers_cuda(providers) and pooling in (None, DEFAULT_POOLING):
        head = choose_graph(manifest, pooling, precision, "head")  # for a machine that has the kernels
        names += [head] if head in manifest.graphs else []
    return names


def _kernels_run() -> bool:
    """Whether the kernels have what they need; a torch for the CPU alone, as an export leaves it, has not."""
    if find_spec("torch") is None or find_spec("triton") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _precision(path: Path, precision: str | None) -> str:
    manifest = Manifest.read(path)
    return manifest.graphs[choose_graph(manifest, precision=precision)].precision


def open_runner(
    selection: Selection, providers: Providers, configure: Callable[[onnxruntime.SessionOptions], None] | None
) -> GraphRunner:
    """Opens the graph with what pools its outputs; torch and the kernels are imported only where they do."""
    if selection.info.kind != "head":
        return GraphRunner(selection, providers, configure)
    from ditto_fast.kernel_runner import KernelRunner

    return KernelRunner(selection, providers, configure)
