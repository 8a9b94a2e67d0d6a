"""Which code runs for which tensor, what torch.compile and export see, and how an installation may fail."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch._dynamo.testing

from ditto_fast.errors import DittoError, MissingDependencyError, OptionError
from ditto_fast.kernels import all_head_diagonals, ditto_pool, ditto_pool_packed, operators, weighted_pool
from ditto_fast.kernels.errors import KernelCacheError


def run_python(code, **environment):
    """Runs code in a fresh interpreter without this process's TRITON_INTERPRET; returns what it printed."""
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"} | environment
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Field case 64: importing must work without triton, and using a GPU without it must say so.
def test_without_triton_the_package_imports_and_the_cpu_works():
    printed = run_python(
        "import sys; sys.modules['triton'] = None\n"
        "import torch\n"
        "from ditto_fast.kernels import ditto_pool, operators\n"
        "x = torch.ones(1, 2, 8)\n"
        "print(ditto_pool(x, x, x, x).tolist())\n"
        "operators.runs_triton = lambda tensor: True\n"
        "from ditto_fast.errors import MissingDependencyError\n"
        "try:\n    ditto_pool(x, x, x, x)\n"
        "except MissingDependencyError as error:\n    print(error)\n"
    )
    embedding, message = printed.splitlines()
    assert embedding == str([[1.0] * 8])
    assert "pip install triton, or move the tensors to the CPU" in message


# Field case 65: that triton is installed must not decide, the tensors' device must.
def test_cpu_tensors_do_not_touch_triton():
    printed = run_python(
        "import sys, torch\n"
        "from ditto_fast.kernels import ditto_pool\n"
        "x = torch.ones(1, 2, 8)\n"
        "ditto_pool(x, x, x, x)\n"
        "print([name for name in sys.modules if 'triton' in name and 'ditto_fast' in name])"
    )
    assert printed == "[]"


def test_the_tests_interpret_also_when_triton_came_first():
    pytest.importorskip("triton")
    test = Path(__file__).with_name("test_kernels_diagonals.py")
    printed = run_python(
        "import sys, pytest, triton, transformers.models.bert.modeling_bert\n"
        "import ditto_fast.kernels.triton_ditto\n"
        f"sys.exit(pytest.main([{str(test)!r}, '-q', '-p', 'no:cacheprovider', '-k', 'every_type and 16']))"
    )
    assert " passed" in printed
    assert "skipped" not in printed


def test_both_paths_give_the_same_numbers(make, close, monkeypatch, triton_device):
    x = make(2, 40, 16, 24, device=triton_device)
    by_triton = ditto_pool(*x.tensors)
    monkeypatch.setattr(operators, "runs_triton", lambda _: False)
    assert close(by_triton, ditto_pool(*x.tensors).double())


# Field case 66: tensors on several devices must be refused, before anything runs.
@pytest.mark.parametrize("name", ["key", "first", "last", "attention_mask", "bias"])
def test_mixed_devices_are_refused(name):
    arguments = {key: torch.zeros(1, 4, 8) for key in ("query", "key", "first", "last")}
    arguments |= {"attention_mask": torch.ones(1, 4, dtype=torch.int64), "bias": torch.zeros(1, 4, 4)}
    ditto_pool(**arguments)
    arguments[name] = arguments[name].to("meta")
    with pytest.raises(OptionError, match=rf"query is on cpu and {name} on meta. Move {name} there"):
        ditto_pool(**arguments)


# Field case 67: a cache folder that cannot be written.
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_an_unwritable_cache_names_the_variable_to_set(number):
    with (
        pytest.raises(KernelCacheError, match="Set TRITON_CACHE_DIR to a folder") as caught,
        operators.launching(torch.zeros(1)),
    ):
        raise OSError(number, os.strerror(number), "/home/.triton")
    assert isinstance(caught.value, PermissionError)
    assert isinstance(caught.value, DittoError)
    assert "/home/.triton" in str(caught.value)


def test_other_failures_of_a_launch_pass_as_they_are():
    with pytest.raises(FileNotFoundError), operators.launching(torch.zeros(1)):
        raise FileNotFoundError(errno.ENOENT, "no C compiler")
    with pytest.raises(MissingDependencyError), operators.launching(torch.zeros(1)):
        raise ImportError("triton")


def every_operator(device, make):
    """Each registered operator with arguments that use all of its options."""
    x = make(2, 20, 16, 24, device=device, valid=torch.arange(20) < torch.tensor([[20], [7]]))
    for tensor in x.tensors:
        tensor.nan_to_num_()  # opcheck compares inputs before and after, and NaN differs from itself
    mask, bias = x.valid.long(), torch.zeros(1, 20, 20, device=device)
    lengths, cu_seqlens = mask.sum(dim=1), torch.tensor([0, 5, 20], device=device)
    ops = torch.ops.ditto_fast
    row = [tensor[:1] for tensor in x.tensors]
    heads = [tensor[:, :, None] for tensor in row[:2]]
    return [
        (ops.head_diagonals, (*(t[:, :, None] for t in x.tensors[:2]), mask, None, None, 0, bias[None], 0.3)),
        (ops.head_diagonals, (*heads, None, None, cu_seqlens, 15, None, 0.3)),
        (ops.weighted_pool, (mask.float(), x.first, x.last, None, True)),
        (ops.weighted_pool, (mask[:1].float(), *row[2:], cu_seqlens, False)),
        (ops.ditto_pool, (*x.tensors, None, lengths, None, 0, bias, 0.3, True)),
        (ops.ditto_pool, (*row, None, None, cu_seqlens, 15, None, 0.3, False)),
    ]


@pytest.mark.parametrize("index", range(6))
def test_opcheck(index, device, make):
    operator, arguments = every_operator(device, make)[index]
    assert set(torch.library.opcheck(operator.default, arguments).values()) == {"SUCCESS"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiles_without_a_graph_break(backend, device, make, close):
    def model(query, key, first, last, mask):
        embeddings, diagonal = ditto_pool(query * 2, key, first, last, attention_mask=mask, return_diagonal=True)
        return embeddings + weighted_pool(diagonal, first, last, normalize=True)

    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend=backend, dynamic=True)
    for batch, tokens in ((2, 20), (3, 9)):
        x = make(batch, tokens, 16, 24, device=device)
        assert close(compiled(*x.tensors, x.valid), model(*x.tensors, x.valid).double())


def test_compiles_packed_batches_of_any_length_once(make, close):
    counter = torch._dynamo.testing.CompileCounter()
    torch._dynamo.reset()
    compiled = torch.compile(ditto_pool_packed, fullgraph=True, backend=counter, dynamic=True)
    for tokens in (20, 31, 45):
        tensors = [tensor[0] for tensor in make(1, tokens, 16, 24).tensors]
        cu_seqlens = torch.tensor([0, 3, tokens])
        got = compiled(*tensors, cu_seqlens, tokens - 3)
        assert close(got, ditto_pool_packed(*tensors, cu_seqlens, tokens - 3).double())
    assert counter.frame_count == 1


def test_exports_as_one_operator(make, close):
    class Pool(torch.nn.Module):
        def forward(self, query, key, first, last, mask):
            return ditto_pool(query, key, first, last, attention_mask=mask)

    x, other = make(2, 20, 16, 24), make(5, 31, 16, 24, seed=1)
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens")
    dynamic = tuple({0: batch, 1: tokens} for _ in range(5))
    program = torch.export.export(Pool(), (*x.tensors, x.valid), dynamic_shapes=dynamic)
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert targets.count("ditto_fast.ditto_pool.default") == 1
    got = program.module()(*other.tensors, other.valid)
    assert close(got, ditto_pool(*other.tensors, attention_mask=other.valid).double())


def test_meta_tensors_give_shapes():
    x = torch.zeros(2, 5, 8, device="meta")
    embeddings, diagonal = ditto_pool(x, x, x, x, return_diagonal=True)
    assert (embeddings.shape, diagonal.shape) == ((2, 8), (2, 5))
    assert all_head_diagonals(x[:, :, None], x[:, :, None]).shape == (2, 1, 5)
    cu_seqlens = torch.zeros(4, dtype=torch.int32, device="meta")
    assert ditto_pool_packed(x[0], x[0], x[0], x[0], cu_seqlens, 5).shape == (3, 8)
