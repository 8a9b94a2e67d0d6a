"""RayEncoders and connect on a real local Ray: what is killed, refused, interrupted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import psutil
import pytest
from mortal import encode, last_words, refuse

from ditto_fast import FastEncoder
from ditto_fast.errors import ClusterError, EncoderClosedError, NonFiniteError
from ditto_fast.ray_actors import RayEncoders, connect

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ditto-fast[ray]'")
pytestmark = pytest.mark.usefixtures("local_ray", "no_actor_left")
TEXTS = [f"{'word ' * (i % 23)}number {i}" for i in range(300)]
CLOSE = 1e-6  # as in test_distributed.py


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
