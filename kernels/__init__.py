"""Operators of Ditto for PyTorch users: readable references, and fused Triton kernels beside them."""

if __name__ != "ditto_fast.kernels":
    raise ImportError(f"{__file__} is ditto_fast.kernels, not {__name__}; import it by that name")
