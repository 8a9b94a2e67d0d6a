"""A local folder needs no network, and encoding needs nothing to write to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ditto_fast.export import export_model

# An audit hook sees every attempt, also those that a library would make and swallow the failure of.
_WATCH = """
import os, sys
seen = []
def watch(event, args):
    if event in {events!r} and ({event_test}):
        seen.append((event, args))
        raise OSError(f"blocked: {{event}} {{args}}")
sys.addaudithook(watch)
{code}
print(seen)
"""
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
_WRITING = ("open", "os.mkdir", "os.rename", "os.remove", "os.chmod", "os.symlink")
_WRITES = "event != 'open' or (args[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)"


def _run(code: str, events: tuple[str, ...], event_test: str, **variables: str) -> str:
    program = _WATCH.format(code=code, events=events, event_test=event_test)
    blocked = ("HF_", "TRANSFORMERS_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(blocked)}
    result = subprocess.run(
        [sys.executable, "-B", "-c", program], env={**environment, **variables}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1]


def test_the_watch_sees_what_a_library_swallows(tmp_path: Path):
    swallow = "import contextlib, socket\nwith contextlib.suppress(OSError): "
    assert "socket.getaddrinfo" in _run(f"{swallow}socket.create_connection(('127.0.0.1', 9))", _NETWORK, "True")
    assert "'open'" in _run(f"{swallow}open({str(tmp_path / 'file')!r}, 'w')", _WRITING, _WRITES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_local_folder_is_exported_and_encoded_without_any_network_call(checkpoint, tmp_path: Path, family: str):
    code = (
        "from ditto_fast import FastEncoder; from ditto_fast.export import export_model\n"
        f"export_model({str(checkpoint(family))!r}, '1-1', {str(tmp_path / 'out')!r})\n"
        f"FastEncoder.from_pretrained({str(tmp_path / 'out')!r}).encode(['Rain.'])"
    )
    assert _run(code, _NETWORK, "True", HF_HOME=str(tmp_path / "home")) == "[]"


def test_encoding_writes_nothing(tiny_export: Path):
    """As in a container whose file system is read-only and whose HOME does not exist."""
    code = f"from ditto_fast import FastEncoder\nFastEncoder({str(tiny_export)!r}).encode(['Rain.', 'Snow.'])"
    assert _run(code, _WRITING, _WRITES, HOME="/nonexistent") == "[]"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_output_is_refused_before_the_long_work(checkpoint, tmp_path: Path):
    tmp_path.chmod(0o555)
    steps: list[str] = []
    with pytest.raises(PermissionError, match=str(tmp_path)):
        export_model(checkpoint("bert"), "1-1", tmp_path / "out", progress=steps.append)
    assert steps == []
    tmp_path.chmod(0o755)
