"""encode_dataset on a real local Ray with two workers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mortal import last_words

from ditto_fast import FastEncoder
from ditto_fast.errors import (
    ClusterError,
    ExportDirectoryError,
    ModelNotFoundError,
    OptionError,
)

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'ditto-fast[ray]'")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ditto-fast[ray]'")

import mortal  # noqa: E402
from ray.exceptions import RayTaskError  # noqa: E402

from ditto_fast import distributed  # noqa: E402
from ditto_fast.distributed import encode_dataset  # noqa: E402

pytestmark = pytest.mark.usefixtures("local_ray", "no_actor_left")
TEXTS = [f"{'word ' * (i % 23)}number {i}" for i in range(300)]
CLOSE = 1e-6  # measured: 5e-7, of values up to 2; a batch's padding moves the last digits


def make_dataset(texts: list[Any], blocks: int = 6) -> Any:
    rows = [
        {"id": 7 * i, "text": text, "tags": [i, i + 1], "when": None if i % 2 else 0.5} for i, text in enumerate(texts)
    ]
    return ray.data.from_items(rows, override_num_blocks=min(blocks, len(rows)))


def by_id(dataset: Any) -> pa.Table:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs())).sort_by("id")


def vectors(table: pa.Table) -> np.ndarray:
    return np.array(table["embedding"].to_pylist(), np.float32)


def test_two_workers_give_what_one_process_gives(tiny_export: Path):
    dataset = make_dataset(TEXTS)
    table = by_id(encode_dataset(dataset, tiny_export, concurrency=2, batch_size=32))
    assert table.drop_columns(["embedding"]).equals(by_id(dataset))
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 48)
    expected = FastEncoder(tiny_export).encode(TEXTS)
    assert np.abs(vectors(table) - expected).max() <= CLOSE


def test_the_options_reach_the_encoder(tiny_export: Path):
    dataset = ray.data.from_items([{"id": i, "body": text} for i, text in enumerate(TEXTS[:40])])
    options = {"pooling": "cls", "max_seq_length": 8}
    result = encode_dataset(
        dataset,
        str(tiny_export / "model.onnx"),
        column="body",
        concurrency=(1, 2),
        normalize_embeddings=True,
        **options,
    )
    expected = FastEncoder(tiny_export, **options).encode(TEXTS[:40], normalize_embeddings=True)
    assert np.abs(vectors(by_id(result)) - expected).max() <= CLOSE


def test_a_worker_that_is_killed_loses_nothing(tiny_export: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(distributed, "_Embedder", mortal.MortalEmbedder)
    mark = tmp_path / "died"
    texts = [*TEXTS[:150], last_words(mark), *TEXTS[150:]]
    table = by_id(encode_dataset(make_dataset(texts), tiny_export, concurrency=2, batch_size=32))
    assert mark.exists()
    assert table["text"].to_pylist() == texts
    assert np.abs(vectors(table) - FastEncoder(tiny_export).encode(texts)).max() <= CLOSE


def test_a_model_that_the_workers_do_not_have_is_sent(tiny_export: Path, tmp_path: Path):
    export, cache = tmp_path / "export", tmp_path / "cache"
    shutil.copytree(tiny_export, export)
    result = encode_dataset(make_dataset(TEXTS[:50]), export, concurrency=2, batch_size=8, cache_dir=cache)
    export.rename(tmp_path / "gone")
    assert np.abs(vectors(by_id(result)) - FastEncoder(tiny_export).encode(TEXTS[:50])).max() <= CLOSE
    (folder,) = cache.iterdir()
    assert "model_embedding.onnx" in {path.name for path in folder.iterdir()}
    assert not list(folder.glob(".*"))


def test_a_model_that_is_neither_there_nor_sent_says_so(tiny_export: Path, tmp_path: Path):
    export = tmp_path / "export"
    shutil.copytree(tiny_export, export)
    result = encode_dataset(make_dataset(TEXTS[:50]), export, concurrency=1, ship_model=False)
    export.rename(tmp_path / "gone")
    with pytest.raises(
        RayTaskError, match=rf"ModelNotFoundError: Node '.+' needs the export {export}.*ship_model=True"
    ):
        result.materialize()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"column": "body"}, OptionError, "column must be one of id, text, tags, when; got 'body'"),
        ({"embedding_column": "tags"}, OptionError, "'tags' is already there.*drop_columns"),
        ({"model": "/no/such/export"}, ModelNotFoundError, "neither an export directory nor"),
        ({"model": "here"}, ExportDirectoryError, "no export directory"),
        ({"pooling": "sum"}, OptionError, "pooling must be one of"),
        ({"precision": "int8"}, OptionError, "precision must be one of fp32"),
        ({"providers": "gpu"}, OptionError, "providers must be one of cpu, cuda"),
        ({"providers": "auto"}, OptionError, "providers must be one of cpu, cuda"),
        ({"revision": "main"}, OptionError, "is for a model of the hub"),
        ({"num_gpus": 1}, ClusterError, "1 GPU each; the Ray cluster has 0 GPU"),
        ({"concurrency": 3}, ClusterError, "3 worker.* 1 CPU each; the Ray cluster has 2 CPU"),
        ({"concurrency": (2, 1)}, OptionError, "concurrency must be"),
        ({"concurrency": 0}, OptionError, "concurrency must be"),
        ({"num_cpus": 0}, OptionError, "num_cpus must be above 0"),
        ({"batch_size": 0}, OptionError, "batch_size must be"),
    ],
    ids=lambda value: str(next(iter(value.items()))) if isinstance(value, dict) else "",
)
def test_what_cannot_be_done_is_refused_on_the_driver(
    tiny_export: Path, tmp_path: Path, monkeypatch, options, error, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(error, match=words):
        encode_dataset(make_dataset(TEXTS[:3]), **{"model": tiny_export, **options})


def test_a_cpu_is_left_to_what_reads(tiny_export: Path, tmp_path: Path):
    """Ray would wait for ever: the workers for their input, its reader for a CPU."""
    make_dataset(TEXTS[:9]).write_parquet(str(tmp_path))
    dataset = ray.data.read_parquet(str(tmp_path))
    with pytest.raises(ClusterError, match=r"2 worker.* and 1 for what reads the dataset; the Ray cluster has 2 CPU"):
        encode_dataset(dataset, tiny_export, concurrency=2)
    assert by_id(encode_dataset(dataset, tiny_export, concurrency=2, num_cpus=0.5)).num_rows == 9


def test_another_dataset_is_refused(tiny_export: Path):
    with pytest.raises(OptionError, match=r"must be a ray\.data\.Dataset; got list.*from_items"):
        encode_dataset(TEXTS, tiny_export)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (None, {}, r"TextTypeError: column 'text' must hold a string in every row; row 2 \(id 14\) .* has null"),
        (
            "c",
            {"providers": "openvino"},
            "ProviderError: 'openvino' .* was asked for and cannot run",
        ),
        (
            "c",
            {"providers": "openvino", "column": "id"},
            r"TextTypeError: .* row 0 \(id 0\) .* has int 0",
        ),
    ],
    ids=["null", "no such device", "numbers"],
)
def test_what_a_worker_refuses_reaches_the_driver(tiny_export: Path, text, options, words):
    with pytest.raises(RayTaskError, match=words):
        encode_dataset(make_dataset(["a", "b", text], 1), tiny_export, concurrency=1, **options).materialize()


def test_the_package_imports_without_ray():
    code = "import sys, ditto_fast, ditto_fast.distributed; print({'ray', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
    code = (
        "import sys\nsys.modules['ray'] = None\nfrom ditto_fast.distributed import encode_dataset\n"
        "try: encode_dataset(None, 'x')\nexcept ImportError as error: print(type(error).__name__, error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert printed.startswith("MissingDependencyError")
    assert "ditto-fast[cpu,ray]" in printed
