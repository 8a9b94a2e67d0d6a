"""The GPU path of FastEncoder on what is here: the CPU provider, and Triton's interpreter in the GPU's place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ditto_fast import FastEncoder
from ditto_fast.errors import ExportDirectoryError, OptionError, ProviderError
from ditto_fast.export import export_model
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


@pytest.mark.gpu
def test_on_a_card(export: Path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    encoder = FastEncoder(export, providers="cuda")
    assert encoder.path.name == "model_head.onnx"
    assert within(encoder.encode(TEXTS), FastEncoder(export).encode(TEXTS))
