"""The GPU path of FastEncoder on what is here: the CPU provider, and Triton's interpreter in the GPU's place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
import torch

from ditto_fast import FastEncoder
from ditto_fast.artifact import Manifest
from ditto_fast.backends import graph_files, select_backend
from ditto_fast.errors import ExportDirectoryError, OptionError, ProviderError
from ditto_fast.export import export_model
from ditto_fast.kernel_runner import KernelRunner
from ditto_fast.providers import CPU, PROVIDERS
from ditto_fast.runner import GraphRunner
from ditto_fast.tolerances import within

TEXTS = ["The ferry left.", "x", "", "who repaired the piano in the school hall?", "word " * 30]


@pytest.fixture(scope="module")
def export(checkpoint, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("export") / "heads"
    export_model(checkpoint("bert"), "2-3", directory, outputs=("embedding", "head"))
    return directory


@pytest.mark.parametrize("backend", ["graph", "numpy", "triton"])
def test_every_backend_gives_the_same_vectors(export: Path, backend: str):
    encoder = FastEncoder(export, pooling_backend=backend)
    kinds = {"graph": "model_embedding.onnx", "numpy": "model.onnx", "triton": "model_head.onnx"}
    assert encoder.path.name == kinds[backend]
    assert within(encoder.encode(TEXTS), FastEncoder(export).encode(TEXTS))
    assert encoder.token_weights("a b")[0][0] == "[CLS]"


def test_the_kernel_itself_in_the_interpreter(export: Path):
    """A process of its own: the interpreter must be chosen before triton is imported."""
    pytest.importorskip("triton", reason="triton is not installed: pip install 'ditto-fast[kernels]'")
    code = (
        "import os; os.environ['TRITON_INTERPRET'] = '1'\n"
        "import numpy as np\nfrom ditto_fast import FastEncoder\n"
        "from ditto_fast.kernels import operators, triton_ditto\n"
        "launched = []\nreal = triton_ditto.launch_ditto_pool\n"
        "triton_ditto.launch_ditto_pool = lambda *a: launched.append(1) or real(*a)\n"
        "operators.runs_triton = lambda tensor: True\n"
        f"directory, texts = {str(export)!r}, {TEXTS!r}\n"
        "kernel = FastEncoder(directory, pooling_backend='triton').encode(texts)\n"
        "graph = FastEncoder(directory).encode(texts)\n"
        "assert launched\nprint(np.abs(kernel - graph).max() / max(1, np.abs(graph).max()))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) <= 1e-5


def test_what_does_not_fit_together_is_said(export: Path, tiny_export: Path):
    with pytest.raises(ExportDirectoryError, match=r"not model_head\.onnx.*--outputs"):
        FastEncoder(tiny_export, pooling_backend="triton")
    with pytest.raises(OptionError, match="ditto-first-last alone"):
        FastEncoder(export, pooling_backend="triton", pooling="cls")
    with pytest.raises(OptionError, match="takes the head graph"):
        FastEncoder(export / "model.onnx", pooling_backend="triton")
    with pytest.raises(OptionError, match="graph, numpy, triton, auto"):
        FastEncoder(export, pooling_backend="cuda")
    if not torch.cuda.is_available():
        with pytest.raises(ProviderError, match="cuda"):
            FastEncoder(export, pooling_backend="triton", providers="cuda")


ON_SECOND = [("cuda", {"device_id": 1}), "cpu"]


@pytest.mark.parametrize(
    ("providers", "taken"),
    [
        ("cuda", True),
        (PROVIDERS["cuda"], True),
        (["cuda", "cpu"], True),
        (ON_SECOND, True),
        ("auto", False),
        ("cpu", False),
        (["tensorrt", "cuda"], False),
    ],
)
def test_the_kernel_is_the_choice_where_cuda_comes_first(export: Path, monkeypatch, providers, taken: bool):
    monkeypatch.setattr("ditto_fast.backends._kernels_run", lambda: True)
    assert (select_backend(export, None, None, "auto", providers).info.kind == "head") == taken
    files = graph_files(Manifest.read(export), None, None, "auto", providers)
    assert ("model_head.onnx" in files) == taken


@pytest.mark.parametrize(("missing", "sees"), [("torch", True), ("triton", True), (None, False), (None, True)])
def test_without_triton_or_a_torch_that_sees_the_gpu_the_graph_pools(export: Path, monkeypatch, missing, sees: bool):
    monkeypatch.setattr("ditto_fast.backends.find_spec", lambda name: None if name == missing else name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: sees)
    kind = select_backend(export, None, None, "auto", "cuda").info.kind
    assert kind == ("head" if missing is None and sees else "embedding")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """Torch and ONNX Runtime of a machine with two GPUs, as far as a runner that opens no graph sees them."""
    asked: list[tuple[str, dict[str, str]]] = []
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 2, Stream=lambda device: SimpleNamespace(cuda_stream=7 + device)
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [PROVIDERS["cuda"], CPU])
    monkeypatch.setattr(GraphRunner, "__init__", lambda *arguments: asked.extend(arguments[2]))
    monkeypatch.setattr(GraphRunner, "provider", PROVIDERS["cuda"])
    return asked


@pytest.mark.parametrize("device_id", [1, "1"])
def test_graph_and_kernel_share_the_device_that_is_named(export: Path, two_gpus, device_id):
    selection = select_backend(export, None, None, "triton", "cpu")
    runner = KernelRunner(selection, [("cuda", {"device_id": device_id, "arena_extend_strategy": "x"}), "cpu"])
    assert runner.device == "cuda:1"
    options = {"device_id": device_id, "arena_extend_strategy": "x", "user_compute_stream": "8"}
    assert two_gpus == [(PROVIDERS["cuda"], options), (CPU, {})]


def test_graph_and_kernel_are_on_the_first_device_by_default(export: Path, two_gpus):
    runner = KernelRunner(select_backend(export, None, None, "triton", "cpu"), "cuda")
    assert runner.device == "cuda:0"
    assert two_gpus == [(PROVIDERS["cuda"], {"user_compute_stream": "7"})]


def test_what_is_bound_is_on_the_device_that_is_named(export: Path, two_gpus, monkeypatch: pytest.MonkeyPatch):
    """What the graph reads and writes; the copy to the device is left out."""
    bound: list[tuple[str, str, int]] = []
    binding = SimpleNamespace(
        bind_input=lambda name, kind, device_id, *_: bound.append((name, kind, device_id)),
        bind_output=lambda name, kind, device_id: bound.append((name, kind, device_id)),
        get_outputs_as_ortvaluevector=lambda: [torch.ones(1)],
    )
    session = SimpleNamespace(io_binding=lambda: binding, run_with_iobinding=lambda *_: None)
    selection = select_backend(export, None, None, "triton", "cpu")
    runner = KernelRunner(selection, ON_SECOND)
    runner._selection = SimpleNamespace(info=SimpleNamespace(outputs=("query",)))
    monkeypatch.setattr(GraphRunner, "session", session)
    monkeypatch.setattr(runner, "_upload", torch.from_numpy)
    assert list(runner._run_on_device({"input_ids": np.ones((1, 2), np.int64)})) == ["query"]
    assert bound == [("input_ids", "cuda", 1), ("query", "cuda", 1)]


def test_a_forked_child_is_told_how_to_get_a_gpu(export: Path, two_gpus):
    runner = KernelRunner(select_backend(export, None, None, "triton", "cpu"), "cuda")
    runner._session = None
    runner.renew()
    with pytest.raises(ProviderError, match="forked from one that uses it"):
        runner.embed([np.ones(3, np.int64)])


def test_after_a_fork_the_cpu_goes_on(export: Path):
    runner = KernelRunner(select_backend(export, None, None, "triton", "cpu"), "cpu")
    before = runner.embed([np.ones(3, np.int64)])
    runner.renew()
    assert within(runner.embed([np.ones(3, np.int64)]), before)


@pytest.mark.parametrize("device_id", [2, -1, "first"])
def test_a_device_that_torch_does_not_see_is_said(export: Path, two_gpus, device_id):
    with pytest.raises(OptionError, match="device_id of CUDAExecutionProvider must be an integer from 0 to 1"):
        KernelRunner(select_backend(export, None, None, "triton", "cpu"), [("cuda", {"device_id": device_id})])


@pytest.mark.gpu
def test_on_a_card(export: Path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    encoder = FastEncoder(export, providers="cuda")
    assert encoder.path.name == "model_head.onnx"
    assert within(encoder.encode(TEXTS), FastEncoder(export).encode(TEXTS))
