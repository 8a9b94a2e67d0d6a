"""encode_dataset: a Ray dataset of texts in, the same dataset with embeddings out."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import integer
from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import OptionError, TextTypeError
from ditto_fast.providers import Providers
from ditto_fast.ray_models import WorkerModel, check_resources, import_ray, prepare
from ditto_fast.texts import describe

if TYPE_CHECKING:
    import pyarrow
    import ray.data

# a number of workers, or the fewest and the most
Concurrency = int | tuple[int, int]


def encode_dataset(
    dataset: ray.data.Dataset,
    model: str | os.PathLike[str],
    *,
    column: str = "text",
    embedding_column: str = "embedding",
    num_gpus: float = 0,
    num_cpus: float = 1,
    concurrency: Concurrency | None = None,
    batch_size: int = 1024,
    ship_model: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    providers: Providers | None = None,
    pooling: str | None = None,
    precision: str | None = None,
    max_seq_length: int | None = None,
    normalize_embeddings: bool = False,
    revision: str | None = None,
) -> ray.data.Dataset:
    """Adds a column of embeddings to a Ray dataset; like all of Ray Data it is lazy, and streams.

    Each worker is an actor with one FastEncoder. One that dies is started again and its batches run again. What
    a worker raises comes out where the dataset is consumed, as Ray's error with the worker's message in it.

    Args:
        dataset: Rows with a column of strings, n of them.
        model: An export directory, an .onnx file in it, or a hub id. A worker opens a local export at the same
            path where the same export is there, and else what `ship_model` sent. A hub id is opened from the hub
            by each node, at one commit.
        column: Column of the texts.
        embedding_column: Column to add, each row a fixed-size list of H floats.
        num_gpus: GPUs of a worker; a fraction shares one. More than 0 means providers="cuda".
        num_cpus: CPUs of a worker, and threads of its encoder; what reads the dataset needs one, too.
        concurrency: Workers, or (fewest, most); by default from 1 to as many as fit.
        batch_size: Rows that a worker encodes at once.
        ship_model: Send the files that a local export needs through Ray's object store, once, for nodes that
            do not have them.
        cache_dir: Folder of a worker's machine for what it was sent, ~/.cache/ditto_fast/models by default, or
            for the hub's cache.
        providers: See `FastEncoder`; without "auto", since workers could differ.
        pooling: See `FastEncoder`.
        precision: See `FastEncoder`.
        max_seq_length: See `FastEncoder`.
        normalize_embeddings: Divide each embedding by its L2 norm.
        revision: Branch, tag or commit of a model on the hub.

    Returns:
        The dataset with all its rows and columns, and the embeddings (n, H).

    Raises:
        ClusterError: The cluster has fewer CPUs or GPUs than the workers take.
        ExportDirectoryError: The model is no export, or lacks a file.
        MissingDependencyError: Ray is not installed.
        ModelNotFoundError: The model is neither an export here nor one on the hub.
        OptionError: An argument is outside its valid values; the text column is missing, or the other is there.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> dataset = ray.data.from_items([{"id": 1, "text": "Rain fell."}])  # doctest: +SKIP
        >>> encode_dataset(dataset, "minilm-ditto").schema().names  # doctest: +SKIP
        ['id', 'text', 'embedding']
    """
    pool = _checked_pool(dataset, concurrency, num_cpus, num_gpus)
    integer("batch_size", batch_size)
    schema = dataset.schema(fetch_if_missing=False)
    if schema is not None:
        check_columns(schema.names, column, embedding_column)
    worker_model = prepare(
        model,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        providers=providers,
        pooling=pooling,
        precision=precision,
        max_seq_length=max_seq_length,
        revision=revision,
        ship_model=ship_model,
        cache_dir=cache_dir,
    )
    return dataset.map_batches(
        _Embedder,
        fn_constructor_args=(worker_model, column, embedding_column, normalize_embeddings),
        compute=pool,
        batch_size=batch_size,
        batch_format="pyarrow",
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        udf_modifying_row_count=False,
    )


def check_columns(names: list[str], column: str, embedding_column: str) -> None:
    """Checks that the texts are there and that the embeddings would replace nothing.

    Raises:
        OptionError: They are not, or would.

    Example:
        >>> check_columns(["id", "text"], "text", "embedding")
    """
    if column not in names:
        raise OptionError(
            f"column must be one of {', '.join(names)}; got {column!r}. Name the one that holds the texts."
        )
    if embedding_column in names:
        raise OptionError(
            f"embedding_column {embedding_column!r} is already there, among {', '.join(names)}. Choose another name, "
            "or drop it first: dataset.drop_columns([...])."
        )


class _Embedder:
    """A worker of `map_batches`; it opens the encoder at its first batch, since Ray buries what __init__ raises."""

    def __init__(self, model: WorkerModel, column: str, embedding_column: str, normalize_embeddings: bool) -> None:
        self._model = model
        self._column = column
        self._embedding_column = embedding_column
        self._normalize = normalize_embeddings

    @cached_property
    def _encoder(self) -> FastEncoder:
        return self._model.open()

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        check_columns(batch.column_names, self._column, self._embedding_column)
        texts = _texts(batch, self._column)
        embeddings = self._encoder.encode(texts, normalize_embeddings=self._normalize)
        return batch.append_column(self._embedding_column, as_lists(embeddings))


def _texts(batch: pyarrow.Table, column: str) -> list[str]:
    """The strings of a column; a row that has none is named by its position in the batch, and its id."""
    items: list[str] = batch.column(column).to_pylist()
    for position, item in enumerate(items):
        if not isinstance(item, str):
            row_id = f" (id {batch.column('id')[position].as_py()!r})" if "id" in batch.column_names else ""
            got = "null" if item is None else describe(item)
            raise TextTypeError(
                f"column {column!r} must hold a string in every row; row {position}{row_id} of a batch of {len(items)} "
                f"has {got}. Filter such rows out or convert them before encoding."
            )
    return items


def as_lists(embeddings: NDArray[np.float32]) -> pyarrow.FixedSizeListArray:
    """Embeddings (n, H) as a column of n fixed-size lists of H floats; the values are not copied."""
    import pyarrow

    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(embeddings.reshape(-1)), embeddings.shape[1])


def _workers(concurrency: Concurrency | None) -> tuple[int, int | None]:
    if concurrency is None:
        return 1, None
    fewest, most = (
        concurrency if isinstance(concurrency, tuple) and len(concurrency) == 2 else (concurrency, concurrency)
    )
    integer("concurrency", fewest)
    if integer("concurrency", most) < fewest:
        raise OptionError(f"concurrency must be (fewest, most) workers; got {concurrency!r}. Turn them round.")
    return int(fewest), int(most)


def _checked_pool(
    dataset: ray.data.Dataset, concurrency: Concurrency | None, num_cpus: float, num_gpus: float
) -> ray.data.ActorPoolStrategy:
    """The pool of workers, if the cluster can hold it beside what reads the dataset."""
    ray = import_ray(data=True)
    if not isinstance(dataset, ray.data.Dataset):
        raise OptionError(
            f"dataset must be a ray.data.Dataset; got {type(dataset).__name__}. "
            "Make one with ray.data.from_items, from_arrow or read_parquet."
        )
    if not num_cpus > 0 or not num_gpus >= 0:
        raise OptionError(
            f"num_cpus must be above 0 and num_gpus at least 0; got {num_cpus!r} and {num_gpus!r}. "
            "A worker takes a CPU on a GPU node, too."
        )
    fewest, most = _workers(concurrency)
    reading = not isinstance(dataset, ray.data.dataset.MaterializedDataset)
    check_resources(fewest, num_cpus, num_gpus, others=1 if reading else 0)
    return ray.data.ActorPoolStrategy(min_size=fewest, max_size=most)
