"""Who computes the embeddings of blocks: an encoder in this process, its worker processes, or actors of a cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ditto_fast.corpora.blocks import Block
from ditto_fast.corpora.settings import Model
from ditto_fast.encoder import FastEncoder
from ditto_fast.scheduler import Done

FloatArray = NDArray[np.float32]
Embedded = tuple[Block, FloatArray]
T = TypeVar("T")


class Engine(Protocol):
    """Embeds the valid texts of blocks, in their order."""

    @property
    def model(self) -> Model:
        """What the vectors depend on."""

    @property
    def normalize(self) -> bool:
        """Whether the export asks for embeddings of L2 norm 1."""

    def embed(self, blocks: Iterable[Block], prompt: str, done: Done) -> Iterator[Embedded]:
        """Yields each block with its embeddings (n, H), neither normalised nor checked for NaN."""


def prompted(block: Block, prompt: str) -> list[str]:
    """The texts of a block that are to be embedded."""
    return [prompt + text for text in block.texts if text is not None]


def in_window(blocks: Iterable[Block], submit: Callable[[Block], Future[T]], size: int) -> Iterator[tuple[Block, T]]:
    """Keeps `size` blocks under way, and yields them with their results in order."""
    pending: deque[tuple[Block, Future[T]]] = deque()
    for block in blocks:
        pending.append((block, submit(block)))
        if len(pending) >= size:
            first, future = pending.popleft()
            yield first, future.result()
    for first, future in pending:
        yield first, future.result()


class EncoderEngine:
    """A FastEncoder, with or without worker processes.

    Args:
        encoder: It stays open.
    """

    def __init__(self, encoder: FastEncoder) -> None:
        self._encoder = encoder

    @property
    def model(self) -> Model:
        """What the vectors depend on."""
        return Model.of_encoder(self._encoder)

    @property
    def normalize(self) -> bool:
        """Whether the export asks for embeddings of L2 norm 1."""
        return self._encoder.manifest.normalize

    def embed(self, blocks: Iterable[Block], prompt: str, done: Done) -> Iterator[Embedded]:
        """Yields each block with its embeddings (n, H), neither normalised nor checked for NaN."""
        if self._encoder.num_workers:
            # a second block keeps the workers busy while the last texts of the first are under way
            executor = ThreadPoolExecutor(2)
            try:
                yield from in_window(
                    blocks,
                    lambda block: executor.submit(self._encoder.embed_block, prompted(block, prompt), done),
                    2,
                )
            except BaseException:  # an interrupt must not wait for two blocks
                self._encoder.stop_workers()
                raise
            finally:
                executor.shutdown(cancel_futures=True)
        else:
            for block in blocks:
                yield block, self._encoder.embed_block(prompted(block, prompt), done)
