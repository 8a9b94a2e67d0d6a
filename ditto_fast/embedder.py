"""Checked texts to raw embeddings: on the threads of this process, or divided among worker processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.batches import BatchRule
from ditto_fast.runner import GraphRunner
from ditto_fast.scheduler import Done, Scheduler
from ditto_fast.tokenizer import Tokenizer
from ditto_fast.workers import WorkerPool

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


class Embedder:
    """Computes embeddings, neither normalised nor checked for NaN.

    Args:
        runner: The open graph.
        hidden_size: Width H of an embedding.
        num_threads: Batches that run at once, over all processes.
        num_workers: Worker processes, started at the first use; 0 for none.
        open_wide: Opens the graph with all threads inside a run, for calls of fewer texts than threads; None
            where all calls are to take `runner`.

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
        open_wide: Callable[[], GraphRunner] | None,
    ) -> None:
        self.runner = runner
        self.num_threads = num_threads
        self.num_workers = num_workers
        self._hidden_size = hidden_size
        self._pool: WorkerPool | None = None
        self._lock = Lock()
        self._open_wide = open_wide if num_threads > 1 else None
        self._wide: GraphRunner | None = None
        self._wide_lock = Lock()
        self._asked_wide = False

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
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))} if deduplicate else {}
        distinct = list(numbers) if deduplicate else texts
        if self.num_workers and len(distinct) > 1:
            pool = self._workers(arguments)
            try:
                embeddings = pool.run(distinct, rule, self._hidden_size, done)
            except BaseException:  # it has ended its processes; the next call starts others
                self.close()
                raise
        else:
            embeddings = self.embed_here(distinct, rule, done)
        return embeddings[[numbers[text] for text in texts]] if len(distinct) < len(texts) else embeddings

    def embed_here(self, texts: list[str], rule: BatchRule, done: Done) -> FloatArray:
        """Embeds n texts in this process: (n, H)."""
        few = self._open_wide is not None and rule.spread and len(texts) <= max(1, self.num_threads // 2)
        embed, threads = (self._embed_wide, 1) if few else (self.runner.embed, self.num_threads)
        return Scheduler(self.tokenizer, embed, self._hidden_size, threads).run(texts, rule, done)

    def _embed_wide(self, token_ids: Sequence[IntArray]) -> FloatArray:
        """A batch on all threads, where no other call has them; the first does not wait until they are there."""
        if not self._wide_lock.acquire(blocking=False):
            return self.runner.embed(token_ids)
        try:
            if self._wide is None and self._asked_wide and self._open_wide is not None:
                self._wide = self._open_wide()
            self._asked_wide = True
            return (self._wide or self.runner).embed(token_ids)
        finally:
            self._wide_lock.release()

    def _workers(self, arguments: Mapping[str, Any]) -> WorkerPool:
        with self._lock:
            if self._pool is None:
                threads = max(1, self.num_threads // self.num_workers)
                own = {**arguments, "num_workers": 0, "num_threads": threads}
                self._pool = WorkerPool(own, self.num_workers)
            return self._pool

    def close(self) -> None:
        """Ends the worker processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
