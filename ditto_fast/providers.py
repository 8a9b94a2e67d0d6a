"""Execution providers: short names, what is installed, and no silent change of device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ditto_fast.checks import one_of
from ditto_fast.errors import OptionError, ProviderError

if TYPE_CHECKING:
    import onnxruntime

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
CPU = PROVIDERS["cpu"]

# Those that run on a GPU; the others run on the cores of a CPU, or on a device that is no GPU.
ON_GPU = frozenset(
    f"{name}ExecutionProvider" for name in ("CUDA", "Tensorrt", "NvTensorRTRTX", "ROCM", "MIGraphX", "Dml", "WebGpu")
)

# What a provider is opened with where a user's own options say nothing else.
# TF32 keeps 10 bits of a float32's mantissa in matrix products: past what fp32 vectors promise (tolerances.py).
DEFAULT_OPTIONS: dict[str, dict[str, Any]] = {PROVIDERS["cuda"]: {"use_tf32": "0"}}

# The session option by which ONNX Runtime records which provider takes which node; versions before 1.24 ignore it.
RECORD_NODES = "session.record_ep_graph_assignment_info"

# "auto", a name (short, or ONNX Runtime's own), or a list of names and (name, options).
Providers = str | Sequence[str | tuple[str, dict[str, Any]]]
ProviderList = list[tuple[str, dict[str, Any]]]

_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml")
_HOW_TO_GET = {
    "cuda": "Install 'ditto-fast[gpu]' (in place of onnxruntime) with a CUDA and cuDNN that fit it",
    "tensorrt": "Install 'ditto-fast[gpu]' (in place of onnxruntime) and TensorRT",
    "coreml": "It comes with onnxruntime on macOS",
    "openvino": "Install onnxruntime-openvino (in place of onnxruntime)",
}


@cache
def installed_runtimes() -> list[str]:
    """The ONNX Runtime distributions that are installed; two of them overwrite each other's files."""

    def installed(name: str) -> bool:
        try:
            version(name)
        except PackageNotFoundError:
            return False
        return True

    return [name for name in _RUNTIMES if installed(name)]


def several_installed() -> str:
    """What to say where more than one runtime is installed; nothing where one is."""
    runtimes = installed_runtimes()
    if len(runtimes) < 2:
        return ""
    return (
        f"{', '.join(runtimes)} are installed together and overwrite each other's files. "
        f"Run: pip uninstall -y {' '.join(runtimes)}, then install one: "
        "pip install 'ditto-fast[cpu]' or 'ditto-fast[gpu]'."
    )


def normalize_providers(providers: Providers) -> ProviderList:
    """What a user writes as ONNX Runtime's list, in its own names; which of them run here is not asked.

    Args:
        providers: One name or a list of names and (name, options): keys of `PROVIDERS`, or ONNX Runtime's own names.

    Raises:
        OptionError: It is neither.

    Example:
        >>> normalize_providers(["cuda", ("CPUExecutionProvider", {})])
        [('CUDAExecutionProvider', {}), ('CPUExecutionProvider', {})]
    """
    entries = [providers] if isinstance(providers, str) else providers
    if not isinstance(entries, Sequence) or not entries:
        raise OptionError(f"providers must be a name such as 'cpu', or a list of some; got {providers!r}.")
    return [_entry(entry) for entry in entries]


def _entry(entry: object) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):
        return PROVIDERS.get(entry, entry), {}
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict):
        return PROVIDERS.get(entry[0], entry[0]), entry[1]
    raise OptionError(f"providers must list names or (name, options dict) pairs; got {entry!r}.")


def prefers_cuda(providers: Providers) -> bool:
    """Whether CUDA is the first provider asked for; "auto" leaves that open."""
    return normalize_providers(providers)[0][0] == PROVIDERS["cuda"]


def resolve_providers(providers: Providers, available: Sequence[str]) -> ProviderList:
    """Turns what a user writes into ONNX Runtime's list, checked against what is installed.

    Args:
        providers: "auto" (CUDA where it is installed, else the CPU with a warning), or see `normalize_providers`.
        available: What `onnxruntime.get_available_providers()` says.

    Raises:
        OptionError: It is neither.
        ProviderError: A provider of it is not installed; the message says what is and how to get it.

    Example:
        >>> resolve_providers("cpu", ["CPUExecutionProvider"])
        [('CPUExecutionProvider', {})]
    """
    if providers == "auto":
        if PROVIDERS["cuda"] in available:
            return [(PROVIDERS["cuda"], {})]
        warnings.warn("providers='auto': no CUDA in this ONNX Runtime, the CPU is used.", RuntimeWarning, stacklevel=5)
        return [(CPU, {})]
    resolved = normalize_providers(providers)
    names = [*PROVIDERS, "auto"] if isinstance(providers, str) else [*PROVIDERS]
    for name, _ in resolved:
        if name not in available:
            if not name.endswith("ExecutionProvider"):
                one_of("providers", name, [*names, *available])
            raise _unavailable(name, available)
    return resolved


def check_running(wanted: ProviderList, session: onnxruntime.InferenceSession, available: Sequence[str]) -> None:
    """Passes a session on what was asked for.

    ONNX Runtime falls back to the CPU in silence; whoever named a device gets an error instead. A device that leaves
    some nodes to others, such as those of shapes, is none of that.

    Raises:
        ProviderError: The first provider asked for did not start, or takes no node of the graph.
    """
    name = wanted[0][0]
    if name not in session.get_providers():
        raise _unavailable(name, available)
    if name == CPU or not hasattr(session, "get_provider_graph_assignment_info"):  # ONNX Runtime tells it from 1.24 on
        return
    taking = {part.ep_name for part in session.get_provider_graph_assignment_info()}
    if name not in taking:
        raise ProviderError(
            f"{name} was asked for and takes no node of this graph: {', '.join(sorted(taking)) or 'nothing'} would run "
            "in its place. Pass the graph of another precision, or providers='cpu'."
        )


def _unavailable(name: str, available: Sequence[str]) -> ProviderError:
    short = next((short for short, full in PROVIDERS.items() if full == name), name)
    message = (
        f"{short!r} ({name}) was asked for and cannot run; this ONNX Runtime "
        f"({', '.join(installed_runtimes()) or 'unknown build'}) has {', '.join(available)}. "
        f"{_HOW_TO_GET.get(short, 'Install a build of ONNX Runtime that has it')}, or pass providers='cpu'."
    )
    return ProviderError(f"{message} {several_installed()}".rstrip())
