"""An export on the way to other machines: the files that a graph needs, as bytes, and back into a folder."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256 as new_sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ditto_fast.artifact import MANIFEST_FILE
from ditto_fast.backends import graph_files
from ditto_fast.errors import ExportDirectoryError, ModelNotFoundError
from ditto_fast.files import sha256
from ditto_fast.providers import Providers
from ditto_fast.selection import companions, select

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class LocalModel:
    """An export that the driver sees, to be found again on a worker.

    Args:
        path: Absolute path of the directory, or of an .onnx file in it.
        manifest_hash: SHA-256 of its manifest, which itself holds the hash of each file.
    """

    path: Path
    manifest_hash: str

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> LocalModel:
        """Notes the export at `path`.

        Raises:
            ExportDirectoryError: It has no manifest.
        """
        absolute = Path(path).absolute()
        manifest = _directory(absolute) / MANIFEST_FILE
        if not manifest.is_file():
            raise ExportDirectoryError(
                f"{absolute} is no export: there is no {manifest}. Make one with ditto-export --model MODEL --head L-H."
            )
        return cls(absolute, sha256(manifest))

    def is_here(self) -> bool:
        """Whether this machine has the same export at the same path."""
        manifest = _directory(self.path) / MANIFEST_FILE
        return self.path.exists() and manifest.is_file() and sha256(manifest) == self.manifest_hash


@dataclass(frozen=True)
class ShippedModel:
    """The files of an export that a choice of graph needs.

    Args:
        files: Content of each file by its name; arrays, which Ray's object store shares without a copy.
        graph: The .onnx file to open, where one was named; None opens the directory.
        content_hash: SHA-256 of names and contents: it tells exports apart, and the graphs taken from one.
    """

    files: dict[str, Bytes]
    graph: str | None
    content_hash: str


def pack(
    path: str | os.PathLike[str], pooling: str | None = None, precision: str | None = None, providers: Providers = "cpu"
) -> ShippedModel:
    """Reads what `FastEncoder(path, pooling=pooling, precision=precision, providers=providers)` will need.

    Args:
        path: An export directory, or an .onnx file in it.
        pooling: See `ditto_fast.FastEncoder`.
        precision: See `ditto_fast.FastEncoder`.
        providers: See `ditto_fast.FastEncoder`; for "cuda" the head graph comes too, which the worker
            takes if it has the kernels.

    Raises:
        ExportDirectoryError: The path is no export, lacks a file, or holds no graph that serves.
        OptionError: `pooling` or `precision` is not a valid name.

    Example:
        >>> sorted(name for name in pack("minilm-ditto", pooling="cls").files if not name.endswith(".json"))
        ['model.onnx', 'model.onnx_data']
    """
    source = Path(path)
    selection = select(source, pooling, precision)
    graphs = [selection.path.name]
    if source.suffix != ".onnx":
        graphs = graph_files(selection.manifest, pooling, precision, "auto", providers)
    names = [MANIFEST_FILE, *graphs]
    for graph in graphs:
        names += companions(selection.manifest, selection.directory / graph)
    missing = [name for name in names if not (selection.directory / name).is_file()]
    if missing:
        raise ExportDirectoryError(
            f"{selection.directory} lacks {', '.join(missing)}; copy the whole folder, or export again."
        )
    files = {name: np.fromfile(selection.directory / name, np.uint8) for name in dict.fromkeys(names)}
    return ShippedModel(files, source.name if source.suffix == ".onnx" else None, _hash(files))


def unpack(model: ShippedModel, cache: Path | None = None) -> Path:
    """Writes the files into a folder named by their hash; what is there already stays.

    Several processes may do so at once: each file is written under another name and renamed, and whoever is
    last puts the same content in its place.

    Args:
        model: What `pack` gave.
        cache: Folder for such folders; by default `default_cache()`.

    Returns:
        What to open: the folder, or the .onnx file in it.

    Raises:
        OSError: The folder cannot be written.

    Example:
        >>> import tempfile
        >>> model = pack("minilm-ditto")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (unpack(model, Path(folder)) / "model_embedding.onnx").is_file()
        True
    """
    folder = (default_cache() if cache is None else cache) / model.content_hash[:32]
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in model.files.items():
        path = folder / name
        if not (path.is_file() and path.stat().st_size == content.nbytes):
            _write(path, content)
    return folder if model.graph is None else folder / model.graph


def default_cache() -> Path:
    """Folder of this machine's user for unpacked models: a shared one would trust what others put there."""
    return Path.home() / ".cache" / "ditto_fast" / "models"


def find_or_unpack(model: LocalModel, shipped: Callable[[], ShippedModel] | None, cache: Path | None = None) -> Path:
    """On a worker: the export at its own path, else one that is brought here.

    Args:
        model: The driver's export.
        shipped: Fetches its files; None where they were not sent.
        cache: See `unpack`.

    Returns:
        The path to open.

    Raises:
        ModelNotFoundError: It is neither here nor sent, or cannot be written; the message names the machine.
    """
    if model.is_here():
        return model.path
    if shipped is None:
        found = "another export is" if model.path.exists() else "nothing is"
        raise ModelNotFoundError(
            f"Node {platform.node()!r} needs the export {model.path}, as the driver has it, and {found} at that path. "
            "Put the folder on storage that all nodes mount at one path, or send it with ship_model=True."
        )
    try:
        return unpack(shipped(), cache)
    except OSError as error:
        raise ModelNotFoundError(
            f"Node {platform.node()!r} was sent the export {model.path} and cannot write it ({error}). "
            "Make room there, or name another folder with cache_dir=."
        ) from error


def _hash(files: dict[str, Bytes]) -> str:
    digest = new_sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{content.nbytes}\0".encode())
        digest.update(content.data)
    return digest.hexdigest()


def _write(path: Path, content: Bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _directory(path: Path) -> Path:
    return path.parent if path.suffix == ".onnx" else path
