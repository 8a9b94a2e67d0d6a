"""Tensors recorded while a model runs, its code left as it is."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from torch import nn


@dataclass(frozen=True)
class Tap:
    """A tensor to record: what a module is given, or what it returns.

    Args:
        module: The module.
        argument: Name of an argument of its forward; None for its output.
        call: Which of its calls within one run of the model, counted from 1: layers may share a module.
    """

    module: Any  # an nn.Module, with the attributes of its model's code
    argument: str | None = None
    call: int = 1

    forced: ClassVar[Mapping[str, Any]] = {}
    """Arguments of the module's forward that are replaced."""

    def pick(self, arguments: Mapping[str, Any], output: Any) -> Any:
        """The tensor, of one call's arguments by name and its output."""
        return output if self.argument is None else arguments[self.argument]


@dataclass(frozen=True)
class AttentionTap(Tap):
    """The attention probabilities (B, N, T, T) of one layer's eager attention module.

    That module alone is asked for them: it returns them after its context vectors.
    """

    forced: ClassVar[Mapping[str, Any]] = {"output_attentions": True}

    def pick(self, arguments: Mapping[str, Any], output: Any) -> Any:  # noqa: ARG002
        """The second thing returned."""
        return output[1]


@contextmanager
def record(taps: Mapping[str, Tap]) -> Iterator[dict[str, Any]]:
    """Yields a dict that holds, after the model has run, the tensor of each tap."""
    recorded: dict[str, Any] = {}
    with ExitStack() as stack:
        for name, tap in taps.items():
            _attach(stack, recorded, name, tap)
        yield recorded


def _attach(stack: ExitStack, recorded: dict[str, Any], name: str, tap: Tap) -> None:
    signature = inspect.signature(tap.module.forward)
    calls = count(1)

    def force(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update(tap.forced)
        return bound.args, bound.kwargs

    def take(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if next(calls) == tap.call:
            recorded[name] = tap.pick(signature.bind(*args, **kwargs).arguments, output)

    if tap.forced:
        stack.callback(tap.module.register_forward_pre_hook(force, with_kwargs=True).remove)
    stack.callback(tap.module.register_forward_hook(take, with_kwargs=True).remove)
