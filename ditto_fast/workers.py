"""Processes that encode chunks of texts, for machines with more cores than one Python process can feed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.batches import BatchRule
from ditto_fast.errors import WorkerError
from ditto_fast.scheduler import CHUNK, Done, by_length

if TYPE_CHECKING:
    from ditto_fast.encoder import FastEncoder

FloatArray = NDArray[np.float32]

_encoder: FastEncoder  # of this worker process


def _start(arguments: dict[str, Any]) -> None:
    """Opens the worker's encoder; the worker leaves interrupts to its parent, and dies with it."""
    from ditto_fast.encoder import FastEncoder

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    global _encoder  # a worker's state has no other place
    _encoder = FastEncoder(**arguments)


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _embed(texts: list[str], rule: BatchRule) -> tuple[FloatArray, int]:
    """The embeddings, and the number of tokens."""
    counts: list[int] = []
    embeddings = _encoder.embed_texts(texts, rule, lambda _, tokens: counts.append(tokens))
    return embeddings, sum(counts)


class WorkerPool:
    """Worker processes, each with an encoder of its own; started at the first use.

    Args:
        arguments: Those of FastEncoder, for one worker.
        num_workers: Processes.
    """

    def __init__(self, arguments: dict[str, Any], num_workers: int) -> None:
        # spawn: a fork would inherit sessions and locks
        self._executor = ProcessPoolExecutor(
            num_workers, multiprocessing.get_context("spawn"), initializer=_start, initargs=(arguments,)
        )
        self._num_workers = num_workers

    def run(self, texts: Sequence[str], rule: BatchRule, hidden_size: int, done: Done) -> FloatArray:
        """Embeds n texts: (n, H), rows in their order.

        Raises:
            WorkerError: A worker died.
        """
        embeddings = np.zeros((len(texts), hidden_size), np.float32)
        order = by_length(texts)
        pending: deque[tuple[list[int], Future[tuple[FloatArray, int]]]] = deque()

        def finish() -> None:
            numbers, future = pending.popleft()
            embeddings[numbers], tokens = future.result()
            done(len(numbers), tokens)

        try:
            for numbers in self._shares(order, rule):
                pending.append((numbers, self._executor.submit(_embed, [texts[i] for i in numbers], rule)))
                if len(pending) > 2 * self._num_workers:
                    finish()
            while pending:
                finish()
        except BrokenProcessPool as error:
            self.close()
            raise WorkerError(
                "A worker process died (killed, or out of memory?); nothing is returned, since texts are missing. "
                "Encode again, with fewer num_workers if memory was short."
            ) from error
        except BaseException:
            self.close()
            raise
        return embeddings

    def _shares(self, order: list[int], rule: BatchRule) -> list[list[int]]:
        """What each task gets of the texts, longest first; of a short list each worker as many, of every length."""
        if rule.spread and len(order) < CHUNK * self._num_workers:
            return [order[start :: self._num_workers] for start in range(min(self._num_workers, len(order)))]
        return [order[start : start + CHUNK] for start in range(0, len(order), CHUNK)]

    def close(self) -> None:
        """Ends the processes at once."""
        processes = list((self._executor._processes or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
