"""Encoders on the nodes of a Ray cluster, for programs that hand out the texts themselves."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import integer
from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import ClusterError, EncoderClosedError
from ditto_fast.ray_models import WorkerModel, check_resources, import_ray, prepare

if TYPE_CHECKING:
    from ray.actor import ActorHandle

FloatArray = NDArray[np.float32]

# encoder, texts and what else `RayEncoders.submit` is given -> what its future gives
Encode = Callable[..., Any]

_PROBE_S = 5
_START_S = 300  # for workers to get their CPUs, on a cluster that may have to grow
_RETRIES = 3  # of texts whose worker was killed: some may kill every one
# what a gRPC client says first; a server answers with a frame of the same type, or asks for TLS
_SETTINGS, _TLS_ALERT = b"\4", b"\x15"
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0" + _SETTINGS + bytes(5)


def connect(address: str | None = None) -> None:
    """Connects this process to Ray; whoever has done so already is left alone.

    Args:
        address: "host:port" of a cluster's head (port 6379 by default of `ray start --head`), "auto" for the one
            of this machine; None takes that of RAY_ADDRESS, which `ray job submit` sets, and without it starts a
            Ray of this process, which ends with it.

    Raises:
        ClusterError: Nothing, or something other than Ray, answers at the address.
        MissingDependencyError: Ray is not installed.
    """
    ray = import_ray()
    if ray.is_initialized():
        return
    address = os.environ.get("RAY_ADDRESS") if address is None else address
    if address is None:
        ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="error")
        return
    if address not in ("auto", "local"):
        _probe(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (Exception, SystemExit) as error:  # Ray's core exits the process where its server does not answer
        raise _unreachable(address, str(error)) from error


def _probe(address: str) -> None:
    """Finds out within seconds whether a server is there, which takes ray.init two minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise _unreachable(address, "it is not of the form host:port")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_S) as connection:
            connection.sendall(_HTTP2)
            answer = connection.recv(8)
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from error
    if answer[3:4] != _SETTINGS and not answer.startswith(_TLS_ALERT):
        raise _unreachable(address, "a server that is not Ray's answers there, or Ray's dashboard")


def _unreachable(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"No Ray cluster could be reached at {address!r}: {' '.join(reason.split())}. Check that `ray status` works on "
        "its head, and the port (6379 unless `ray start --port` said another); without an address Ray starts here."
    )


def encode_texts(encoder: FastEncoder, texts: list[str], **options: Any) -> FloatArray:
    """What a worker does with texts: embeddings (n, H)."""
    embeddings: FloatArray = encoder.encode(texts, **options)
    return embeddings


class _Worker:
    """An actor. It is told the model with each call: what its constructor is given could be lost before a restart."""

    _encoder: FastEncoder | None = None

    def started(self) -> None:
        """Returns as soon as Ray has found a place for the actor."""

    def open(self, model: WorkerModel) -> None:
        """Opens the encoder, where that is still to do; what that raises reaches the caller as it is."""
        if self._encoder is None:
            self._encoder = model.open()

    def encode(
        self, model: WorkerModel, encode: Encode, texts: list[str], more: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """What the function gives for texts."""
        self.open(model)
        return encode(self._encoder, texts, *more, **options)


class RayEncoders:
    """Actors with a FastEncoder each; a context manager. One that is killed is started again, its texts run again.

    Args:
        model: See `ditto_fast.distributed.encode_dataset`.
        concurrency: Actors.
        num_cpus: CPUs of an actor, and threads of its encoder.
        num_gpus: GPUs of an actor.
        encode: A function of an importable module, called on the worker with the encoder, the texts and what
            else `submit` was given.
        **model_options: providers, pooling, precision, max_seq_length, revision, ship_model and cache_dir of
            `encode_dataset`; any else is a TypeError.

    Raises:
        DittoError: What `encode_dataset` raises, and what opening the encoder on a worker raises.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        concurrency: int,
        num_cpus: float = 1,
        num_gpus: float = 0,
        encode: Encode = encode_texts,
        **model_options: Any,
    ) -> None:
        ray = import_ray()
        integer("concurrency", concurrency)
        check_resources(concurrency, num_cpus, num_gpus)
        self._model = prepare(model, num_cpus=num_cpus, num_gpus=num_gpus, **model_options)
        self._encode = encode
        remote = ray.remote(num_cpus=num_cpus, num_gpus=num_gpus, max_restarts=-1, max_task_retries=_RETRIES)(_Worker)
        self._actors: list[ActorHandle] = [remote.remote() for _ in range(concurrency)]
        self._waiting: list[set[Future[Any]]] = [set() for _ in range(concurrency)]
        try:
            self._wait_for_places()
            ray.get([actor.open.remote(self._model) for actor in self._actors])
        except BaseException:
            self.close()
            raise

    def _wait_for_places(self) -> None:
        started = [actor.started.remote() for actor in self._actors]
        ready, waiting = import_ray().wait(started, num_returns=len(started), timeout=_START_S)
        if waiting:
            raise ClusterError(
                f"{len(ready)} of {len(started)} workers have started within {_START_S} s: the cluster has no free "
                "place for the others. Ask for fewer workers or CPUs of each, or wait until other jobs have ended."
            )

    def submit(self, texts: list[str], *more: Any, **options: Any) -> Future[Any]:
        """Hands texts to the actor with the fewest waiting; nothing limits how many wait, so let a few wait at most.

        Args:
            texts: n strings.
            *more: Further arguments of `encode`.
            **options: Further arguments of `encode`.

        Returns:
            What `encode` gives, to come: embeddings (n, H) by default. An error of it is raised by `result()`, with
            its own type.

        Raises:
            EncoderClosedError: After `close`.
        """
        if not self._actors:
            raise EncoderClosedError("These encoders are closed; make new RayEncoders.")
        actor, waiting = min(zip(self._actors, self._waiting, strict=True), key=lambda pair: len(pair[1]))
        future: Future[Any] = actor.encode.remote(self._model, self._encode, texts, more, options).future()
        waiting.add(future)
        future.add_done_callback(waiting.discard)
        return future

    def close(self) -> None:
        """Ends the actors at once; what still waits is lost."""
        ray = import_ray()
        actors, self._actors = self._actors, []
        for actor in actors if ray.is_initialized() else ():
            ray.kill(actor)

    def __enter__(self) -> RayEncoders:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
