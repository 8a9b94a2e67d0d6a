"""Compiles every kernel variant for Ampere, Hopper and Blackwell without a GPU, and says what came out.

    python -m ditto_fast.kernels.aot                         prints the table
    python -m ditto_fast.kernels.aot --write docs/kernels.md puts it between the markers of that file

Registers, shared memory and stack are read from the cubin, spills from its machine code (loads and stores
of local memory), matrix instructions from the PTX.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ditto_fast.errors import MissingDependencyError, OptionError
from ditto_fast.kernels.markdown import header, row, write_table
from ditto_fast.kernels.settings import ONE_LAUNCH_MAX_TOKENS, LaunchSettings, launch_settings

CAPABILITIES = (80, 90, 100)
TYPE_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
# From newest to oldest: what PTX calls the instruction, and its short name.
MATRIX_INSTRUCTIONS = {"tcgen05.mma": "tcgen05", "wgmma.mma_async": "wgmma", "mma.sync": "mma"}
CONTIGUOUS_ONES = frozenset(
    f"stride_{axis}" for axis in ("qd", "kd", "fh", "lh", "mt", "sb", "wt", "bias_j")
)  # the arguments that are 1 for contiguous tensors


@dataclass(frozen=True)
class Variant:
    """One specialisation of a kernel.

    Args:
        kernel: "diagonal", "pool" or "ditto", as in the settings table.
        dtype: Of query, key, hidden states and bias.
        tokens: T.
        head_dim: D; 1 for "pool", which has none.
        hidden: H; 1 for "diagonal", which has none.
        flags: Which of mask, lengths, packed, bias, normalize are on.
    """

    kernel: str
    dtype: torch.dtype
    tokens: int
    head_dim: int = 1
    hidden: int = 1
    flags: tuple[str, ...] = ()

    @property
    def settings(self) -> LaunchSettings:
        """What a launch with 1024 sequences would take."""
        return launch_settings(
            self.kernel, dtype=self.dtype, tokens=self.tokens, head_dim=self.head_dim, batch=1024,
            hidden=self.hidden, whole_row="normalize" in self.flags,
        )  # fmt: skip

    @property
    def wants_matrix_instructions(self) -> bool:
        """16-bit scores must come from matrix instructions; float32 ones are exact, so from plain ones."""
        return self.kernel != "pool" and self.dtype != torch.float32


@dataclass(frozen=True)
class Report:
    """What the compiler made of a variant for one GPU generation.

    Args:
        capability: 80, 90 or 100.
        registers: Registers a thread.
        shared_bytes: Shared memory a program.
        spills: Local-memory loads and stores in the machine code.
        matrix: "mma", "wgmma", "tcgen05" or "-".
    """

    capability: int
    registers: int
    shared_bytes: int
    spills: int
    matrix: str

    def __str__(self) -> str:
        """Registers / KB of shared memory / spills / matrix instruction, as in the table."""
        return f"{self.registers} / {self.shared_bytes / 1024:.1f} / {self.spills} / {self.matrix}"


def variants() -> list[Variant]:
    """Every kernel, type and head size, then each flag once: what a launch on common models compiles."""
    dtypes = tuple(TYPE_NAMES)
    short, long = ONE_LAUNCH_MAX_TOKENS, 4 * ONE_LAUNCH_MAX_TOKENS
    head_dims, half = (32, 64, 80, 128, 256), torch.float16
    return [
        *(Variant("diagonal", dtype, long, d, flags=("mask",)) for dtype in dtypes for d in head_dims),
        *(Variant("diagonal", dtype, 16, 64, flags=("mask",)) for dtype in dtypes),
        *(Variant("diagonal", half, long, 64, flags=f) for f in ((), ("lengths",), ("packed",))),
        *(Variant("diagonal", dtype, long, 64, flags=("mask", "bias")) for dtype in dtypes),
        *(Variant("pool", dtype, long, hidden=h) for dtype in dtypes for h in (384, 768, 1024)),
        *(Variant("pool", dtype, long, hidden=768, flags=("normalize",)) for dtype in dtypes),
        Variant("pool", half, long, hidden=768, flags=("packed",)),
        *(Variant("ditto", dtype, short, d, 768, ("mask",)) for dtype in dtypes for d in (64, 128)),
        *(Variant("ditto", dtype, 32, 32, 384, ("mask", "normalize")) for dtype in dtypes),
        *(Variant("ditto", half, short, 64, 1024, flags) for flags in (("lengths",), ("packed",))),
        *(Variant("ditto", dtype, short, 64, 768, ("mask", "bias")) for dtype in dtypes),
    ]  # fmt: skip


def _kernel(name: str) -> Any:
    """The Triton function behind a name of the settings table."""
    try:
        from ditto_fast.kernels import triton_diagonal, triton_ditto, triton_pooling
    except ImportError as error:
        raise MissingDependencyError(f"Compiling needs triton: pip install triton ({error}).") from error
    kernel = {
        "diagonal": triton_diagonal._diagonal_kernel,
        "pool": triton_pooling._pool_kernel,
        "ditto": triton_ditto._ditto_kernel,
    }[name]
    if not hasattr(kernel, "params"):
        raise OptionError("TRITON_INTERPRET=1 leaves nothing to compile; unset it and start again.")
    return kernel


def _source(variant: Variant, ones: Set[str]) -> Any:
    """The kernel with the types and constants that a launch gives it; Triton compiles in what is 1."""
    from triton.compiler import ASTSource

    kernel, settings = _kernel(variant.kernel), variant.settings
    element = f"*{TYPE_NAMES[variant.dtype]}"
    constants: dict[str, int | bool] = {
        "D": variant.head_dim, "H": variant.hidden, "NORMALIZE": "normalize" in variant.flags,
        "HAS_MASK": "mask" in variant.flags, "HAS_LENGTHS": "lengths" in variant.flags,
        "PACKED": "packed" in variant.flags, "HAS_BIAS": "bias" in variant.flags,
        "BLOCK_T": settings.block_t, "BLOCK_D": settings.block_d,
        "ROWS": settings.rows, "BLOCK_H": settings.block_h,
    }  # fmt: skip
    constants |= dict.fromkeys(ones, 1)
    types = {"mask_ptr": "*i64", "spans_ptr": "*i32", "scale": "fp32"}
    types |= dict.fromkeys(("weights_ptr", "diagonal_ptr", "out_ptr"), "*fp32")
    signature = {
        name: "constexpr" if name in constants else types.get(name, element if name.endswith("_ptr") else "i32")
        for name in kernel.arg_names
    }
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(kernel.arg_names)
        if name not in constants and name != "scale"
    }
    constexprs = {name: value for name, value in constants.items() if name in kernel.arg_names}
    return ASTSource(kernel, signature, constexprs, aligned)


def _tool(name: str) -> str:
    """Path of a CUDA binary tool that ships with triton."""
    from triton import knobs

    return str(getattr(knobs.nvidia, name).path)


def compile_variant(variant: Variant, capability: int, ones: Set[str] = CONTIGUOUS_ONES) -> Report:
    """Compiles one variant for one GPU generation.

    Args:
        variant: What to compile.
        capability: 80, 90 or 100.
        ones: Names of the kernel's arguments that are 1.

    Raises:
        MissingDependencyError: triton is not installed.
        OptionError: This process runs Triton's interpreter.
    """
    source = _source(variant, ones)
    import triton
    from triton.backends.compiler import GPUTarget

    settings = variant.settings
    options = {"num_warps": settings.num_warps, "num_stages": settings.num_stages, "enable_fp_fusion": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        listing = subprocess.run(
            [_tool("cuobjdump"), "-res-usage", "-sass", cubin.name],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    registers = re.search(r"REG:(\d+)", listing)
    if registers is None:
        raise RuntimeError(f"cuobjdump gave no register count for {variant}: {listing[:200]!r}.")
    ptx = compiled.asm["ptx"]
    matrix = next((short for text, short in MATRIX_INSTRUCTIONS.items() if text in ptx), "-")
    spills = len(re.findall(r"\b(?:LDL|STL)\b", listing))
    return Report(capability, int(registers[1]), compiled.metadata.shared, spills, matrix)


def columns(variant: Variant) -> list[str]:
    """The cells that name a variant in the table."""
    settings = variant.settings
    tiles = [
        *([] if variant.kernel == "pool" else [f"{settings.block_t} x {settings.block_t}"]),
        *([] if variant.kernel == "diagonal" else [f"{settings.rows} x {settings.block_h}"]),
    ]
    sizes = [1 if variant.kernel == "pool" else variant.tokens, variant.head_dim, variant.hidden]
    return [
        variant.kernel,
        TYPE_NAMES[variant.dtype],
        *("" if size == 1 else str(size) for size in sizes),
        " ".join(variant.flags),
        ", ".join(tiles),
        str(settings.num_warps),
    ]


def table(chosen: Iterable[Variant], capabilities: Sequence[int] = CAPABILITIES) -> Iterator[str]:
    """Yields the lines of the Markdown table, each as soon as its variant is compiled."""
    names = ["kernel", "type", "T", "D", "H", "flags", "tiles", "warps", *(f"sm_{c}" for c in capabilities)]
    yield from header(names)
    for variant in chosen:
        yield row([*columns(variant), *(str(compile_variant(variant, c)) for c in capabilities)])


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m ditto_fast.kernels.aot", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="also put the table into this file")
    options = parser.parse_args(arguments)
    lines = []
    for line in table(variants()):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        lines.append(line)
    if options.write is not None:
        write_table(options.write, "aot", lines)


if __name__ == "__main__":
    main()
