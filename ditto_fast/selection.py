"""Which graph file of an export serves what a user asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ditto_fast.artifact import PRECISIONS, GraphInfo, Manifest, graph_file, graph_kind, weights_file
from ditto_fast.checks import one_of
from ditto_fast.errors import ExportDirectoryError
from ditto_fast.pooling import POOLINGS
from ditto_fast.session import open_session

# pooling backend -> kind of graph it takes
BACKENDS = {"graph": "embedding", "numpy": "tokens", "triton": "head"}


@dataclass(frozen=True)
class Selection:
    """A graph file, the export it is of, and the pooling to do.

    Args:
        path: The .onnx file.
        manifest: The manifest of its directory.
        pooling: A name of `ditto_fast.pooling.POOLINGS`.
    """

    path: Path
    manifest: Manifest
    pooling: str

    @property
    def info(self) -> GraphInfo:
        """What the manifest says of the file."""
        return self.manifest.graphs[self.path.name]

    def check_unchanged(self) -> None:
        """Passes an export that is still the one that was selected.

        Raises:
            ExportDirectoryError: Another has taken its place.
        """
        check_files(self.directory, Manifest.read(self.directory).files, self.manifest.files)

    @property
    def directory(self) -> Path:
        """The export directory."""
        return self.path.parent


def check_files(directory: Path, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Passes an export whose files have the SHA-256 that they had when it was opened.

    Raises:
        ExportDirectoryError: They have not: vectors of two models would be mixed.
    """
    if found != wanted:
        raise ExportDirectoryError(
            f"{directory} holds another export than the one that this encoder was opened on. Make a new FastEncoder, "
            "and give each export a directory of its own."
        )


def select(path: Path, pooling: str | None, precision: str | None, kind: str | None = None) -> Selection:
    """Chooses the graph file to run.

    Args:
        path: An export directory, or an .onnx file in it, which is then the choice.
        pooling: What to pool, the export's own by default.
        precision: Precision of the graph; by default the first of `PRECISIONS` that the directory holds.
        kind: Kind of graph; by default "embedding" where it exists and does that pooling, else "tokens".

    Raises:
        ExportDirectoryError: The path is no export, lacks a file, or holds no graph that serves.
        OptionError: `pooling` or `precision` is not a valid name.
    """
    if not path.exists():
        raise ExportDirectoryError(f"{path} does not exist. Make it with ditto-export --model MODEL.")
    manifest = _manifest(path)
    if path.is_dir():
        path = path / choose_graph(manifest, pooling, precision, kind)
    if path.name not in manifest.graphs:
        raise ExportDirectoryError(
            f"{path.parent} holds {', '.join(manifest.graphs)}, not {path.name}. "
            "Export again with the --outputs and --precision that you need."
        )
    selection = Selection(path, manifest, manifest.pooling if pooling is None else one_of("pooling", pooling, POOLINGS))
    if precision not in (None, selection.info.precision):
        raise ExportDirectoryError(f"{path} is {selection.info.precision}, not {precision}; name another file.")
    if selection.info.kind == "embedding" and selection.pooling != manifest.pooling:
        raise ExportDirectoryError(
            f"{path} pools {manifest.pooling} inside the graph, so it cannot give {selection.pooling!r}. "
            f"Pass the directory or its {graph_file('tokens', selection.info.precision)}."
        )
    _check_files(selection)
    return selection


def _manifest(path: Path) -> Manifest:
    if path.is_dir():
        return Manifest.read(path)
    try:
        return Manifest.read(path.parent)
    except ExportDirectoryError:  # a graph from elsewhere: its outputs tell more than a missing manifest
        outputs = [output.name for output in open_session(path, "cpu", num_threads=1).get_outputs()]
        graph_kind(outputs, path)
        raise


def choose_graph(
    manifest: Manifest, pooling: str | None = None, precision: str | None = None, kind: str | None = None
) -> str:
    """File of the graph that serves; the arguments are those of `select`."""
    pooling = one_of("pooling", manifest.pooling if pooling is None else pooling, POOLINGS)
    held = {info.precision for info in manifest.graphs.values()}
    present = [name for name in PRECISIONS if name in held]
    chosen = one_of("precision", present[0] if precision is None else precision, present)
    if kind is None:
        embedding = graph_file("embedding", chosen) in manifest.graphs and pooling == manifest.pooling
        kind = "embedding" if embedding else "tokens"
    return graph_file(kind, chosen)


def companions(manifest: Manifest, graph: Path) -> list[str]:
    """What a graph file needs beside it: the JSON files, and its external weights.

    Args:
        manifest: The manifest of its export.
        graph: The .onnx file, which names its weights in plain bytes.

    Returns:
        Names of files of the export directory.
    """
    names = [name for name in manifest.files if "/" not in name]
    weights = [name for name in names if not name.endswith((".json", ".onnx", ".txt"))]
    content = graph.read_bytes() if weights else b""
    return [name for name in names if name.endswith(".json")] + [name for name in weights if name.encode() in content]


def _check_files(selection: Selection) -> None:
    """Names a file that was lost on the way; graphs refer to the file of shared weights by name."""
    weights = weights_file(selection.info.precision)
    needed = [selection.path.name] + [weights] * (weights in selection.manifest.files)
    missing = [name for name in needed if not (selection.directory / name).is_file()]
    if missing:
        raise ExportDirectoryError(
            f"{selection.directory} lacks {', '.join(missing)}, which {selection.path.name} needs: the files of an "
            f"export belong together. {_how_to_complete(selection)}."
        )


def _how_to_complete(selection: Selection) -> str:
    """What brings the files: the hub's cache has only those that were asked for."""
    if selection.directory.parent.name == "snapshots":
        backend = next(name for name, kind in BACKENDS.items() if kind == selection.info.kind)
        return f"FastEncoder.from_pretrained(..., pooling_backend={backend!r}) loads them"
    return "Copy the whole folder, or export again"
