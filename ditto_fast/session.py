"""ONNX Runtime: the one place that imports it and opens a graph."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ditto_fast.errors import ExportDirectoryError, MissingDependencyError
from ditto_fast.providers import (
    CPU,
    Providers,
    check_running,
    resolve_providers,
    several_installed,
)

if TYPE_CHECKING:
    import onnxruntime

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


def open_session(
    path: Path,
    providers: Providers,
    num_threads: int,
    configure: Callable[[onnxruntime.SessionOptions], None] | None = None,
) -> onnxruntime.InferenceSession:
    """Opens a graph on the providers asked for, and on no other.

    Args:
        path: The .onnx file.
        providers: See `ditto_fast.providers.resolve_providers`.
        num_threads: Threads that one run() uses inside an operator.
        configure: Changes the session options last.

    Raises:
        ExportDirectoryError: The file is missing or not a readable ONNX graph.
        ProviderError: A provider cannot run here.
    """
    ort = import_onnxruntime()
    if not path.is_file():
        raise ExportDirectoryError(f"{path} is missing; export again, or copy the whole folder.")
    available = ort.get_available_providers()
    wanted = resolve_providers(providers, available)
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # shapes change with every batch: a pattern fits none. The arena spares each run the page faults of fresh memory
    options.enable_mem_pattern = False
    if configure is not None:
        configure(options)
    # the fused skip + layer normalisation is slower on CPU than the two apart
    disabled = ["SkipLayerNormFusion"] if wanted[0][0] == CPU else []
    try:
        session = ort.InferenceSession(str(path), options, providers=wanted, disabled_optimizers=disabled)
    except Exception as error:  # the binding raises its own, undocumented classes
        raise ExportDirectoryError(
            f"{path} cannot be opened by ONNX Runtime {ort.__version__}: {error}. "
            "The file may be cut short or from a newer exporter; export again."
        ) from error
    if providers == "auto" and wanted[0][0] not in session.get_providers():
        warnings.warn(f"providers='auto': {wanted[0][0]} did not start, the CPU is used.", RuntimeWarning, stacklevel=4)
        return open_session(path, "cpu", num_threads, configure)
    check_running(wanted, session.get_providers(), available)
    return session
