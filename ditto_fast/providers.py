"""Execution providers: short names, what is installed, and no silent change of device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ditto_fast.checks import one_of
from ditto_fast.errors import OptionError, ProviderError

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
CPU = PROVIDERS["cpu"]

# A short name, "auto", or ONNX Runtime's own list of names or (name, options).
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


def resolve_providers(providers: Providers, available: Sequence[str]) -> ProviderList:
    """Turns what a user writes into ONNX Runtime's list, checked against what is installed.

    Args:
        providers: A key of `PROVIDERS`, "auto" (CUDA where it is installed, else the CPU with a warning), or
            ONNX Runtime's list of names or (name, options).
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
    if isinstance(providers, str):
        one_of("providers", providers, [*PROVIDERS, "auto"])
        resolved: ProviderList = [(PROVIDERS[providers], {})]
    else:
        resolved = [_entry(entry) for entry in providers] if isinstance(providers, Sequence) else []
        if not resolved:
            raise OptionError(f"providers must be a name such as 'cpu', or a list of some; got {providers!r}.")
    for name, _ in resolved:
        if name not in available:
            raise _unavailable(name, available)
    return resolved


def _entry(entry: object) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict):
        return entry[0], entry[1]
    raise OptionError(f"providers must list names or (name, options dict) pairs; got {entry!r}.")


def check_running(wanted: ProviderList, running: Sequence[str], available: Sequence[str]) -> None:
    """Passes a session on what was asked for.

    ONNX Runtime falls back to the CPU in silence; whoever named a device gets an error instead.

    Raises:
        ProviderError: The first provider asked for did not start.
    """
    if wanted[0][0] not in running:
        raise _unavailable(wanted[0][0], available)


def _unavailable(name: str, available: Sequence[str]) -> ProviderError:
    short = next((short for short, full in PROVIDERS.items() if full == name), name)
    message = (
        f"{short!r} ({name}) was asked for and cannot run; this ONNX Runtime "
        f"({', '.join(installed_runtimes()) or 'unknown build'}) has {', '.join(available)}. "
        f"{_HOW_TO_GET.get(short, 'Install a build of ONNX Runtime that has it')}, or pass providers='cpu'."
    )
    return ProviderError(f"{message} {several_installed()}".rstrip())
