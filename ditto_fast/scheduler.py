"""From texts to embeddings: tokenization of the next texts overlaps the batches that run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ditto_fast.batches import BatchRule, plan_batches
from ditto_fast.sharing import share_batches
from ditto_fast.tokenizer import Tokenizer

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]

# Called with the number of texts and of tokens of what is done.
Done = Callable[[int, int], object]

# Texts that are tokenized at once: few, so that the first batch starts soon; many batches' worth all the same.
CHUNK = 512


def by_length(texts: Sequence[str]) -> list[int]:
    """Positions from the longest text to the shortest, in characters: near enough to tokens to cut chunks by."""
    return sorted(range(len(texts)), key=lambda i: -len(texts[i]))


class Scheduler:
    """Tokenizes, plans batches and runs them on threads.

    Args:
        tokenizer: Gives token ids.
        embed: Gives the embeddings (B, H) of a batch of token ids.
        hidden_size: H.
        num_threads: Batches that run at once.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        embed: Callable[[Sequence[IntArray]], FloatArray],
        hidden_size: int,
        num_threads: int,
    ) -> None:
        self._tokenizer = tokenizer
        self._embed = embed
        self._hidden_size = hidden_size
        self._num_threads = num_threads

    def run(self, texts: Sequence[str], rule: BatchRule, done: Done) -> FloatArray:
        """Embeds texts.

        Args:
            texts: n texts.
            rule: What a batch may hold.
            done: Called after each batch.

        Returns:
            Embeddings (n, H), rows in the order of `texts`.
        """
        embeddings = np.zeros((len(texts), self._hidden_size), np.float32)
        order = np.array(by_length(texts), dtype=np.int64)
        chunks = [order[start : start + CHUNK] for start in range(0, len(order), CHUNK)]

        def finish(numbers: IntArray, rows: FloatArray, tokens: int) -> None:
            embeddings[numbers] = rows
            done(len(numbers), tokens)

        if self._num_threads == 1 or len(texts) == 1:
            for chunk in chunks:
                token_ids = self._tokenizer([texts[i] for i in chunk])
                for batch in self._plan(token_ids, rule, len(chunks)):
                    rows = [token_ids[i] for i in batch]
                    finish(chunk[batch], self._embed(rows), sum(map(len, rows)))
        else:
            self._run_on_threads(texts, chunks, rule, finish)
        return embeddings

    def _plan(self, token_ids: Sequence[IntArray], rule: BatchRule, chunks: int) -> list[IntArray]:
        lengths = [len(ids) for ids in token_ids]
        if chunks == 1 and self._num_threads > 1 and rule.spread:
            return share_batches(lengths, rule, self._num_threads)
        return plan_batches(lengths, rule)

    def _run_on_threads(
        self,
        texts: Sequence[str],
        chunks: Sequence[IntArray],
        rule: BatchRule,
        finish: Callable[[IntArray, FloatArray, int], None],
    ) -> None:
        """At most two chunks are under way: one runs while the next is tokenized."""
        pending: deque[tuple[IntArray, Future[FloatArray], int]] = deque()

        alone = False

        def started(rows: list[IntArray]) -> Future[FloatArray]:
            nonlocal alone
            try:
                if not alone:
                    return executor.submit(self._embed, rows)
            except RuntimeError:  # no more threads: the main one has ended, or the process may have no others
                alone = True
            future: Future[FloatArray] = Future()
            future.set_result(self._embed(rows))
            return future

        with ThreadPoolExecutor(self._num_threads) as executor:
            try:
                for chunk in chunks:
                    token_ids = self._tokenizer([texts[i] for i in chunk])
                    batches = self._plan(token_ids, rule, len(chunks))
                    for batch in batches:
                        rows = [token_ids[i] for i in batch]
                        pending.append((chunk[batch], started(rows), sum(map(len, rows))))
                    while len(pending) > len(batches):
                        numbers, future, tokens = pending.popleft()
                        finish(numbers, future.result(), tokens)
                for numbers, future, tokens in pending:
                    finish(numbers, future.result(), tokens)
            except BaseException:  # an interrupt, too, must not wait for what has not started
                executor.shutdown(wait=False, cancel_futures=True)
                raise
