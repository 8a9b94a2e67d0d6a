"""ONNX Runtime: the one place that imports it and opens a graph."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import ExportDirectoryError, MissingDependencyError, OptionError, ProviderError
from ditto_fast.providers import (
    CPU,
    DEFAULT_OPTIONS,
    PROVIDERS,
    RECORD_NODES,
    ProviderList,
    Providers,
    check_running,
    resolve_providers,
    several_installed,
)

if TYPE_CHECKING:
    import onnxruntime

Configure: TypeAlias = "Callable[[onnxruntime.SessionOptions], None]"

_TELEMETRY = "ORT_DISABLE_TELEMETRY"


def import_onnxruntime() -> Any:
    """Imports ONNX Runtime.

    Raises:
        MissingDependencyError: It is not installed, or does not load; the message names the extra.

    Warns:
        RuntimeWarning: Both of its wheels are installed.
    """
    if said := several_installed():
        warnings.warn(said, RuntimeWarning, stacklevel=2)
    try:
        with _no_telemetry():
            import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "ditto_fast needs ONNX Runtime to encode: pip install 'ditto-fast[cpu]', "
            f"or 'ditto-fast[gpu]' on a machine with an NVIDIA GPU ({error})."
        ) from error
    return onnxruntime


@contextmanager
def _no_telemetry() -> Iterator[None]:
    """Keeps ONNX Runtime from reporting to its makers, which its recent wheels do from their import on.

    It would write below the home folder, open connections, and hang a forked process at its exit. Whoever wants it
    sets ORT_DISABLE_TELEMETRY=0 or imports onnxruntime first; the variable is read once, and is put back.
    """
    if _TELEMETRY in os.environ or "onnxruntime" in sys.modules:
        yield
        return
    os.environ[_TELEMETRY] = "1"
    try:
        yield
    finally:
        del os.environ[_TELEMETRY]


@cache
def _load_cuda() -> None:
    """Loads the CUDA and cuDNN that pip installed (nvidia-* wheels), which ONNX Runtime does not look for by itself.

    What it prints of those it does not find is left out: a provider that then does not start says so.
    """
    load = getattr(import_onnxruntime(), "preload_dlls", None)  # ONNX Runtime has it from 1.21 on
    if load is not None:
        with redirect_stdout(StringIO()):
            load()


def open_session(
    path: Path,
    providers: Providers,
    num_threads: int,
    configure: Configure | None = None,
) -> onnxruntime.InferenceSession:
    """Opens a graph on the providers asked for, and on no other.

    Args:
        path: The .onnx file.
        providers: See `ditto_fast.providers.resolve_providers`.
        num_threads: Threads that one run() uses inside an operator.
        configure: Changes the session options last.

    Raises:
        ExportDirectoryError: The file is missing or not a readable ONNX graph.
        OptionError: ONNX Runtime refuses what `configure` sets.
        ProviderError: A provider cannot run here.
    """
    ort = import_onnxruntime()
    if not path.is_file():
        raise ExportDirectoryError(f"{path} is missing; export again, or copy the whole folder.")
    available = ort.get_available_providers()
    wanted = resolve_providers(providers, available)
    try:
        session = _start(path, wanted, num_threads, configure)
        check_running(wanted, session, available)
    except ProviderError as error:
        if providers != "auto":
            raise
        said = f"providers='auto': {wanted[0][0]} did not start, the CPU is used. {error}"
        warnings.warn(said, RuntimeWarning, stacklevel=4)
        return open_session(path, "cpu", num_threads, configure)
    return session


def _start(
    path: Path, wanted: ProviderList, num_threads: int, configure: Configure | None
) -> onnxruntime.InferenceSession:
    """Opens a graph, or says what keeps it from opening: the file, the session options or the provider."""
    try:
        return _open(path, wanted, num_threads, configure)
    except Exception as error:  # the binding raises its own, undocumented classes
        version = import_onnxruntime().__version__
        plain: ProviderList = [(CPU, {})]
        if (wanted == plain and configure is None) or not _opens(path, plain, num_threads, None):
            raise ExportDirectoryError(
                f"{path} cannot be opened by ONNX Runtime {version}: {error}. "
                "The file may be cut short or from a newer exporter; export again."
            ) from error
        if configure is not None and not _opens(path, plain, num_threads, configure):
            raise OptionError(
                f"session_options sets what ONNX Runtime {version} refuses: {error}. "
                f"{path.name} opens without it: correct it, or leave it out."
            ) from error
        name, options = wanted[0]
        raise ProviderError(
            f"{name} with the options {options} cannot open {path.name} in ONNX Runtime {version}: {error}. "
            "Correct the options, or pass providers='cpu'."
        ) from error


def _opens(path: Path, wanted: ProviderList, num_threads: int, configure: Configure | None) -> bool:
    try:
        _open(path, wanted, num_threads, configure)
    except Exception:
        return False
    return True


def _open(
    path: Path, wanted: ProviderList, num_threads: int, configure: Configure | None
) -> onnxruntime.InferenceSession:
    ort = import_onnxruntime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # shapes change with every batch: a pattern fits none. The arena spares each run the page faults of fresh memory
    options.enable_mem_pattern = False
    weights = _weights_elsewhere(path)  # to be kept until the session is open
    # versions without the call follow links
    if weights and hasattr(options, "add_external_initializers_from_files_in_memory"):
        options.add_external_initializers_from_files_in_memory(
            list(weights), list(weights.values()), [content.size for content in weights.values()]
        )
    if configure is not None:
        configure(options)
    on_cpu = wanted[0][0] == CPU
    if not on_cpu:
        options.add_session_config_entry(RECORD_NODES, "1")
    # the fused skip + layer normalisation is slower on CPU than the two apart
    disabled = ["SkipLayerNormFusion"] if on_cpu else []
    names = [name for name, _ in wanted]
    if PROVIDERS["cuda"] in names or PROVIDERS["tensorrt"] in names:
        _load_cuda()
    providers = [(name, {**DEFAULT_OPTIONS.get(name, {}), **chosen}) for name, chosen in wanted]
    # no fallback: it prints to stdout, opens the graph on the CPU and hides why
    return ort.InferenceSession(
        str(path), options, providers=providers, disabled_optimizers=disabled, enable_fallback=0
    )


def _weights_elsewhere(path: Path) -> dict[str, NDArray[np.uint8]]:
    """By name, the graph's weights that a link brings from another folder than its own: ONNX Runtime refuses those."""
    folder = path.resolve().parent
    elsewhere = [file for file in path.parent.glob("*.onnx_data") if file.resolve().parent != folder]
    graph = path.read_bytes() if elsewhere else b""  # it names its weights in plain bytes
    return {file.name: np.memmap(file, np.uint8, "r") for file in elsewhere if file.name.encode() in graph}
