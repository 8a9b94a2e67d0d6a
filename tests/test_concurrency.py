"""One encoder, many threads and processes: same vectors, no hang, nothing left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from torch.utils.data import DataLoader

from ditto_fast import FastEncoder, forks
from ditto_fast.batches import CPU_RULE
from ditto_fast.errors import ExportDirectoryError, OptionError, WorkerError
from ditto_fast.tolerances import within
from ditto_fast.workers import WorkerPool

TEXTS = [f"{'word ' * (i % 9)}number {i}" for i in range(60)]


@pytest.fixture(scope="module")
def encoder(tiny_export: Path) -> FastEncoder:
    return FastEncoder(tiny_export)


def _workers(before: set[psutil.Process]) -> list[psutil.Process]:
    """Spawned processes that were not there before; the resource tracker of multiprocessing is none."""
    children = set(psutil.Process().children(recursive=True)) - before
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def test_many_threads_share_one_encoder(encoder: FastEncoder):
    expected = encoder.encode(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda size: encoder.encode(TEXTS, batch_size=size), [1, 2, 3, 5, 8, 13, 21, 34] * 2):
            assert within(vectors, expected)


def test_pickled_it_is_the_same_encoder(tiny_export: Path, encoder: FastEncoder):
    original = FastEncoder(tiny_export, pooling="cls", max_seq_length=16, num_threads=1)
    copy = pickle.loads(pickle.dumps(original))
    assert repr(copy) == repr(original)
    assert copy.max_seq_length == 16
    assert within(copy.encode(TEXTS), original.encode(TEXTS))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_a_child_process_gives_the_same_vectors(tiny_export: Path, method: str, used: bool):
    encoder = FastEncoder(tiny_export)
    expected = FastEncoder(tiny_export).encode(TEXTS)
    if used:
        encoder.encode(TEXTS)
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        assert within(pool.submit(encoder.encode, TEXTS).result(timeout=60), expected)


def test_a_forked_child_that_drops_the_encoder_ends(tiny_export: Path):
    """Destroying an inherited session can hang; and no warning of the tokenizer's about forks."""
    code = (
        "import os, sys\nfrom ditto_fast import FastEncoder\n"
        f"encoder = FastEncoder({str(tiny_export)!r})\nencoder.encode(['a', 'b c'])\n"
        "child = os.fork()\n"
        "if child == 0:\n    encoder.encode('a')\n    del encoder\n    sys.exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\nencoder.encode('a')\n"
    )
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_in_a_dataloader_worker(encoder: FastEncoder):
    loader = DataLoader(TEXTS, batch_size=20, num_workers=1, collate_fn=encoder.encode, multiprocessing_context="fork")
    assert within(np.concatenate(list(loader)), encoder.encode(TEXTS))


def test_workers_give_the_same_vectors_and_leave_with_the_encoder(tiny_export: Path, encoder: FastEncoder):
    before = set(psutil.Process().children(recursive=True))
    with FastEncoder(tiny_export, num_workers=2) as many:
        assert set(psutil.Process().children(recursive=True)) == before  # lazily
        texts = [f"{text} {i}" for text in TEXTS for i in range(20)]
        assert within(many.encode(texts), encoder.encode(texts))
    time.sleep(0.2)
    assert not {
        p for p in set(psutil.Process().children(recursive=True)) - before if "spawn_main" in " ".join(p.cmdline())
    }


def test_a_short_list_gives_every_worker_texts_of_every_length():
    pool = WorkerPool({}, 3, {})  # no process starts before the first text
    order = list(range(8))
    assert pool._shares(order, CPU_RULE) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert pool._shares([0], CPU_RULE) == [[0]]
    assert pool._shares(order, replace(CPU_RULE, spread=False)) == [order]
    pool.close()


def test_a_killed_worker_is_an_error_not_a_hang(tiny_export: Path):
    before = set(psutil.Process().children())
    with FastEncoder(tiny_export, num_workers=1) as encoder:
        encoder.encode(TEXTS)
        workers = _workers(before)
        assert workers
        for worker in workers:
            worker.kill()
        with pytest.raises(WorkerError, match="died"):
            encoder.encode(TEXTS)
        assert encoder.encode("a").shape == (48,)  # one text needs no worker
        assert encoder.encode(TEXTS).shape == (len(TEXTS), 48)  # others have been started


def test_a_script_without_the_guard_is_told_of_it(tiny_export: Path, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        f"from ditto_fast import FastEncoder\nFastEncoder({str(tiny_export)!r}, num_workers=1).encode(['a', 'b'])\n"
    )
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert "WorkerError: A worker process died before it gave anything" in last
    assert "if __name__ == '__main__':" in last


def test_what_no_other_process_can_be_given_is_named(tiny_export: Path):
    with pytest.raises(OptionError, match=r"sends session_options to other processes.*at the top of a module"):
        FastEncoder(tiny_export, num_workers=1, session_options=lambda _: None)


def test_workers_can_be_stopped_and_start_again(tiny_export: Path):
    before = set(psutil.Process().children())
    with FastEncoder(tiny_export, num_workers=1) as encoder:
        encoder.encode(TEXTS)
        encoder.stop_workers()
        assert not _workers(before)
        assert encoder.encode(TEXTS).shape == (len(TEXTS), 48)


def test_a_forked_child_leaves_its_parents_workers_alone(tiny_export: Path):
    code = (
        "import os, sys\nfrom ditto_fast import FastEncoder\n"
        "if __name__ == '__main__':\n"
        f"    encoder = FastEncoder({str(tiny_export)!r}, num_workers=1)\n"
        "    expected = encoder.encode(['a', 'b c'])\n"
        "    pool = encoder._open()._pool\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        ok = (encoder.encode(['a', 'b c']) == expected).all()\n"
        "        encoder.close()\n        sys.exit(0 if ok else 3)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    assert (encoder.encode(['a', 'b c']) == expected).all()\n"
        "    assert encoder._open()._pool is pool\n    encoder.close()\n"
    )
    script = tiny_export.parent / "forks.py"
    script.write_text(code)
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr


def test_a_lock_of_another_thread_is_not_inherited(tiny_export: Path):
    encoder = FastEncoder(tiny_export, num_threads=2)
    encoder.encode("a")
    encoder.encode("a")
    wide, runner = encoder._open()._wide, encoder._open().runner
    with wide.lock, runner._lock, encoder._open()._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if encoder.encode("a").shape == (48,) and wide.lock.acquire(timeout=1) else 3)
        assert os.waitpid(child, 0)[1] == 0


def test_in_a_dataloader_worker_it_starts_no_workers_of_its_own(tiny_export: Path, encoder: FastEncoder):
    many = FastEncoder(tiny_export, num_workers=2)
    loader = DataLoader(TEXTS, batch_size=20, num_workers=1, collate_fn=many.encode, multiprocessing_context="fork")
    assert within(np.concatenate(list(loader)), encoder.encode(TEXTS))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_that_used_workers_ends(tiny_export: Path, method: str):
    """Multiprocessing waits there for the processes that the child has started, before anything else ends them."""
    encoder = FastEncoder(tiny_export, num_threads=1, num_workers=1)
    child = multiprocessing.get_context(method).Process(target=encoder.encode, args=(TEXTS,))
    child.start()
    child.join(60)
    ended = child.exitcode
    child.kill()
    assert ended == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_a_thread_encodes_after_the_main_one_has_ended(tiny_export: Path, tmp_path: Path, workers: int):
    """Python starts no more threads then, of an atexit hook neither."""
    script = tmp_path / "consumer.py"
    script.write_text(
        "import atexit, threading\nfrom ditto_fast import FastEncoder\n"
        "if __name__ == '__main__':\n"
        f"    encoder = FastEncoder({str(tiny_export)!r}, num_threads=2, num_workers={workers})\n"
        "    def work():\n        print(encoder.encode(['a', 'b c']).shape)\n"
        "    def later():\n        threading.main_thread().join()\n        work()\n"
        "    atexit.register(work)\n    threading.Thread(target=later).start()\n"
    )
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert result.stdout.split("\n") == ["(2, 48)", "(2, 48)", ""], result.stderr


def test_another_export_in_its_place_is_never_mixed_with_it(tiny_export: Path, tmp_path: Path):
    """What has to be opened once more would be of another model."""
    place = tmp_path / "export"
    shutil.copytree(tiny_export, place)
    encoders = [FastEncoder(place, num_threads=2, num_workers=workers) for workers in (0, 1)]
    first = encoders[0].encode("one text")
    manifest = json.loads((place / "ditto_config.json").read_text())
    manifest["files"]["model.onnx_data"] = "0" * 64
    (place / "ditto_config.json").write_text(json.dumps(manifest))

    assert within(np.stack([encoders[0].encode("one text") for _ in range(3)]), np.stack([first] * 3))
    with pytest.raises(ExportDirectoryError, match="another export"):
        encoders[0].token_weights("one text")
    with pytest.raises(ExportDirectoryError, match="another export"):
        encoders[0].max_seq_length = 8
    with pytest.raises(ExportDirectoryError, match="another export"):
        encoders[1].encode(TEXTS)
    forks._renew()  # as in a forked child
    with pytest.raises(ExportDirectoryError, match="another export"):
        encoders[0].encode(TEXTS)


def test_a_new_length_reaches_the_workers(tiny_export: Path):
    long = ["word " * 30 + end for end in ("a", "b")]
    with FastEncoder(tiny_export, num_workers=1) as many:
        many.encode(long)
        many.max_seq_length = 8
        assert within(many.encode(long), FastEncoder(tiny_export, max_seq_length=8).encode(long))


def test_workers_that_cannot_start_say_why(tiny_export: Path, tmp_path: Path):
    shutil.copytree(tiny_export, tmp_path / "copy")
    with FastEncoder(tmp_path / "copy", num_workers=1) as many:
        shutil.rmtree(tmp_path / "copy")
        with pytest.raises(ExportDirectoryError, match="does not exist"):
            many.encode(TEXTS)


def test_workers_stopped_by_another_thread_are_an_error_that_says_so(tiny_export: Path):
    with FastEncoder(tiny_export, num_workers=1) as many, ThreadPoolExecutor(1) as threads:
        many.encode(TEXTS)
        pool = many._open()._pool
        assert pool is not None
        call = threads.submit(many.encode, [f"text {i}" for i in range(60_000)])
        while not pool._executor._pending_work_items:
            time.sleep(0.001)
        many.stop_workers()
        with pytest.raises(WorkerError, match="stopped while"):
            call.result(timeout=60)
        assert many.encode(TEXTS).shape == (len(TEXTS), 48)


def test_an_interrupt_leaves_no_process_behind(tiny_export: Path, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom ditto_fast import FastEncoder\n"
        "if __name__ == '__main__':\n"
        f"    encoder = FastEncoder({str(tiny_export)!r}, num_workers=2)\n"
        "    encoder.encode(['a', 'b'])\n    print('ready', flush=True)\n"
        "    while True:\n        encoder.encode([f'text {i}' for i in range(2000)])\n"
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_a_killed_parent_takes_its_workers_along(tiny_export: Path, tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import time\nfrom ditto_fast import FastEncoder\n"
        "if __name__ == '__main__':\n"
        f"    encoder = FastEncoder({str(tiny_export)!r}, num_workers=1)\n"
        "    encoder.encode(['a', 'b'])\n    print('ready', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_nothing_is_written_and_the_environment_is_left_alone(tiny_export: Path, tmp_path: Path):
    code = (
        "import os; before = dict(os.environ)\nfrom ditto_fast import FastEncoder\n"
        f"FastEncoder({str(tiny_export)!r}).encode(['a', 'b'])\nassert dict(os.environ) == before\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    stamps = {path: path.stat().st_mtime_ns for path in tiny_export.iterdir()}
    result = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in tiny_export.iterdir()} == stamps
