"""Kernels run on the GPU where there is one, else in Triton's interpreter: the same test bodies."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

INTERPRETED = not torch.cuda.is_available()

if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"
    # Whether a kernel is interpreted is settled when it is decorated, triton's own library included. What
    # another test folder imported before (transformers imports triton) is imported again when next needed.
    for name in list(sys.modules):
        kernels = name.startswith("ditto_fast.kernels.triton_")
        if kernels or (name.split(".")[0] == "triton" and not name.startswith("triton._C")):
            del sys.modules[name]


@pytest.fixture(scope="session", autouse=True)
def _interpreter_of_bf16():
    """The interpreter holds bf16 as uint16 and multiplies those: widen the operands of its dot to float32."""
    if not INTERPRETED or find_spec("triton") is None:
        return
    from triton.runtime import interpreter

    create_dot = interpreter.InterpreterBuilder.create_dot
    tl = interpreter.tl

    def widened(handle):
        if handle.dtype != tl.bfloat16:
            return handle
        bits = handle.data.astype(np.uint32) << 16
        return interpreter.TensorHandle(bits.view(np.float32), tl.float32)

    def create_dot_of_floats(self, a, b, *rest):
        return create_dot(self, widened(a), widened(b), *rest)

    interpreter.InterpreterBuilder.create_dot = create_dot_of_floats


@pytest.fixture(autouse=True)
def _poisoned_outputs(monkeypatch):
    """Every buffer that a launcher allocates starts as NaN, so that what a kernel leaves out shows."""
    empty = torch.empty

    def poisoned(*args, **kwargs):
        tensor = empty(*args, **kwargs)
        return tensor.fill_(torch.nan) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", poisoned)
    # Under the interpreter numpy warns of what the kernels rely on: 1 / inf, exp2 of 1e4.
    with np.errstate(all="ignore"):
        yield


def use_triton(monkeypatch):
    """Sends CPU tensors through the Triton launchers, as CUDA tensors go."""
    pytest.importorskip("triton")
    from ditto_fast.kernels import operators

    monkeypatch.setattr(operators, "runs_triton", lambda _: True)


@pytest.fixture(params=["torch", "triton"])
def device(request, monkeypatch):
    """Where to make tensors: each test runs on the CPU's path and on the GPU's."""
    if request.param == "torch":
        return "cpu"
    if INTERPRETED:
        use_triton(monkeypatch)
        return "cpu"
    return "cuda"


@pytest.fixture
def triton_device(monkeypatch):
    """`device` for tests of the GPU's path alone."""
    if INTERPRETED:
        use_triton(monkeypatch)
        return "cpu"
    return "cuda"


# Largest absolute difference from the float64 oracle per unit of max(1, largest expected value). The oracle
# starts from the same rounded inputs and every sum is in float32, so the three types share a reason: the
# order of summation, at logits up to about 10. Far below 1/sqrt(H), 0.03 at H = 1024.
TOLERANCES = {torch.float32: 5e-6, torch.float16: 5e-6, torch.bfloat16: 5e-6}


def is_close(actual, expected, dtype=torch.float32):
    """Whether a float32 result lies within the table's tolerance of a float64 one; False for any NaN."""
    if actual.dtype != torch.float32 or actual.shape != expected.shape:
        return False
    if expected.numel() == 0:
        return True
    scale = max(1.0, float(expected.abs().max()))
    return float((actual.double().cpu() - expected.cpu()).abs().max()) / scale <= TOLERANCES[dtype]


def naive_diagonal(query, key, valid, scale=None, bias=None):
    """The definition, one sequence at a time, padding cut off first: softmax of the scores, its diagonal."""
    diagonal = torch.zeros(query.shape[:2], dtype=torch.float64)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    for b in range(len(query)):
        tokens = valid[b].nonzero()[:, 0].cpu()
        q, k = query[b].cpu()[tokens].double(), key[b].cpu()[tokens].double()
        scores = scale * q @ k.T
        if bias is not None:
            scores = scores + bias[b % len(bias)].cpu()[tokens][:, tokens].double()
        diagonal[b, tokens] = torch.softmax(scores, dim=-1).diagonal()
    return diagonal


def naive_embedding(diagonal, first, last, valid, normalize=False):
    """The definition: 1/2 sum_i A_ii (first_i + last_i) over real tokens."""
    embeddings = torch.zeros((len(first), first.shape[2]), dtype=torch.float64)
    for b in range(len(first)):
        tokens = valid[b].nonzero()[:, 0].cpu()
        states = first[b].cpu()[tokens].double() + last[b].cpu()[tokens].double()
        embeddings[b] = 0.5 * (diagonal[b].cpu().double()[tokens, None] * states).sum(dim=0)
    return torch.nn.functional.normalize(embeddings, dim=1) if normalize else embeddings


class Inputs:
    """Seeded tensors of one batch; what padding holds is NaN."""

    def __init__(self, batch, tokens, head_dim, hidden, dtype=torch.float32, device="cpu", valid=None, seed=0):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(shape, generator=generator).to(device, dtype)

        self.valid = torch.ones(batch, tokens, dtype=torch.bool) if valid is None else valid
        self.valid = self.valid.to(device)
        # 2: logits up to about 10, so that some A_ii are near 1, some near 0
        self.query, self.key = 2 * normal(batch, tokens, head_dim), 2 * normal(batch, tokens, head_dim)
        self.first, self.last = normal(batch, tokens, hidden), normal(batch, tokens, hidden)
        for tensor in self.tensors:
            tensor[~self.valid] = torch.nan

    @property
    def tensors(self):
        return self.query, self.key, self.first, self.last

    @property
    def diagonal(self):
        return naive_diagonal(self.query, self.key, self.valid)


@pytest.fixture
def make():
    return Inputs


@pytest.fixture
def close():
    return is_close


@pytest.fixture
def definition():
    """The oracle: naive_diagonal and naive_embedding, in float64."""
    return naive_diagonal, naive_embedding


@pytest.fixture
def docs():
    """The page with the generated tables."""
    return Path(__file__).parents[2] / "docs" / "kernels.md"
