"""Suite graphs: the same model as other graphs of it, on one thread and equal inputs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
from gate import compared
from job import Job, Row, Setting, Vectors
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


def _repeat(session: onnxruntime.InferenceSession, feeds: dict[str, NDArray[np.int64]]) -> Vectors:
    """What the last of several runs gives."""
    vectors: Vectors
    for _ in range(_RUNS):
        (vectors,) = session.run(None, feeds)
    return vectors


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
            runs = {name: partial(_repeat, session, feeds) for name, session in sessions.items()}
            case = f"T = {tokens}{', padded' if padded else ''}"
            for row in compared(case, runs, sessions["none"].run(None, feeds)[0], job.rounds):
                yield {**row, "tokens": _TOKENS * _RUNS}
