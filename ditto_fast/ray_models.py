"""A model on Ray: checked on the driver, sent where that is wanted, opened by each worker."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ditto_fast.checks import one_of
from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import ClusterError, MissingDependencyError, OptionError
from ditto_fast.providers import PROVIDERS, Providers
from ditto_fast.shipping import LocalModel, find_or_unpack, pack

if TYPE_CHECKING:
    import ray


def import_ray(*, data: bool = False) -> Any:
    """The `ray` module, with `ray.data` where that is asked for: an actor does without, and starts sooner.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import ray

        if data:
            import ray.data
    except ImportError as error:
        raise MissingDependencyError(
            f"Encoding on Ray needs ray[data] and pyarrow: pip install 'ditto-fast[cpu,ray]' ({error})."
        ) from error
    return ray


@dataclass(frozen=True)
class WorkerModel:
    """What a worker opens; small enough to go with every task.

    Args:
        model: An export on the driver, or a hub id.
        shipped: The one reference to the files of a local export in the object store, or nothing.
        cache_dir: See `encode_dataset`.
        options: Arguments of FastEncoder.
    """

    model: LocalModel | str
    shipped: tuple[ray.ObjectRef, ...]
    cache_dir: str | None
    options: dict[str, Any]

    def open(self) -> FastEncoder:
        """Opens the encoder, on a worker.

        Raises:
            DittoError: What `FastEncoder` and `find_or_unpack` raise.
        """
        if isinstance(self.model, str):
            return FastEncoder.from_pretrained(self.model, cache_dir=self.cache_dir, **self.options)
        ray = import_ray()
        fetch = (lambda: ray.get(self.shipped[0])) if self.shipped else None
        cache = None if self.cache_dir is None else Path(self.cache_dir)
        return FastEncoder(find_or_unpack(self.model, fetch, cache), **self.options)


def prepare(
    model: str | os.PathLike[str],
    *,
    num_cpus: float = 1,
    num_gpus: float = 0,
    providers: Providers | None = None,
    pooling: str | None = None,
    precision: str | None = None,
    max_seq_length: int | None = None,
    revision: str | None = None,
    ship_model: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
) -> WorkerModel:
    """Checks a model on the driver, before any worker starts, and puts its files into the object store once.

    Args:
        model: See `ditto_fast.distributed.encode_dataset`, as for all others.
        num_cpus: CPUs of a worker.
        num_gpus: GPUs of a worker.
        providers: What the graph runs on.
        pooling: The pooling.
        precision: Precision of the graph.
        max_seq_length: Length in tokens that texts are cut to.
        revision: Branch, tag or commit on the hub; all workers open the one commit that it is now.
        ship_model: Whether to send the files of a local export.
        cache_dir: Where a worker keeps what it was sent.

    Raises:
        DittoError: What `ditto_fast.shipping.pack` raises, and:
        ModelNotFoundError: The model is neither an export here nor on the hub.
        OptionError: An argument is outside its valid values.
    """
    if providers is None:
        providers = "cuda" if num_gpus > 0 else "cpu"
    if isinstance(providers, str):  # not "auto": workers of one run would choose differently
        one_of("providers", providers, [*PROVIDERS, *PROVIDERS.values()])
    options: dict[str, Any] = {
        "pooling": pooling,
        "precision": precision,
        "max_seq_length": max_seq_length,
        "providers": providers,
        "num_threads": max(1, int(num_cpus)),
    }
    cache = None if cache_dir is None else os.fspath(cache_dir)
    if not Path(model).exists():
        from ditto_fast.hub import find_commit

        commit = find_commit(os.fspath(model), pooling, precision, revision)
        return WorkerModel(os.fspath(model), (), cache, {**options, "revision": commit})
    if revision is not None:
        raise OptionError(f"revision={revision!r} is for a model of the hub; {model} is a local export. Leave it out.")
    files = pack(model, pooling, precision, providers)
    shipped = (import_ray().put(files),) if ship_model else ()
    return WorkerModel(LocalModel.at(model), shipped, cache, options)


def check_resources(workers: int, num_cpus: float, num_gpus: float, others: float = 0) -> None:
    """Refuses what Ray would wait for without end: workers that the cluster has no place for.

    Args:
        workers: How many at least.
        num_cpus: CPUs of each.
        num_gpus: GPUs of each.
        others: CPUs for what feeds them: workers that take them all would wait for their input for ever.

    Raises:
        ClusterError: The cluster has fewer CPUs or GPUs in all.
    """
    held = import_ray().cluster_resources()
    for name, each, more in (("CPU", num_cpus, others), ("GPU", num_gpus, 0)):
        if workers * each + more > held.get(name, 0):
            reading = f" and {more:g} for what reads the dataset" if more else ""
            raise ClusterError(
                f"{workers} worker(s) need {each:g} {name} each{reading}; the Ray cluster has {held.get(name, 0):g} "
                f"{name}. Ask for fewer (concurrency, num_{name.lower()}s), or start more nodes first."
            )
