"""ditto-encode --engine ray: on a real Ray, the same shards as without, also where a worker is killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("ray")

import mortal
from mortal import last_words

from ditto_fast import FastEncoder
from ditto_fast.corpora.encode import encode_corpus
from ditto_fast.corpora.ray_engine import RayEngine

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"Row {i} of the corpus{' and on' * (i % 11)}.\n" for i in range(1000)))
    return path


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def test_the_command_gives_the_same_bytes_on_ray(corpus: Path, tiny_export: Path, command: Command, tmp_path: Path):
    options = ("--model", tiny_export, "--shard-rows", "60", "--json")
    assert command("ditto-encode", corpus, "--output", tmp_path / "local", *options).returncode == 0
    on_ray = command(
        "ditto-encode", corpus, "--output", tmp_path / "ray", *options, "--engine", "ray", "--workers", "2"
    )
    assert on_ray.returncode == 0, on_ray.stderr
    summary = json.loads(on_ray.stdout)
    assert (summary["rows"], summary["shards"]) == (1000, 17)
    assert summary["tokens"] > 1000
    assert shards(tmp_path / "ray") == shards(tmp_path / "local")


def test_a_killed_worker_loses_nothing(
    corpus: Path, tiny_export: Path, local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lines = corpus.read_text().splitlines(keepends=True)
    mark = tmp_path / "died"
    corpus.write_text("".join([*lines[:300], f"{last_words(mark)}\n", *lines[300:]]))
    monkeypatch.setattr("ditto_fast.corpora.ray_engine.embed_block", mortal.embed_block)
    with RayEngine(tiny_export, num_workers=2) as engine:
        summary = encode_corpus(corpus, engine, tmp_path / "ray", shard_rows=60)
    assert mark.exists()
    assert summary.rows == 1001
    with FastEncoder(tiny_export) as encoder:
        encode_corpus(corpus, encoder, tmp_path / "local", shard_rows=60)
    assert shards(tmp_path / "ray") == shards(tmp_path / "local")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "ray", "--ray-address", "127.0.0.1:1"), "No Ray cluster could be reached at '127.0.0.1:1'"),
        (("--engine", "dask"), "--engine must be one of local, ray"),
        (("--ray-address", "127.0.0.1:1"), "--ray-address is for --engine ray"),
    ],
)
def test_a_cluster_that_is_not_there(
    options: tuple[str, ...], message: str, corpus: Path, tiny_export: Path, command: Command, tmp_path: Path
):
    result = command("ditto-encode", corpus, "--model", tiny_export, "--output", tmp_path / "out", *options)
    assert result.returncode == 1
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()
