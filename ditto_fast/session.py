"""ONNX Runtime: the one place that imports it, opens a graph and checks what it runs on."""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ditto_fast.checks import one_of
from ditto_fast.errors import ExportDirectoryError, MissingDependencyError, ProviderError

if TYPE_CHECKING:
    import onnxruntime

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}

_RUNTIMES = ("onnxruntime", "onnxruntime-gpu")


def installed_runtimes() -> list[str]:
    """The ONNX Runtime distributions that are installed; more than one overwrite each other's files."""

    def installed(name: str) -> bool:
        try:
            version(name)
        except PackageNotFoundError:
            return False
        return True

    return [name for name in _RUNTIMES if installed(name)]


_BOTH_INSTALLED = (
    "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files. "
    "Run: pip uninstall -y onnxruntime onnxruntime-gpu, then install one: "
    "pip install 'ditto-fast[cpu]' or 'ditto-fast[gpu]'."
)


def import_onnxruntime() -> Any:
    """Imports ONNX Runtime.

    Raises:
        MissingDependencyError: It is not installed; the message names the extra.

    Warns:
        RuntimeWarning: Both of its wheels are installed.
    """
    if len(installed_runtimes()) > 1:
        warnings.warn(_BOTH_INSTALLED, RuntimeWarning, stacklevel=2)
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            "ditto_fast needs ONNX Runtime to encode: pip install 'ditto-fast[cpu]', "
            f"or 'ditto-fast[gpu]' on a machine with an NVIDIA GPU ({error})."
        ) from error
    return onnxruntime


def _check_provider(provider: str, running: list[str], available: list[str]) -> None:
    """ONNX Runtime falls back to the CPU in silence; a user who named a device gets an error instead."""
    if PROVIDERS[provider] in running:
        return
    message = (
        f"{provider!r} ({PROVIDERS[provider]}) was asked for and did not start; this ONNX Runtime "
        f"({', '.join(installed_runtimes()) or 'unknown build'}) has {', '.join(available)}. "
        "Install 'ditto-fast[gpu]' with a CUDA and cuDNN that fit it, or pass providers='cpu'."
    )
    if len(installed_runtimes()) > 1:
        message = f"{message} {_BOTH_INSTALLED}"
    raise ProviderError(message)


def open_session(path: Path, provider: str, num_threads: int) -> onnxruntime.InferenceSession:
    """Opens a graph on the provider asked for, and on no other.

    Args:
        path: The .onnx file.
        provider: A key of `PROVIDERS`.
        num_threads: Threads that one run() uses inside an operator.

    Raises:
        ExportDirectoryError: The file is missing or not a readable ONNX graph.
        ProviderError: The provider cannot run here.
    """
    ort = import_onnxruntime()
    one_of("providers", provider, PROVIDERS)
    if not path.is_file():
        raise ExportDirectoryError(f"{path} is missing; export again, or copy the whole folder.")
    available = ort.get_available_providers()
    if PROVIDERS[provider] not in available:
        _check_provider(provider, [], available)
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # the fused skip + layer normalisation is slower on CPU than the two apart: docs/performance.md
    disabled = ["SkipLayerNormFusion"] if provider == "cpu" else []
    try:
        session = ort.InferenceSession(
            str(path), options, providers=[PROVIDERS[provider]], disabled_optimizers=disabled
        )
    except Exception as error:  # the binding raises its own, undocumented classes
        raise ExportDirectoryError(
            f"{path} cannot be opened by ONNX Runtime {ort.__version__}: {error}. "
            "The file may be cut short or from a newer exporter; export again."
        ) from error
    _check_provider(provider, session.get_providers(), available)
    return session
