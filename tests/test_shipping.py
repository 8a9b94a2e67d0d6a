"""An export as bytes, on its way to other machines."""

from __future__ import annotations

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ditto_fast import FastEncoder
from ditto_fast.errors import ExportDirectoryError, ModelNotFoundError, NonFiniteError
from ditto_fast.shipping import LocalModel, find_or_unpack, pack, unpack

TEXTS = ["Rain.", "The ferry left the harbour before sunrise."]


@pytest.mark.parametrize("file", ["", "model.onnx", "model_embedding.onnx"], ids=["folder", "tokens", "embedding"])
def test_what_arrives_gives_the_same_vectors(tiny_export: Path, tmp_path: Path, file: str):
    arrived = unpack(pickle.loads(pickle.dumps(pack(tiny_export / file))), tmp_path)
    assert np.array_equal(FastEncoder(arrived).encode(TEXTS), FastEncoder(tiny_export / file).encode(TEXTS))


def test_only_what_the_graph_needs_goes(tiny_export: Path):
    needed = {path.name for path in tiny_export.glob("*.json")} | {"model.onnx_data"}
    assert pack(tiny_export).files.keys() == needed | {"model_embedding.onnx"}
    assert pack(tiny_export, pooling="cls").files.keys() == needed | {"model.onnx"}
    assert pack(tiny_export).content_hash != pack(tiny_export, pooling="cls").content_hash


def test_many_may_unpack_at_once_and_a_torn_folder_is_mended(tiny_export: Path, tmp_path: Path):
    model = pack(tiny_export)
    with ThreadPoolExecutor(8) as pool:
        (folder,) = set(pool.map(lambda _: unpack(model, tmp_path), range(32)))
    names = {path.name for path in folder.iterdir()}
    assert names == model.files.keys()
    (folder / "tokenizer.json").unlink()
    (folder / "model.onnx_data").write_bytes(b"torn")
    kept = (folder / "model_embedding.onnx").stat().st_mtime_ns
    assert FastEncoder(unpack(model, tmp_path)).encode("Rain.").shape == (48,)
    assert (folder / "model_embedding.onnx").stat().st_mtime_ns == kept


def test_the_same_export_at_the_same_path_is_used_in_place(tiny_export: Path, tmp_path: Path):
    def never() -> None:
        raise AssertionError("fetched")

    export = tmp_path / "export"
    shutil.copytree(tiny_export, export)
    model, files = LocalModel.at(export), pack(export)
    assert find_or_unpack(model, never) == export
    manifest = export / "ditto_config.json"
    manifest.write_text(manifest.read_text() + "\n")
    with pytest.raises(ModelNotFoundError, match=f"{export}, as the driver has it, and another export is at that path"):
        find_or_unpack(model, None)
    shutil.rmtree(export)
    with pytest.raises(ModelNotFoundError, match=r"and nothing is at that path.*ship_model=True"):
        find_or_unpack(model, None)
    assert find_or_unpack(model, lambda: files, tmp_path / "cache").parent == tmp_path / "cache"
    (tmp_path / "file").touch()
    with pytest.raises(ModelNotFoundError, match=r"cannot write it.*cache_dir"):
        find_or_unpack(model, lambda: files, tmp_path / "file" / "cache")


def test_an_export_that_lacks_a_file_is_not_sent(tiny_export: Path, tmp_path: Path):
    shutil.copytree(tiny_export, tmp_path / "export")
    (tmp_path / "export" / "tokenizer.json").unlink()
    with pytest.raises(ExportDirectoryError, match=r"lacks tokenizer\.json"):
        pack(tmp_path / "export")
    with pytest.raises(ExportDirectoryError, match="does not exist"):
        pack(tmp_path / "nothing")
    with pytest.raises(ExportDirectoryError, match="is no export"):
        LocalModel.at(tmp_path)


def test_an_error_with_rows_travels_between_processes():
    copy = pickle.loads(pickle.dumps(NonFiniteError("row 3 has NaN", [3])))
    assert (str(copy), copy.rows) == ("row 3 has NaN", [3])
