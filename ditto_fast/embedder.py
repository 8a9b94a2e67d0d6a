"""Checked texts to raw embeddings: on the threads of this process, or divided among worker processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.batches import BatchRule
from ditto_fast.forks import leave_to_parent, renew_after_fork
from ditto_fast.runner import GraphRunner
from ditto_fast.scheduler import Done, Scheduler
from ditto_fast.tokenizer import Tokenizer
from ditto_fast.wide import WideRunner, goes_wide
from ditto_fast.workers import NoMoreWorkersError, WorkerPool

FloatArray = NDArray[np.float32]


class Embedder:
    """Computes embeddings, neither normalised nor checked for NaN.

    Args:
        runner: The open graph.
        hidden_size: Width H of an embedding.
        num_threads: Batches that run at once, over all processes.
        num_workers: Worker processes, started at the first use; 0 for none.
        wide: For calls of fewer texts than threads; None where all calls are to take `runner`.

    Attributes:
        tokenizer: Gives token ids; to be set before the first call.
    """

    tokenizer: Tokenizer

    def __init__(
        self,
        runner: GraphRunner,
        hidden_size: int,
        num_threads: int,
        num_workers: int,
        wide: WideRunner | None,
    ) -> None:
        self.runner = runner
        self.num_threads = num_threads
        self.num_workers = num_workers
        self._hidden_size = hidden_size
        self._wide = wide
        self._pool: WorkerPool | None = None
        self._lock = Lock()
        renew_after_fork(self)

    def renew(self) -> None:
        """In a forked child, the parent's workers are not to be touched; the first call starts others."""
        leave_to_parent(self._pool)
        self._pool = None
        self._lock = Lock()

    def embed(
        self, texts: list[str], rule: BatchRule, deduplicate: bool, done: Done, arguments: Mapping[str, Any]
    ) -> FloatArray:
        """Embeds n texts.

        Args:
            texts: The texts.
            rule: What a batch may hold.
            deduplicate: Compute each distinct text once.
            done: Called after each batch with its number of texts and of tokens.
            arguments: Those of FastEncoder, for worker processes.

        Returns:
            Embeddings (n, H), rows in the order of the texts.

        Raises:
            WorkerError: A worker process died.
        """
        if not deduplicate:
            return self._embed(texts, rule, done, arguments)
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        embeddings = self._embed(list(numbers), rule, done, arguments)
        return embeddings[[numbers[text] for text in texts]] if len(numbers) < len(texts) else embeddings

    def _embed(self, texts: list[str], rule: BatchRule, done: Done, arguments: Mapping[str, Any]) -> FloatArray:
        # a daemonic process, such as a DataLoader's, may start no others
        if not self.num_workers or len(texts) < 2 or multiprocessing.current_process().daemon:
            return self.embed_here(texts, rule, done)
        pool = self._workers(arguments)
        try:
            return pool.run(texts, rule, self._hidden_size, done)
        except BaseException as error:  # it has ended its processes; the next call starts others
            with self._lock:
                if self._pool is pool:
                    self._pool = None
            if isinstance(error, NoMoreWorkersError):
                return self.embed_here(texts, rule, done)
            raise

    def embed_here(self, texts: list[str], rule: BatchRule, done: Done) -> FloatArray:
        """Embeds n texts in this process: (n, H)."""
        if self._wide is not None and rule.spread and goes_wide(len(texts), self.num_threads):
            embed, threads = self._wide.embed, 1
        else:
            embed, threads = self.runner.embed, self.num_threads
        return Scheduler(self.tokenizer, embed, self._hidden_size, threads).run(texts, rule, done)

    def _workers(self, arguments: Mapping[str, Any]) -> WorkerPool:
        with self._lock:
            if self._pool is None:
                threads = max(1, self.num_threads // self.num_workers)
                own = {**arguments, "num_workers": 0, "num_threads": threads}
                self._pool = WorkerPool(own, self.num_workers, self.runner.files)
            return self._pool

    def close(self) -> None:
        """Ends the worker processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
