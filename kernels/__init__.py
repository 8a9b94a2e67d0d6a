"""Operators of Ditto for PyTorch users: readable references, and fused Triton kernels beside them.

Letters: B batch, T tokens, N heads, D head size, H hidden size. Importing needs torch, not triton or a GPU.
"""

if __name__ != "ditto_fast.kernels":
    raise ImportError(f"{__file__} is ditto_fast.kernels, not {__name__}; import it by that name")

from ditto_fast.kernels.diagonals import all_head_diagonals, diagonal_attention
from ditto_fast.kernels.modules import DittoPooling
from ditto_fast.kernels.packed import diagonal_attention_packed, ditto_pool_packed, weighted_pool_packed
from ditto_fast.kernels.pooling import ditto_pool, weighted_pool

__all__ = [
    "DittoPooling", "all_head_diagonals", "diagonal_attention", "diagonal_attention_packed", "ditto_pool",
    "ditto_pool_packed", "weighted_pool", "weighted_pool_packed",
]  # fmt: skip
