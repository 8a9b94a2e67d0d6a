"""Processes that encode chunks of texts, for machines with more cores than one Python process can feed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from math import ceil
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.batches import BatchRule
from ditto_fast.errors import OptionError, WorkerError
from ditto_fast.scheduler import CHUNK, Done, by_length
from ditto_fast.selection import check_files

if TYPE_CHECKING:
    from ditto_fast.encoder import FastEncoder

FloatArray = NDArray[np.float32]

_TASKS = 4  # of a worker, from which on it matters little that some take longer

_DIED = (
    "A worker process died (killed, or out of memory?); nothing is returned, since texts are missing. "
    "Encode again, with fewer num_workers if memory was short."
)
_NOT_STARTED = (
    "A worker process died before it gave anything. Workers import the script that starts them: put what it does below "
    "if __name__ == '__main__':, in a file, not in standard input. Or it was killed or out of memory: encode again "
    "with fewer num_workers."
)

_encoder: FastEncoder | Exception  # of this worker process, or why it has none


def check_sendable(arguments: Mapping[str, Any]) -> None:
    """Passes arguments of FastEncoder that another process can be given.

    Raises:
        OptionError: One cannot be pickled, as a lambda cannot.
    """
    for name, value in arguments.items():
        try:
            pickle.dumps(value)
        except Exception as error:  # whatever a __reduce__ raises; a lambda has either of two
            raise OptionError(
                f"num_workers sends {name} to other processes, so it must be picklable; got {value!r} ({error}). "
                "Define it by its name at the top of a module, or leave num_workers out."
            ) from error


def _start(arguments: dict[str, Any], files: Mapping[str, str]) -> None:
    """Opens the worker's encoder; the worker leaves interrupts to its parent, and dies with it."""
    from ditto_fast.encoder import FastEncoder

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    global _encoder  # a worker's state has no other place
    try:
        _encoder = FastEncoder(**arguments)
        check_files(_encoder.path.parent, _encoder.manifest.files, files)
    except Exception as error:  # the first task raises it, where the parent sees it
        _encoder = error


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _embed(texts: list[str], rule: BatchRule) -> tuple[FloatArray, int]:
    """The embeddings, and the number of tokens."""
    if isinstance(_encoder, Exception):
        raise _encoder
    counts: list[int] = []
    embeddings = _encoder.embed_texts(texts, rule, lambda _, tokens: counts.append(tokens))
    return embeddings, sum(counts)


class NoMoreWorkersError(Exception):
    """The main thread has ended, after which Python gives no process another task."""


def _close(pool: weakref.ref[WorkerPool]) -> None:
    if (there := pool()) is not None:
        there.close()


class WorkerPool:
    """Worker processes, each with an encoder of its own; started at the first use.

    Args:
        arguments: Those of FastEncoder, for one worker.
        num_workers: Processes.
        files: SHA-256 of the export's files, by name: what workers open must have the same.
    """

    def __init__(self, arguments: dict[str, Any], num_workers: int, files: Mapping[str, str]) -> None:
        # spawn: a fork would inherit sessions and locks
        self._executor = ProcessPoolExecutor(
            num_workers, multiprocessing.get_context("spawn"), initializer=_start, initargs=(arguments, files)
        )
        # a process that multiprocessing has started waits at its end for those that it has started itself
        self._at_exit = Finalize(None, _close, (weakref.ref(self),), exitpriority=1)
        self._num_workers = num_workers
        self._closed = False
        self._answered = False  # by one worker at least, so they do start

    def run(self, texts: Sequence[str], rule: BatchRule, hidden_size: int, done: Done) -> FloatArray:
        """Embeds n texts: (n, H), rows in their order.

        Raises:
            NoMoreWorkersError: Nothing is returned, since the main thread has ended.
            WorkerError: A worker died, or another thread stopped the workers.
        """
        embeddings = np.zeros((len(texts), hidden_size), np.float32)
        order = by_length(texts)
        pending: deque[tuple[list[int], Future[tuple[FloatArray, int]]]] = deque()

        def finish() -> None:
            numbers, future = pending.popleft()
            embeddings[numbers], tokens = future.result()
            self._answered = True
            done(len(numbers), tokens)

        try:
            for numbers in self._shares(order, rule):
                pending.append((numbers, self._submit([texts[i] for i in numbers], rule)))
                if len(pending) > 2 * self._num_workers:
                    finish()
            while pending:
                finish()
        except BaseException as error:
            stopped = self._closed and isinstance(error, Exception)
            self.close()
            if stopped:
                raise WorkerError("The workers were stopped while a call used them. Encode again.") from error
            if isinstance(error, BrokenProcessPool):
                raise WorkerError(_DIED if self._answered else _NOT_STARTED) from error
            raise
        return embeddings

    def _submit(self, texts: list[str], rule: BatchRule) -> Future[tuple[FloatArray, int]]:
        try:
            return self._executor.submit(_embed, texts, rule)
        except RuntimeError as error:
            if "interpreter shutdown" in str(error):
                raise NoMoreWorkersError from error
            raise

    def _shares(self, order: list[int], rule: BatchRule) -> list[list[int]]:
        """What each task gets of the texts, longest first.

        A short list gives all tasks as many texts, of every length, so that workers end together; else texts of about
        one length go together, which pads less.
        """
        if rule.spread and len(order) < _TASKS * CHUNK * self._num_workers:
            count = min(len(order), max(self._num_workers, ceil(len(order) / CHUNK)))
            return [order[start::count] for start in range(count)]
        return [order[start : start + CHUNK] for start in range(0, len(order), CHUNK)]

    def close(self) -> None:
        """Ends the processes at once."""
        self._closed = True
        self._at_exit.cancel()
        processes = list((self._executor._processes or {}).values())
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
