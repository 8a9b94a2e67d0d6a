"""ditto-encode and ditto-search as installed: pipes, kills, full disks, and what they print."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from pyarrow import parquet

from ditto_fast import FastEncoder
from ditto_fast.tolerances import TOLERANCES

Command = Callable[..., "subprocess.CompletedProcess[str]"]
ENCODE = str(Path(sys.executable).parent / "ditto-encode")
ROWS = 3000


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"Row {i} of the corpus{' and on' * (i % 11)}.\n" for i in range(ROWS)))
    return path


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def test_a_folder_and_its_summary(corpus: Path, tiny_export: Path, command: Command, tmp_path: Path):
    result = command("ditto-encode", corpus, "--model", tiny_export, "--output", tmp_path / "out", "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["rows"], summary["nulls"], summary["resumed_rows"]) == (ROWS, 0, 0)
    assert summary["tokens"] > ROWS
    assert f"{ROWS:,} rows" in result.stderr
    assert "\r" not in result.stderr  # no bar where nobody looks


def test_quiet_says_nothing(corpus: Path, tiny_export: Path, command: Command, tmp_path: Path):
    result = command("ditto-encode", corpus, "--model", tiny_export, "--output", tmp_path / "out.npy", "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_terminal_sees_progress(corpus: Path, tiny_export: Path, tmp_path: Path):
    import fcntl
    import pty
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    process = subprocess.Popen(
        [ENCODE, str(corpus), "--model", str(tiny_export), "--output", str(tmp_path / "out")], stderr=child
    )
    os.close(child)
    shown = b""
    while chunk := _read(parent):
        shown += chunk
    assert process.wait(60) == 0
    for word in (b"rows/s", b"tokens/s", b"100%", f"{ROWS:,} rows".encode()):
        assert word in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""


def test_stdin(tiny_export: Path, command: Command, tmp_path: Path):
    lines = '{"body": "one", "key": 7}\n{"body": "two", "key": 9}\n'
    arguments = ("-", "--format", "jsonl", "--column", "body", "--id-column", "key", "--model", tiny_export)
    result = command("ditto-encode", *arguments, "--output", tmp_path / "out", input=lines)
    assert result.returncode == 0, result.stderr
    found = parquet.read_table(tmp_path / "out").to_pydict()
    assert found["id"] == [7, 9]
    with FastEncoder(tiny_export) as encoder:
        wanted = encoder.encode(["one", "two"])
    np.testing.assert_allclose(np.array(found["embedding"]), wanted, rtol=0, atol=TOLERANCES["fp32"])


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("missing.txt", "--output", "out"), 1, "missing.txt: no such file"),
        (("bad.txt", "--output", "out"), 1, "bad.txt, row 2: invalid UTF-8 at byte 0. Correct it, or pass --on-error"),
        (("bad.txt", "--output", "out", "--dtype", "int8"), 1, "dtype must be one of float32, float16"),
        (("bad.txt", "--output", "out", "--provider", "NoSuchExecutionProvider"), 1, "cannot run"),
        (("bad.txt", "--output", "out", "--no-such-option"), 2, "No such option"),
        (("bad.txt",), 2, "--output"),
    ],
)
def test_errors_are_one_message(
    arguments: tuple[str, ...], status: int, message: str, tiny_export: Path, command: Command, tmp_path: Path
):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\n")
    result = command("ditto-encode", *arguments, "--model", tiny_export, cwd=tmp_path)
    assert result.returncode == status
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_null_rows_are_counted_and_listed(tiny_export: Path, command: Command, tmp_path: Path):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\n")
    arguments = ("bad.txt", "--output", "out", "--on-error", "null", "--model", tiny_export)
    result = command("ditto-encode", *arguments, cwd=tmp_path)
    assert result.returncode == 0
    assert "1 rows have no embedding" in result.stderr
    assert "bad.txt, row 2: invalid UTF-8" in result.stderr


@pytest.mark.parametrize("name", ["out", "out.npy"])
def test_killed_at_any_moment_it_goes_on(name: str, corpus: Path, tiny_export: Path, command: Command, tmp_path: Path):
    def arguments(output: str) -> list[str]:
        options = ["--shard-rows", "100", "--num-threads", "1", "--quiet"]
        return [str(corpus), "--model", str(tiny_export), "--output", str(tmp_path / output), *options]

    assert command("ditto-encode", *arguments("whole")).returncode == 0
    folder = tmp_path / (name if name == "out" else f"{name}.shards")
    moments = random.Random(0)
    done = []
    for _ in range(5):
        process = subprocess.Popen([ENCODE, *arguments(name)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wanted = (done[-1] if done else 0) + moments.randrange(5)
        while process.poll() is None and len(list(folder.glob("part-*"))) < wanted:
            time.sleep(0.001)
        time.sleep(moments.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done.append(len(list(folder.glob("part-*"))))
    assert done == sorted(done)
    result = command("ditto-encode", *arguments(name), "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["resumed_rows"] == 100 * done[-1]
    if name == "out":
        assert shards(folder) == shards(tmp_path / "whole")
    else:
        wanted_rows = parquet.read_table(tmp_path / "whole").column("embedding").to_pylist()
        np.testing.assert_array_equal(np.load(tmp_path / name), np.array(wanted_rows, np.float32))
        assert not folder.exists()


def test_an_interrupt_ends_it_at_once_and_leaves_no_process(tiny_export: Path, corpus: Path, tmp_path: Path):
    import psutil

    before = set(psutil.process_iter())
    process = subprocess.Popen(
        [ENCODE, corpus, "--model", tiny_export, "--output", tmp_path / "out", "--workers", "2", "--shard-rows", "50"],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not list((tmp_path / "out").glob("part-*")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, shown = process.communicate(timeout=20)
    assert process.returncode != 0
    assert b"Traceback" not in shown
    left = [other for other in set(psutil.process_iter()) - before if _is_ours(other)]
    assert left == []


def _is_ours(process: object) -> bool:
    import psutil

    try:
        return process.status() != psutil.STATUS_ZOMBIE and "ditto-encode" in " ".join(process.cmdline())  # type: ignore[attr-defined]
    except psutil.NoSuchProcess:
        return False


def test_an_interrupt_while_stdin_waits(tiny_export: Path, tmp_path: Path):
    process = subprocess.Popen(
        [ENCODE, "-", "--model", tiny_export, "--output", tmp_path / "out", "--shard-rows", "2"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\nthree\n")
    process.stdin.flush()
    while not list((tmp_path / "out").glob("part-*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) > 0  # its own exit, no signal's: a thread that waits for stdin must not abort it
    assert process.stderr is not None
    assert b"Fatal" not in process.stderr.read()


def test_a_full_disk_leaves_finished_shards_whole(tiny_export: Path, tmp_path: Path):
    noise = random.Random(0)
    long = "".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(100_000))  # does not compress
    lines = [f"row {i}" for i in range(10)] + [long]
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    arguments = ["corpus.txt", "--model", str(tiny_export), "--output", "out", "--shard-rows", "10", "--keep-text"]

    def encode(limit: int) -> subprocess.CompletedProcess[str]:
        def small_disk() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        return subprocess.run(
            [ENCODE, *arguments], cwd=tmp_path, preexec_fn=small_disk, capture_output=True, text=True, timeout=60
        )

    failed = encode(100_000)
    assert failed.returncode == 1
    message = " ".join(failed.stderr.split())
    assert "part-000001.parquet could not be written" in message
    assert "The 1 shards before it are whole" in message
    assert [path.name for path in (tmp_path / "out").iterdir() if "part" in path.name] == ["part-000000.parquet"]
    before = shards(tmp_path / "out")
    assert encode(resource.RLIM_INFINITY).returncode == 0
    assert parquet.read_table(tmp_path / "out").column("text").to_pylist() == lines
    assert before.items() <= shards(tmp_path / "out").items()


def test_a_full_disk_while_the_single_file_is_written(corpus: Path, tiny_export: Path, tmp_path: Path):
    arguments = [ENCODE, corpus, "--model", tiny_export, "--output", tmp_path / "out.npy", "--shard-rows", "100"]

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

    failed = subprocess.run(arguments, preexec_fn=small_disk, capture_output=True, text=True, timeout=60)
    assert failed.returncode == 1
    assert "out.npy could not be written" in " ".join(failed.stderr.split())
    assert not (tmp_path / "out.npy").exists()
    again = subprocess.run([*arguments, "--json"], capture_output=True, text=True, timeout=60)
    assert json.loads(again.stdout)["resumed_rows"] == ROWS
    assert np.load(tmp_path / "out.npy").shape[0] == ROWS


def test_search_finds_what_cosine_finds(tiny_export: Path, corpus: Path, command: Command, tmp_path: Path):
    options = ("--model", tiny_export, "--truncate-dim", "12", "--keep-text", "--shard-rows", "700")
    assert command("ditto-encode", corpus, "--output", tmp_path / "out", *options).returncode == 0
    queries = ("Row 5 of the corpus", "something else")
    result = command("ditto-search", *queries, "--index", tmp_path / "out", "--model", tiny_export, "-k", "5", "--json")
    assert result.returncode == 0, result.stderr
    texts = corpus.read_text().splitlines()
    with FastEncoder(tiny_export) as encoder:
        vectors = encoder.encode(texts, truncate_dim=12, normalize_embeddings=True).astype(np.float64)
        wanted = encoder.encode(queries, truncate_dim=12, normalize_embeddings=True).astype(np.float64)
    for query, cosines, line in zip(queries, wanted @ vectors.T, result.stdout.splitlines(), strict=True):
        found = json.loads(line)
        assert found["query"] == query
        scores = [hit["score"] for hit in found["hits"]]
        np.testing.assert_allclose(scores, np.sort(cosines)[::-1][:5], rtol=0, atol=TOLERANCES["fp32"])
        np.testing.assert_allclose(scores, [cosines[hit["row"]] for hit in found["hits"]], rtol=0, atol=1e-5)
        assert [texts[hit["row"]] for hit in found["hits"]] == [hit["text"] for hit in found["hits"]]
    shown = command("ditto-search", "Row 5", "--index", tmp_path / "out", "--model", tiny_export)
    assert "cosine" in shown.stdout
    assert shown.stdout.count("Row") >= 10


def test_search_prints_brackets_as_they_are(tiny_export: Path, command: Command, tmp_path: Path):
    (tmp_path / "corpus.txt").write_text("Paris [citation needed] is large\nhi [/INST] there\n")
    options = ("--model", tiny_export, "--keep-text")
    assert command("ditto-encode", tmp_path / "corpus.txt", "--output", tmp_path / "out", *options).returncode == 0
    found = command("ditto-search", "[bold]x[/]", "--index", tmp_path / "out", "--model", tiny_export)
    assert found.returncode == 0, found.stderr
    for text in ("Paris [citation needed] is large", "hi [/INST] there", "[bold]x[/]"):
        assert text in found.stdout


def test_search_refuses_another_model(
    tiny_export: Path, minilm_export: Path, corpus: Path, command: Command, tmp_path: Path
):
    assert command("ditto-encode", corpus, "--output", tmp_path / "out", "--model", tiny_export).returncode == 0
    other = command("ditto-search", "text", "--index", tmp_path / "out", "--model", minilm_export)
    assert other.returncode == 1
    assert "manifest_sha256" in other.stderr
    nothing = command("ditto-search", "text", "--index", tmp_path, "--model", tiny_export)
    assert nothing.returncode == 1
    assert "name the folder that ditto-encode wrote" in " ".join(nothing.stderr.split())
