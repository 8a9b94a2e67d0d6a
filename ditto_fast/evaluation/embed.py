"""Each text encoded once, pooled in every way asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import ExportDirectoryError, HeadError, OptionError, UnsupportedModelError
from ditto_fast.evaluation.glove import average_vectors
from ditto_fast.evaluation.poolers import GLOVE, Pooler, Preparation, find_pooler, pool_states
from ditto_fast.evaluation.prompts import TEMPLATE
from ditto_fast.evaluation.protocol import check_finite
from ditto_fast.evaluation.states import States, StateSource
from ditto_fast.evaluation.tfidf import idf_table

FloatArray = NDArray[np.float32]

LEARNT = frozenset({"idf", "mask token", "vectors"})  # what is made here, or read from a file


@dataclass(frozen=True)
class PoolerOptions:
    """What some poolers need beyond the model.

    Args:
        template: Of the prompt, with [X] and [MASK].
        vectors: File of word vectors.
        documents: Sentences that document frequencies are counted on; what is encoded by default.
    """

    template: str = TEMPLATE
    vectors: Path | None = None
    documents: Sequence[str] | None = None


NO_OPTIONS = PoolerOptions()


def check_poolers(source: StateSource, names: Sequence[str], options: PoolerOptions) -> None:
    """Checks, before any work, that a model can serve these poolers.

    Raises:
        ExportDirectoryError: An export directory does not hold what one needs; the message says what does.
        HeadError: One needs a head and none was named.
        OptionError: One needs a file that was not named.
        UnsupportedModelError: The checkpoint has no pooler.
    """
    for name in names:
        pooler = find_pooler(name)
        if pooler.name == GLOVE:
            if options.vectors is None:
                raise OptionError("glove needs a file of word vectors: name it with --vectors.")
            continue
        for missing in sorted(pooler.needs - source.provides - LEARNT):
            if missing == "diagonal":
                raise HeadError(f"{name} needs a head: name it with --head L-H, or find one with ditto-heads.")
            if not source.all_heads:
                raise ExportDirectoryError(
                    f"{name} needs {missing!r}, which an export directory does not hold: no export option gives it. "
                    "Name the checkpoint instead of the export; it is exported with all states into a cache."
                )
            raise UnsupportedModelError(f"{name} needs trained pooler weights, which {source.sizes.name} has not.")


def embed(
    source: StateSource,
    texts: Sequence[str],
    names: Sequence[str],
    options: PoolerOptions = NO_OPTIONS,
    progress: bool = False,
) -> dict[str, FloatArray]:
    """Embeddings of texts by pooler.

    Args:
        source: The model.
        texts: n texts, encoded once for all poolers that take them as they are.
        names: Poolers; what follows a "+" is not applied here.
        options: What some poolers need.
        progress: Show a bar on stderr.

    Returns:
        (n, H) for each of the poolers' names before the "+".

    Raises:
        EmbeddingError: An embedding is not finite; the message names the row.
    """
    check_poolers(source, names, options)
    poolers = {pooler.name: pooler for pooler in map(find_pooler, names)}
    result: dict[str, FloatArray] = {}
    if poolers.pop(GLOVE, None) is not None and options.vectors is not None:
        result[GLOVE] = average_vectors(texts, options.vectors)
    _add_tables(source, list(poolers.values()), texts if options.documents is None else options.documents)
    groups: dict[Preparation | None, list[Pooler]] = {}
    for pooler in poolers.values():
        groups.setdefault(pooler.prepare, []).append(pooler)
    for prepare, members in groups.items():
        prepared = list(texts) if prepare is None else [prepare(t, source.encodings, options.template) for t in texts]
        result |= _embed_group(source, prepared, members, progress)
    for name, rows in result.items():
        check_finite(name, rows, texts)
    return result


def _embed_group(source: StateSource, texts: list[str], poolers: list[Pooler], progress: bool) -> dict[str, FloatArray]:
    def pool_all(states: States) -> list[FloatArray]:
        return [pool_states(pooler, states) for pooler in poolers]

    result = {pooler.name: np.zeros((len(texts), source.sizes.hidden_size), np.float32) for pooler in poolers}
    label = ("encode" if poolers[0].prepare is None else poolers[0].name) if progress else ""
    model = any(pooler.needs - source.tables.keys() for pooler in poolers)
    for positions, pooled in source.map([[text] for text in texts], pool_all, label, model):
        for pooler, rows in zip(poolers, pooled, strict=True):
            if result[pooler.name].shape[1] != rows.shape[1]:  # a table narrower than the hidden states
                result[pooler.name] = np.zeros((len(texts), rows.shape[1]), np.float32)
            result[pooler.name][positions] = rows
    return result


def _add_tables(source: StateSource, poolers: Sequence[Pooler], documents: Sequence[str]) -> None:
    """Puts weights by token id that the poolers need into the source."""
    needed = {name for pooler in poolers for name in pooler.needs}
    if "idf" in needed:
        source.tables["idf"] = idf_table(source.encodings, documents)
    if "mask token" in needed:
        _, number = source.encodings.mask_token()
        one_hot = np.zeros(source.encodings.vocab_size, np.float32)
        one_hot[number] = 1
        source.tables["mask token"] = one_hot
