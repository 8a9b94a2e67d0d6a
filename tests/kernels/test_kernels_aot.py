"""What the compiler makes of the kernels for GPUs that are not here; compiled outside the interpreter."""

import json
import os
import subprocess
import sys

import pytest

from ditto_fast.errors import OptionError
from ditto_fast.kernels.aot import CAPABILITIES, columns, compile_variant, variants
from ditto_fast.kernels.markdown import read_table, write_table

pytest.importorskip("triton")

# Each kernel and type, wgmma and tcgen05, and the variants with most registers: eight compilations.
COMPILE = """
import json, torch
from ditto_fast.kernels.aot import Variant, compile_variant
half, bf16, single = torch.float16, torch.bfloat16, torch.float32
chosen = [
    (Variant("ditto", half, 128, 64, 768, ("mask", "normalize")), (80, 90, 100)),
    (Variant("diagonal", bf16, 512, 128, flags=("mask",)), (90,)),
    (Variant("diagonal", half, 512, 64, flags=("mask", "bias")), (80,)),
    (Variant("diagonal", bf16, 16, 64, flags=("packed",)), (100,)),
    (Variant("ditto", single, 128, 64, 768, ("mask",)), (90,)),
    (Variant("pool", bf16, 512, hidden=768), (80,)),
]
rows = []
for variant, capabilities in chosen:
    for capability in capabilities:
        report = compile_variant(variant, capability)
        wanted = variant.wants_matrix_instructions
        rows.append((wanted, capability, report.matrix, report.spills, report.registers))
print(json.dumps(rows))
"""

# Triton makes a constant of every argument that is 1 (T = 1, views), which the interpreter does not.
COMPILE_ONES = """
import torch
from ditto_fast.kernels import triton_diagonal, triton_ditto, triton_pooling
from ditto_fast.kernels.aot import Variant, compile_variant
kernels = (triton_diagonal._diagonal_kernel, triton_pooling._pool_kernel, triton_ditto._ditto_kernel)
arguments = {name for kernel in kernels for name in kernel.arg_names}
ones = {name for name in arguments if name == "T" or name.startswith("stride_")}
for chosen in (ones, set()):
    compile_variant(Variant("diagonal", torch.float16, 1, 16, flags=("mask", "bias")), 90, chosen)
    compile_variant(Variant("ditto", torch.float16, 1, 16, 16, ("lengths",)), 90, chosen)
    compile_variant(Variant("pool", torch.float16, 1, hidden=16, flags=("packed",)), 90, chosen)
print("compiled")
"""


def run_compiler(code, cache):
    """Runs code in a process that does not interpret, with a cache that holds no earlier version."""
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(cache)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return json.loads(run_compiler(COMPILE, tmp_path_factory.mktemp("triton")))


def test_nothing_spills(reports):
    for _, _, _, spills, registers in reports:
        assert spills == 0
        assert 0 < registers < 255  # 255 is where spilling starts


def test_16_bit_scores_use_matrix_instructions_and_nothing_else_does(reports):
    for wanted, capability, matrix, _, _ in reports:
        assert (matrix != "-") == wanted, capability
    assert {matrix for _, _, matrix, _, _ in reports} == {"-", "mma", "wgmma", "tcgen05"}


def test_the_table_in_the_docs_lists_every_variant(docs):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in read_table(docs, "aot")[2:]]
    assert [row[:-3] for row in rows] == [columns(variant) for variant in variants()]
    for variant, row in zip(variants(), rows, strict=True):
        for cell in row[-3:]:
            registers, _, spills, matrix = cell.split(" / ")
            assert int(registers) < 255
            assert spills == "0"
            assert (matrix != "-") == variant.wants_matrix_instructions


def test_every_option_of_a_kernel_is_compiled_at_least_once():
    for kernel in ("diagonal", "ditto"):
        flags = {flag for variant in variants() if variant.kernel == kernel for flag in variant.flags}
        assert flags >= {"mask", "lengths", "packed", "bias"}
    assert len(set(variants())) == len(variants())
    assert CAPABILITIES == (80, 90, 100)


@pytest.mark.skipif("TRITON_INTERPRET" not in os.environ, reason="only an interpreting process cannot compile")
def test_an_interpreting_process_says_why_it_cannot_compile():
    with pytest.raises(OptionError, match="unset it and start again"):
        compile_variant(variants()[0], 90)


def test_a_cache_that_cannot_be_written_names_the_variable():
    code = (
        "import torch\n"
        "from ditto_fast.kernels import aot, operators\n"
        "from ditto_fast.kernels.errors import KernelCacheError\n"
        "try:\n"
        "    with operators.launching(torch.zeros(1)): aot.compile_variant(aot.variants()[0], 90)\n"
        "except KernelCacheError as error: print(error)"
    )
    # /sys takes no folder from anyone, root included
    assert "Set TRITON_CACHE_DIR to a folder" in run_compiler(code, "/sys/ditto_fast")


def test_arguments_that_are_one_and_that_are_not_compile(tmp_path):
    assert run_compiler(COMPILE_ONES, tmp_path) == "compiled"


def test_a_file_without_markers_is_left_alone(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("text\n")
    with pytest.raises(OptionError, match="add them where the table should be"):
        write_table(path, "aot", ["| a |"])
    assert path.read_text() == "text\n"


def test_a_table_is_replaced_between_its_markers(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- aot table: begin -->\nold\n<!-- aot table: end -->\nafter\n")
    write_table(path, "aot", ["| a |", "| b |"])
    assert read_table(path, "aot") == ["| a |", "| b |"]
    assert path.read_text().startswith("before\n")
    assert path.read_text().endswith("\nafter\n")
