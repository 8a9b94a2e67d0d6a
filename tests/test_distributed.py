"""encode_dataset and RayEncoders on a real local Ray with two workers."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from mortal import encode, last_words, refuse

from ditto_fast import FastEncoder
from ditto_fast.errors import (
    ClusterError,
    EncoderClosedError,
    ExportDirectoryError,
    ModelNotFoundError,
    NonFiniteError,
    OptionError,
)

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ditto-fast[ray]'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ditto-fast[ray]'")

import mortal  # noqa: E402
from ray.exceptions import RayTaskError  # noqa: E402

from ditto_fast import distributed  # noqa: E402
from ditto_fast.distributed import encode_dataset  # noqa: E402
from ditto_fast.ray_actors import RayEncoders, connect  # noqa: E402

pytestmark = pytest.mark.usefixtures("local_ray", "no_actor_left")
TEXTS = [f"{'word ' * (i % 23)}number {i}" for i in range(300)]
CLOSE = 1e-6  # measured: 5e-7, of values up to 2; a batch's padding moves the last digits


@pytest.fixture
def no_actor_left() -> Iterator[None]:
    """An actor of Ray Data holds its CPU until its dataset is collected, which an error's traceback delays."""
    yield
    gc.collect()


def make_dataset(texts: list[Any], blocks: int = 6) -> Any:
    rows = [
        {"id": 7 * i, "text": text, "tags": [i, i + 1], "when": None if i % 2 else 0.5} for i, text in enumerate(texts)
    ]
    return ray.data.from_items(rows, override_num_blocks=min(blocks, len(rows)))


def by_id(dataset: Any) -> pa.Table:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs())).sort_by("id")


def vectors(table: pa.Table) -> np.ndarray:
    return np.array(table["embedding"].to_pylist(), np.float32)


def test_two_workers_give_what_one_process_gives(tiny_export: Path):
    dataset = make_dataset(TEXTS)
    table = by_id(encode_dataset(dataset, tiny_export, concurrency=2, batch_size=32))
    assert table.drop_columns(["embedding"]).equals(by_id(dataset))
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 48)
    expected = FastEncoder(tiny_export).encode(TEXTS)
    assert np.abs(vectors(table) - expected).max() <= CLOSE


def test_the_options_reach_the_encoder(tiny_export: Path):
    dataset = ray.data.from_items([{"id": i, "body": text} for i, text in enumerate(TEXTS[:40])])
    options = {"pooling": "cls", "max_seq_length": 8}
    result = encode_dataset(
        dataset,
        str(tiny_export / "model.onnx"),
        column="body",
        concurrency=(1, 2),
        normalize_embeddings=True,
        **options,
    )
    expected = FastEncoder(tiny_export, **options).encode(TEXTS[:40], normalize_embeddings=True)
    assert np.abs(vectors(by_id(result)) - expected).max() <= CLOSE


def test_a_worker_that_is_killed_loses_nothing(tiny_export: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(distributed, "_Embedder", mortal.MortalEmbedder)
    mark = tmp_path / "died"
    texts = [*TEXTS[:150], last_words(mark), *TEXTS[150:]]
    table = by_id(encode_dataset(make_dataset(texts), tiny_export, concurrency=2, batch_size=32))
    assert mark.exists()
    assert table["text"].to_pylist() == texts
    assert np.abs(vectors(table) - FastEncoder(tiny_export).encode(texts)).max() <= CLOSE


def test_a_model_that_the_workers_do_not_have_is_sent(tiny_export: Path, tmp_path: Path):
    export, cache = tmp_path / "export", tmp_path / "cache"
    shutil.copytree(tiny_export, export)
    result = encode_dataset(make_dataset(TEXTS[:50]), export, concurrency=2, batch_size=8, cache_dir=cache)
    export.rename(tmp_path / "gone")
    assert np.abs(vectors(by_id(result)) - FastEncoder(tiny_export).encode(TEXTS[:50])).max() <= CLOSE
    (folder,) = cache.iterdir()
    assert "model_embedding.onnx" in {path.name for path in folder.iterdir()}
    assert not list(folder.glob(".*"))


def test_a_model_that_is_neither_there_nor_sent_says_so(tiny_export: Path, tmp_path: Path):
    export = tmp_path / "export"
    shutil.copytree(tiny_export, export)
    result = encode_dataset(make_dataset(TEXTS[:50]), export, concurrency=1, ship_model=False)
    export.rename(tmp_path / "gone")
    with pytest.raises(
        RayTaskError, match=rf"ModelNotFoundError: Node '.+' needs the export {export}.*ship_model=True"
    ):
        result.materialize()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"column": "body"}, OptionError, "column must be one of id, text, tags, when; got 'body'"),
        ({"embedding_column": "tags"}, OptionError, "'tags' is already there.*drop_columns"),
        ({"model": "/no/such/export"}, ModelNotFoundError, "neither an export directory nor"),
        ({"model": "here"}, ExportDirectoryError, "no export directory"),
        ({"pooling": "sum"}, OptionError, "pooling must be one of"),
        ({"precision": "int8"}, OptionError, "precision must be one of fp32"),
        ({"providers": "gpu"}, OptionError, "providers must be one of cpu, cuda"),
        ({"providers": "auto"}, OptionError, "providers must be one of cpu, cuda"),
        ({"revision": "main"}, OptionError, "is for a model of the hub"),
        ({"num_gpus": 1}, ClusterError, "1 GPU each; the Ray cluster has 0 GPU"),
        ({"concurrency": 3}, ClusterError, "3 worker.* 1 CPU each; the Ray cluster has 2 CPU"),
        ({"concurrency": (2, 1)}, OptionError, "concurrency must be"),
        ({"concurrency": 0}, OptionError, "concurrency must be"),
        ({"num_cpus": 0}, OptionError, "num_cpus must be above 0"),
        ({"batch_size": 0}, OptionError, "batch_size must be"),
    ],
    ids=lambda value: str(next(iter(value.items()))) if isinstance(value, dict) else "",
)
def test_what_cannot_be_done_is_refused_on_the_driver(
    tiny_export: Path, tmp_path: Path, monkeypatch, options, error, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(error, match=words):
        encode_dataset(make_dataset(TEXTS[:3]), **{"model": tiny_export, **options})


def test_a_cpu_is_left_to_what_reads(tiny_export: Path, tmp_path: Path):
    """Ray would wait for ever: the workers for their input, its reader for a CPU."""
    make_dataset(TEXTS[:9]).write_parquet(str(tmp_path))
    dataset = ray.data.read_parquet(str(tmp_path))
    with pytest.raises(ClusterError, match=r"2 worker.* and 1 for what reads the dataset; the Ray cluster has 2 CPU"):
        encode_dataset(dataset, tiny_export, concurrency=2)
    assert by_id(encode_dataset(dataset, tiny_export, concurrency=2, num_cpus=0.5)).num_rows == 9


def test_another_dataset_is_refused(tiny_export: Path):
    with pytest.raises(OptionError, match=r"must be a ray\.data\.Dataset; got list.*from_items"):
        encode_dataset(TEXTS, tiny_export)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (None, {}, r"TextTypeError: column 'text' must hold a string in every row; row 2 \(id 14\) .* has null"),
        ("c", {"providers": "cuda"}, "ProviderError: 'cuda' .* was asked for and cannot run"),
        ("c", {"providers": "cuda", "column": "id"}, r"TextTypeError: .* row 0 \(id 0\) .* has int 0"),
    ],
    ids=["null", "no CUDA", "numbers"],
)
def test_what_a_worker_refuses_reaches_the_driver(tiny_export: Path, text, options, words):
    with pytest.raises(RayTaskError, match=words):
        encode_dataset(make_dataset(["a", "b", text], 1), tiny_export, concurrency=1, **options).materialize()


def test_encoders_that_are_killed_start_again(tiny_export: Path, tmp_path: Path):
    expected = FastEncoder(tiny_export).encode(TEXTS)
    with RayEncoders(tiny_export, concurrency=2, encode=encode) as encoders:
        futures = [encoders.submit(TEXTS[start : start + 50], scale=1.0) for start in range(0, 300, 50)]
        killer = encoders.submit(["one", last_words(tmp_path / "died")], 2.0)
        found = np.concatenate([future.result(timeout=60) for future in futures])
        assert np.abs(found - expected).max() <= CLOSE
        assert killer.result(timeout=60).shape == (2, 48)
        assert (tmp_path / "died").exists()


def test_an_error_of_encoding_is_raised_with_its_type_and_once(tiny_export: Path, tmp_path: Path):
    encoders = RayEncoders(tiny_export, concurrency=1, encode=refuse)
    with pytest.raises(NonFiniteError, match="row 3 has NaN") as raised:
        encoders.submit(["text"], tmp_path / "calls").result(timeout=60)
    assert raised.value.cause.rows == [3]
    assert (tmp_path / "calls").read_text() == "called\n"
    encoders.close()
    with pytest.raises(EncoderClosedError):
        encoders.submit(["text"], tmp_path / "calls")
    with pytest.raises(ClusterError, match="3 worker"):
        RayEncoders(tiny_export, concurrency=3)


def _connected(address: str | None, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `connect` does in a process that has no Ray yet; it prints the address of the cluster."""
    code = (
        f"import ray\nfrom ditto_fast.ray_actors import connect\nconnect({address!r})\n"
        "print(ray.get_runtime_context().gcs_address)"
    )
    command, environment = [sys.executable, "-c", code], {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)


def test_an_address_is_that_of_a_cluster_or_refused_soon():
    head = ray.get_runtime_context().gcs_address
    assert _connected(head).stdout == f"{head}\n"
    assert _connected(None, RAY_ADDRESS=head).stdout == f"{head}\n"
    with socket.socket() as free, HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as web:
        free.bind(("127.0.0.1", 0))
        threading.Thread(target=web.serve_forever, daemon=True).start()
        nobody, dashboard = (f"127.0.0.1:{port}" for port in (free.getsockname()[1], web.server_port))
        started = time.monotonic()
        for address, why in ((nobody, "refused"), (dashboard, "a server that is not Ray's"), ("head", "host:port")):
            refusal = _connected(address).stderr.splitlines()[-1]
            assert f"ClusterError: No Ray cluster could be reached at '{address}'" in refusal
            assert why in refusal
        assert time.monotonic() - started < 25
        web.shutdown()


def _left(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    return psutil.wait_procs(processes, timeout=seconds)[1]


def test_an_interrupt_leaves_no_process(tiny_export: Path, tmp_path: Path):
    code = (
        "import pathlib, time\nfrom ditto_fast.ray_actors import RayEncoders, connect\nconnect()\n"
        f"encoders = RayEncoders({str(tiny_export)!r}, concurrency=1)\n"
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\n"
        "while True: encoders.submit(['text'] * 1000).result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        _wait_for((tmp_path / "ready").exists)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=30)
    assert len(children) > 3  # Ray's own, and the actor
    assert "KeyboardInterrupt" in printed
    assert not _left(children, 20)


def _wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_connecting_again_changes_nothing():
    connect()
    connect("127.0.0.1:1")
    assert ray.cluster_resources()["CPU"] == 2


def test_the_package_imports_without_ray():
    code = "import sys, ditto_fast, ditto_fast.distributed; print({'ray', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
    code = (
        "import sys\nsys.modules['ray'] = None\nfrom ditto_fast.distributed import encode_dataset\n"
        "try: encode_dataset(None, 'x')\nexcept ImportError as error: print(type(error).__name__, error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert printed.startswith("MissingDependencyError")
    assert "ditto-fast[cpu,ray]" in printed
