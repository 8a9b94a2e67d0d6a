"""Errors that only the kernels raise."""

from __future__ import annotations

from ditto_fast.errors import DittoError


class TensorTypeError(DittoError, TypeError):
    """An argument that is no tensor, or a tensor of an element type that the operator does not take."""


class KernelCacheError(DittoError, PermissionError):
    """Triton cannot write the folder where it keeps compiled kernels."""
