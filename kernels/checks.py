"""Checks of tensors, each with one message: what is wanted, what came, what to do."""

from __future__ import annotations

import torch
from torch import Tensor

from ditto_fast.errors import OptionError
from ditto_fast.kernels.errors import TensorTypeError

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
POSITIONS = (torch.int32, torch.int64)
MASKS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
MAX_HEAD_DIM = 256

# name: (element types, what to do when type or shape is wrong)
ARGUMENTS: dict[str, tuple[tuple[torch.dtype, ...], str]] = {
    "query": (FLOATS, "Pass one head's queries, or all of them to all_head_diagonals."),
    "key": (FLOATS, "Pass the keys of the same head, with the queries' shape and type."),
    "first": (FLOATS, "Pass hidden_states[0]."),
    "last": (FLOATS, "Pass last_hidden_state, not pooler_output."),
    "weights": (FLOATS, "Pass one weight a token, such as diagonal_attention returns."),
    "attention_mask": (MASKS, "Pass the tokenizer's mask: nonzero on real tokens, not 0 and -inf to add."),
    "lengths": (POSITIONS, "Pass the number of real tokens of each sequence."),
    "cu_seqlens": (POSITIONS, "Pass the running sum of the lengths, from 0: one more than sequences."),
    "bias": (FLOATS, "Pass what is added to the scaled scores of each query and key."),
}


def check_tensors(**arguments: tuple[Tensor | None, str]) -> None:
    """Checks tensors against each other: element types, shapes and one device.

    Args:
        arguments: By name, a tensor (or None, which passes) and its shape in letters, such as "B T D".
            A letter has one size throughout; "B|1" takes 1 too.

    Raises:
        TensorTypeError: No tensor, or of an element type that the argument does not take.
        OptionError: A shape that does not fit the others, or tensors on several devices.

    Example:
        >>> check_tensors(query=(torch.zeros(2, 3, 8), "B T D"), key=(torch.zeros(2, 3, 8), "B T D"))
    """
    sizes: dict[str, int] = {}
    device: tuple[str, torch.device] | None = None
    for name, (tensor, letters) in arguments.items():
        if tensor is None:
            continue
        _check_type(name, tensor)
        _check_shape(name, tensor, letters.split(), sizes)
        device = device or (name, tensor.device)
        if tensor.device != device[1]:
            raise OptionError(
                f"All tensors must be on one device; {device[0]} is on {device[1]} and {name} on "
                f"{tensor.device}. Move {name} there with .to({str(device[1])!r})."
            )


def _check_type(name: str, tensor: object) -> None:
    dtypes, advice = ARGUMENTS[name]
    if not isinstance(tensor, Tensor):
        raise TensorTypeError(f"{name} must be a torch tensor; got {type(tensor).__name__}. {advice}")
    if tensor.dtype not in dtypes:
        wanted = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TensorTypeError(f"{name} must be of type {wanted}; got {tensor.dtype}. {advice}")


def _check_shape(name: str, tensor: Tensor, letters: list[str], sizes: dict[str, int]) -> None:
    """Checks one shape against the sizes that earlier arguments gave the letters, and adds its own."""
    fits = tensor.dim() == len(letters)
    for letter, size in zip(letters, tensor.shape, strict=False):
        symbol, _, or_one = letter.partition("|")
        fits = fits and ((bool(or_one) and size == 1) or size == sizes.setdefault(symbol, size))
    if not fits:
        symbols = {letter.partition("|")[0] for letter in letters}
        known = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items() if symbol in symbols)
        raise OptionError(
            f"{name} must be ({', '.join(letters)})" + (f" with {known}" if known else "")
            + f"; got shape {tuple(tensor.shape)}. {ARGUMENTS[name][1]}"
        )  # fmt: skip


def check_scores(query: Tensor, key: Tensor, scale: float | None) -> float:
    """Returns the factor on q k^T: `scale`, or 1/sqrt(D).

    Raises:
        TensorTypeError: Query and key differ in type, or scale is no number.
        OptionError: D is not from 1 to 256.

    Example:
        >>> check_scores(torch.zeros(1, 1, 16), torch.zeros(1, 1, 16), None)
        0.25
    """
    head_dim = query.shape[-1]
    if not 1 <= head_dim <= MAX_HEAD_DIM:
        raise OptionError(
            f"The head size D must be 1 to {MAX_HEAD_DIM}; got {head_dim}. Pass one head, not all of them."
        )
    if query.dtype != key.dtype:
        raise TensorTypeError(f"query and key must be of one type; got {query.dtype} and {key.dtype}. Cast one.")
    if scale is None:
        return float(head_dim**-0.5)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)):
        raise TensorTypeError(f"scale must be a number; got {type(scale).__name__}. Pass a float, or None.")
    return float(scale)


def check_one_mask(attention_mask: Tensor | None, lengths: Tensor | None) -> None:
    """Checks that padding is described once.

    Raises:
        OptionError: Both are given.
    """
    if attention_mask is not None and lengths is not None:
        raise OptionError("Pass attention_mask or lengths, not both; got both. A mask can have holes.")
