"""Which ONNX Runtime is installed, simulated; who is to blame for a graph that does not open; weights behind links."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from ditto_fast import FastEncoder, providers, session
from ditto_fast.errors import ExportDirectoryError, MissingDependencyError, OptionError, ProviderError
from ditto_fast.providers import CPU, PROVIDERS
from ditto_fast.session import open_session
from ditto_fast.tolerances import within

CUDA = PROVIDERS["cuda"]


@pytest.fixture
def broken_cuda(monkeypatch: pytest.MonkeyPatch):
    """A GPU build whose CUDA refuses every graph, as with a device_id that no GPU has."""

    class Session(onnxruntime.InferenceSession):
        def __init__(self, path: str, options: Any, providers: list[tuple[str, dict[str, Any]]], **more: Any) -> None:
            if providers[0][0] == CUDA:
                raise RuntimeError("invalid device ordinal")
            super().__init__(path, options, providers, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])


def test_without_a_runtime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError, match=r"ditto-fast\[cpu\]"):
        session.import_onnxruntime()


def test_with_both_wheels_it_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(providers, "installed_runtimes", lambda: ["onnxruntime", "onnxruntime-gpu"])
    with pytest.warns(RuntimeWarning, match="onnxruntime, onnxruntime-gpu are installed together"):
        session.import_onnxruntime()
    with pytest.raises(ProviderError, match="onnxruntime, onnxruntime-gpu are installed together"):
        providers.resolve_providers("cuda", ["CPUExecutionProvider"])


def _refused(options: onnxruntime.SessionOptions) -> None:
    options.register_custom_ops_library("no-such-library.so")


def test_session_options_that_are_refused_are_not_the_files_fault(tiny_export: Path, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(OptionError, match=r"session_options sets what .*no-such-library"):
        FastEncoder(tiny_export, session_options=_refused)
    assert capfd.readouterr().out == ""


def test_a_broken_file_is_the_files_fault_whatever_else_is_set(tmp_path: Path, broken_cuda: None):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no graph")
    for name, configure in (("cpu", None), ("cpu", _refused), ("cuda", None)):
        with pytest.raises(ExportDirectoryError, match="cut short"):
            open_session(path, name, 1, configure)


def test_a_provider_that_does_not_open_a_graph_says_why(
    tiny_export: Path, broken_cuda: None, capfd: pytest.CaptureFixture[str]
):
    path = tiny_export / "model.onnx"
    with pytest.raises(ProviderError, match=r"'device_id': 9.*invalid device ordinal.*Correct the options"):
        open_session(path, [("cuda", {"device_id": 9})], 1)
    with pytest.warns(RuntimeWarning, match=r"did not start, the CPU is used.*invalid device ordinal"):
        assert open_session(path, "auto", 1).get_providers() == [CPU]
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "taken"), [({}, {"use_tf32": "0"}), ({"use_tf32": 1, "device_id": 0}, {"use_tf32": 1, "device_id": 0})]
)
def test_cuda_keeps_to_fp32_unless_a_user_wants_tf32(tiny_export: Path, opened: list[Any], options, taken):
    with pytest.raises(ProviderError, match="cannot run"):
        open_session(tiny_export / "model.onnx", [("cuda", options), "cpu"], 1)
    assert opened == [[(CUDA, taken), (CPU, {})]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The providers that a GPU build of ONNX Runtime is asked for; it falls back to the CPU, as on this machine."""
    asked: list[Any] = []

    class Session(onnxruntime.InferenceSession):
        def __init__(self, path: str, options: Any, providers: list[tuple[str, dict[str, Any]]], **more: Any) -> None:
            asked.append(providers)
            super().__init__(path, options, providers[-1:], **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [PROVIDERS["tensorrt"], CUDA, CPU])
    return asked


@pytest.mark.parametrize(("name", "times"), [("cuda", 1), ("tensorrt", 1), ("cpu", 0)])
def test_the_cuda_that_pip_installed_is_loaded_once(
    tiny_export: Path,
    opened: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    times: int,
):
    loaded: list[str] = []
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: loaded.append("cuda") or sys.stdout.write("no cuDNN"))
    session._load_cuda.cache_clear()
    for _ in range(2):
        with suppress(ProviderError):
            open_session(tiny_export / "model.onnx", [name, "cpu"], 1)
    assert len(loaded) == times
    assert capsys.readouterr().out == ""


def test_onnxruntimes_own_fallback_is_off(tiny_export: Path):
    assert not open_session(tiny_export / "model.onnx", "cpu", 1)._enable_fallback


def _link(folder: Path, name: str, target: Path) -> None:
    """Moves a file of a folder elsewhere, under another name, and leaves a link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    (folder / name).rename(target)
    (folder / name).symlink_to(target)


@pytest.mark.parametrize("linked", ["model.onnx_data", "model_embedding.onnx", "every file"])
def test_weights_that_a_link_brings_from_another_folder(tiny_export: Path, tmp_path: Path, linked: str):
    """As DVC, git-annex and a second disk keep files: each in a folder of its own."""
    folder = tmp_path / "export"
    shutil.copytree(tiny_export, folder)
    for number, path in enumerate(sorted(folder.iterdir())):
        if linked in (path.name, "every file"):
            _link(folder, path.name, tmp_path / "cache" / str(number) / "content")
    assert list(session._weights_elsewhere(folder / "model_embedding.onnx")) == ["model.onnx_data"]
    texts = ["Rain.", "The ferry left the harbour before sunrise."]
    assert within(FastEncoder(folder, verify=True).encode(texts), FastEncoder(tiny_export).encode(texts))


def test_weights_beside_their_graph_are_read_by_onnxruntime_alone(tiny_export: Path, tmp_path: Path):
    """In a plain folder, and in the hub's cache, where all files are links into one folder."""
    folder = tmp_path / "snapshot"
    shutil.copytree(tiny_export, folder)
    for number, path in enumerate(sorted(folder.iterdir())):
        _link(folder, path.name, tmp_path / "blobs" / str(number))
    for directory in (tiny_export, folder):
        assert session._weights_elsewhere(directory / "model_embedding.onnx") == {}
