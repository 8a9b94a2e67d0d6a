"""Blocks embedded by actors of a Ray cluster; this process reads the rows and writes the shards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.corpora.blocks import Block
from ditto_fast.corpora.engines import Embedded, in_window, prompted
from ditto_fast.corpora.settings import Model
from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import WorkerError
from ditto_fast.ray_actors import RayEncoders, connect
from ditto_fast.ray_models import import_ray
from ditto_fast.scheduler import Done

FloatArray = NDArray[np.float32]


def embed_block(encoder: FastEncoder, texts: list[str]) -> tuple[FloatArray, int, Model, bool]:
    """What a worker gives: embeddings, number of tokens, and what its encoder is."""
    counts: list[int] = []
    embeddings = encoder.embed_block(texts, lambda _, tokens: counts.append(tokens))
    return embeddings, sum(counts), Model.of_encoder(encoder), encoder.manifest.normalize


def _places(resource: str, each: int) -> int:
    """Workers that fit on the nodes of the cluster, at least 1."""
    nodes = (node["Resources"] for node in import_ray().nodes() if node["Alive"])
    return max(1, sum(int(node.get(resource, 0) // each) for node in nodes))


class RayEngine:
    """Actors with a FastEncoder each; a context manager. What a killed one had is computed again.

    Args:
        model: An export directory, which nodes find at the same path or are sent, or a hub id.
        address: See `ditto_fast.ray_actors.connect`.
        num_workers: Actors; 0 for as many as the cluster has CPUs for, or GPUs.
        num_threads: Threads of each, which are CPUs that Ray keeps for it.
        **model_options: Further arguments of `RayEncoders`.

    Raises:
        DittoError: What `connect` and `RayEncoders` raise.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        address: str | None = None,
        num_workers: int = 0,
        num_threads: int = 1,
        providers: str = "cpu",
        **model_options: Any,
    ) -> None:
        connect(address)
        on_gpu = providers in ("cuda", "tensorrt")
        if num_workers == 0:
            num_workers = _places("GPU", 1) if on_gpu else _places("CPU", num_threads)
        self._encoders = RayEncoders(
            model,
            concurrency=num_workers,
            num_cpus=num_threads,
            num_gpus=float(on_gpu),
            encode=embed_block,
            providers=providers,
            **model_options,
        )
        self._in_flight = 2 * num_workers  # one that is computed, one that waits
        _, _, self.model, self.normalize = self._encoders.submit([]).result()

    def embed(self, blocks: Iterable[Block], prompt: str, done: Done) -> Iterator[Embedded]:
        """Yields each block with its embeddings (n, H), neither normalised nor checked for NaN."""

        def submit(block: Block) -> Future[Any]:
            return self._encoders.submit(prompted(block, prompt))

        try:
            for block, (embeddings, tokens, model, _) in in_window(blocks, submit, self._in_flight):
                if model != self.model:  # a worker that was started again
                    raise WorkerError(
                        "A Ray worker opened another export than the first one had: it was replaced meanwhile. "
                        "Finished shards are whole; give each export a directory of its own, and run this again."
                    )
                done(len(embeddings), tokens)
                yield block, embeddings
        except import_ray().exceptions.RayActorError as error:
            raise WorkerError(
                f"A Ray worker died again and again at the same rows (out of memory?): {error}. Finished shards are "
                "whole; the same command goes on from there, perhaps with fewer --workers or a smaller --shard-rows."
            ) from error

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._encoders.close()
