"""Suite graphs: the same model as other graphs of it, on one thread and equal inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
from gate import require_equal
from job import Job, Row, Setting, failure
from measure import interleaved
from numpy.typing import NDArray
from workspace import exported

from ditto_fast.artifact import Manifest, graph_file
from ditto_fast.batches import graph_inputs
from ditto_fast.session import open_session

LENGTHS = (16, 64, 256, 512)
_TOKENS = 512  # of a batch
_RUNS = 4  # of a timed sample


def masked_fusion(source: Path, target: Path) -> Path:
    """Our graph with its attention masked always: what onnxruntime.transformers' fusion gives by itself."""
    model = onnx.load(source)
    for node in model.graph.node:
        if node.op_type == "If":
            masked = next(attribute.g.node[0] for attribute in node.attribute if attribute.name == "else_branch")
            output = node.output[0]
            node.CopyFrom(masked)
            node.output[0] = output
    onnx.save(model, target)
    return target


def _sessions(setting: Setting) -> dict[str, onnxruntime.InferenceSession]:
    """A session of one thread for each graph."""
    folders = {level: exported(setting.checkpoint, setting.head, optimize=level) for level in ("basic", "none")}
    paths = {name: folder / graph_file("embedding") for name, folder in {"full": setting.export, **folders}.items()}
    with TemporaryDirectory() as folder:
        paths["full, always masked"] = masked_fusion(paths["full"], Path(folder) / "masked.onnx")
        return {name: open_session(path, "cpu", num_threads=1) for name, path in paths.items()}


def _repeat(session: onnxruntime.InferenceSession, feeds: dict[str, NDArray[np.int64]]) -> None:
    for _ in range(_RUNS):
        session.run(None, feeds)


def suite(job: Job) -> Iterator[Row]:
    """A row a graph and length, ours ("full") first; batches of one length, and of a half-padded pair."""
    sessions = _sessions(job.setting)
    inputs = [node.name for node in sessions["full"].get_inputs()]
    vocab_size = Manifest.read(job.setting.export).vocab_size
    for tokens in LENGTHS:
        for padded in (False, True):
            ids = np.random.default_rng(tokens).integers(vocab_size // 2, vocab_size, (_TOKENS // tokens, tokens))
            mask = np.ones_like(ids)
            if padded:
                mask[-1, tokens // 2 :] = 0
            feeds = graph_inputs(ids, mask, inputs)
            yield from _rows(f"T = {tokens}{', padded' if padded else ''}", sessions, feeds, job.rounds)


def _rows(
    case: str, sessions: dict[str, onnxruntime.InferenceSession], feeds: dict[str, NDArray[np.int64]], rounds: int
) -> Iterator[Row]:
    """The rows of one batch; a graph that raises or gives other vectors has one that says so."""
    runs: dict[str, Callable[[], object]] = {}
    errors: dict[str, Exception] = {}
    expected = sessions["none"].run(None, feeds)[0]
    for name, session in sessions.items():
        try:
            require_equal(name, session.run(None, feeds)[0], expected)  # warms, too
            runs[name] = partial(_repeat, session, feeds)
        except Exception as error:  # of any library: it becomes a row
            errors[name] = error
    samples = interleaved(runs, rounds, errors)
    yield from (failure(case, name, error) for name, error in errors.items())
    for name, seconds in samples.items():
        yield {"case": case, "contender": name, "seconds": seconds, "tokens": _TOKENS * _RUNS}
