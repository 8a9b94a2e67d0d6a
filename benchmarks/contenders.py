"""The ways to the same vectors, in one list: how each is built, and by what other code it is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
from gemm_floor import FLOORS
from job import Encode, Job, Row, Setting, parts
from peers_int8 import openvino_int8, openvino_int8_requests, sentence_transformers_int8
from peers_onnx import fastembed, openvino, openvino_backend, openvino_requests
from peers_ours import int8, ours, ours_mean
from peers_torch import compiled, eager, eager_sorted, sdpa, sentence_transformers, sentence_transformers_onnx

PEER_INT8 = "int8 of a peer"  # by its own quantisation


@dataclass(frozen=True)
class Contender:
    """One way.

    Args:
        key: For the command line.
        name: As printed.
        how: Its batching and settings, in words.
        build: Makes the function that is timed, text in, vectors out.
        expected: Makes the function whose vectors it must give, by independent code.
        precision: Which row of the tables of tolerances holds for it, or PEER_INT8.
        needs: Modules that must be installed.
        slow_start: Whether its first run takes longer than a quick run may; it meets there only where it is asked for.
    """

    key: str
    name: str
    how: str
    build: Callable[[Setting], Encode]
    expected: Callable[[Setting], Encode]
    precision: str = "fp32"
    needs: tuple[str, ...] = ()
    slow_start: bool = False

    def missing(self) -> list[str]:
        """The modules of `needs` that are not installed."""
        return [name for name in self.needs if not _installed(name)]


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent
        return False


_MEAN = "mean pooling: other pooling, same encoder work"
_EAGER = "torch, output_attentions, batches of 128, input order"
_NNCF = "NNCF's static int8 calibrated on our sentences, Ditto's part in fp32, sorted batches of 1024 tokens"
_SDPA = "torch, SDPA, q and k of one layer tapped (DittoPooling), batches of 32, sorted"
CONTENDERS = (
    Contender("eager", "authors' eager path", _EAGER, eager, ours),
    Contender("eager-sorted", "authors' path, sorted", "the same on length-sorted batches of 32", eager_sorted, ours),
    Contender("sdpa", "plain torch, SDPA", _SDPA, sdpa, eager),
    Contender(
        "compile",
        "torch.compile",
        "plain torch, SDPA, compiled before it is timed: dynamic shapes, frozen weights",
        compiled,
        eager,
        slow_start=True,
    ),
    Contender(
        "st",
        "sentence-transformers",
        f"torch, batches of 32, sorted; {_MEAN}",
        sentence_transformers,
        ours_mean,
        needs=("sentence_transformers",),
    ),
    Contender(
        "st-onnx",
        "sentence-transformers, ONNX",
        f"its ONNX backend, batches of 32, sorted; {_MEAN}",
        sentence_transformers_onnx,
        ours_mean,
        needs=("sentence_transformers", "optimum.onnxruntime"),
    ),
    Contender(
        "st-openvino",
        "sentence-transformers, OpenVINO",
        f"its OpenVINO backend, batches of 32, sorted; {_MEAN}",
        openvino_backend,
        ours_mean,
        needs=("sentence_transformers", "optimum.intel", "openvino"),
    ),
    Contender(
        "openvino",
        "OpenVINO, our graph",
        "latency hint, fp32, sorted batches of 512 tokens",
        openvino,
        eager,
        needs=("openvino",),
    ),
    Contender(
        "openvino-requests",
        "OpenVINO, our graph, requests",
        "throughput hint, one request a thread, fp32, sorted batches of 512 tokens",
        openvino_requests,
        eager,
        needs=("openvino",),
    ),
    Contender(
        "fastembed",
        "fastembed",
        f"local model, batches of 256, input order; {_MEAN}",
        fastembed,
        ours_mean,
        needs=("fastembed",),
    ),
    Contender(
        "st-onnx-int8",
        "sentence-transformers, ONNX int8",
        f"its ONNX backend, dynamic int8 as its guide has it, batches of 32, sorted; {_MEAN}",
        sentence_transformers_int8,
        ours_mean,
        precision=PEER_INT8,
        needs=("sentence_transformers", "optimum.onnxruntime"),
    ),
    Contender(
        "openvino-int8",
        "OpenVINO int8, our graph",
        f"{_NNCF}, latency hint",
        openvino_int8,
        eager,
        precision=PEER_INT8,
        needs=("openvino", "nncf"),
        slow_start=True,
    ),
    Contender(
        "openvino-int8-requests",
        "OpenVINO int8, our graph, requests",
        f"{_NNCF}, throughput hint, one request a thread",
        openvino_int8_requests,
        eager,
        precision=PEER_INT8,
        needs=("openvino", "nncf"),
        slow_start=True,
    ),
    Contender("fp32", "ditto_fast", "FastEncoder, its defaults", ours, eager),
    Contender("int8", "ditto_fast, int8", "FastEncoder, precision int8", int8, eager, precision="int8"),
)
BY_KEY = {contender.key: contender for contender in CONTENDERS}
BASELINE = "eager"
OURS = ("fp32", "int8")


def floor_of(key: str) -> str:
    """The floor that a contender, or a floor itself, is held against."""
    if key in FLOORS.values():
        return key
    return FLOORS["int8"] if key in BY_KEY and BY_KEY[key].precision in ("int8", PEER_INT8) else FLOORS["fp32"]


def meets(key: str, peers: Sequence[str] | None, quick: bool) -> bool:
    """Whether a contender has a part in a run of those peers, or of all; who is no contender always has."""
    if key not in BY_KEY:
        return True
    return not (quick and BY_KEY[key].slow_start) if peers is None else key in (BASELINE, *OURS, *peers)


def chosen(job: Job, among: tuple[str, ...] = tuple(BY_KEY)) -> list[Contender]:
    """The contenders of `among` that meet: the baseline, ours, and the peers; where some are asked for, those alone.

    A peer that is asked for but not of `among` has no part in the suite, and no row.
    """
    return [BY_KEY[key] for key in among if meets(key, job.peers, job.quick)]


def missing_rows(contenders: Iterable[Contender], case: str) -> list[Row]:
    """A row for each contender that is not installed."""
    return [
        {"case": case, "contender": contender.key, "missing": f"not installed: {', '.join(missing)}"}
        for contender in contenders
        if (missing := contender.missing())
    ]


def in_calls(contender: Contender, size: int) -> Contender:
    """The contender when it is given so many texts a call."""

    def build(setting: Setting) -> Encode:
        encode = contender.build(setting)
        return lambda texts: np.concatenate([encode(part) for part in parts(texts, size)])

    return replace(contender, build=build)
