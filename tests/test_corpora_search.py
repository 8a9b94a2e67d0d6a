"""Exact search: the k best by cosine, over any cut into shards and blocks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pyarrow = pytest.importorskip("pyarrow")

from ditto_fast.corpora.blocks import Block  # noqa: E402
from ditto_fast.corpora.rows import Row  # noqa: E402
from ditto_fast.corpora.search import _best, search_corpus  # noqa: E402
from ditto_fast.corpora.settings import Model, Settings  # noqa: E402
from ditto_fast.corpora.shards import write_shard  # noqa: E402
from ditto_fast.errors import DataError, OptionError  # noqa: E402

WIDTH = 6


def write(folder: Path, vectors: np.ndarray, present: np.ndarray, size: int, dtype: str = "float32") -> None:
    model = Model("m", None, "1-1", "0" * 64, "cls", "fp32", 16, "cpu", "model.onnx", 384, WIDTH)
    made = Settings(model, "text", None, None, True, "", dtype, None, False, size)
    folder.mkdir(exist_ok=True)
    for number, start in enumerate(range(0, len(vectors), size)):
        block = Block(number, start)
        for i in range(start, min(start + size, len(vectors))):
            block.add(Row("file", i + 1, None, f"text {i}" if present[i] else None, None if present[i] else "bad"), i)
        rows = np.array(block.valid, np.int64)
        write_shard(folder, block, vectors[start + rows].astype(dtype), rows, [], made)
    (folder / "_summary.json").write_text(json.dumps({"shards": -(-len(vectors) // size)}))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 999), rows=st.integers(1, 60), size=st.integers(1, 25), k=st.integers(1, 70))
def test_the_best_by_cosine_in_order(seed: int, rows: int, size: int, k: int, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    random = np.random.default_rng(seed)
    # few values, so that equal scores are met
    vectors = random.integers(-2, 3, (rows, WIDTH)).astype(np.float32)
    present = random.random(rows) < 0.8
    write(folder, vectors, present, size)
    queries = random.integers(-2, 3, (3, WIDTH)).astype(np.float32) + np.float32(0.1)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    for query, hits in zip(queries, search_corpus(folder, queries, k), strict=True):
        cosines = unit.astype(np.float64) @ (query / np.linalg.norm(query)).astype(np.float64)
        assert len(hits) == min(k, int(present.sum()))
        found = [hit.row for hit in hits]
        assert len(set(found)) == len(found)
        assert present[found].all()
        np.testing.assert_allclose([hit.score for hit in hits], cosines[found], rtol=0, atol=1e-6)
        np.testing.assert_allclose(cosines[found], np.sort(cosines[present])[::-1][:k], rtol=0, atol=1e-6)
        assert [hit.text for hit in hits] == [f"text {row}" for row in found]
        assert [hit.id for hit in hits] == found


def test_equal_scores_are_in_the_order_of_rows():
    scores = np.array([[0.5, 1.0, 0.5, 1.0, 0.5] * 5], np.float32)
    rows = np.arange(25)[None]
    best, found = _best(scores, rows, 2)
    assert found.tolist() == [[1, 3]]
    assert best.tolist() == [[1.0, 1.0]]


def test_float16_shards(tmp_path: Path):
    vectors = np.random.default_rng(0).normal(size=(9, WIDTH)).astype(np.float32)
    write(tmp_path / "index", vectors, np.ones(9, bool), 4, "float16")
    (hits,) = search_corpus(tmp_path / "index", vectors[5], k=1)
    assert hits[0].row == 5
    assert hits[0].score == pytest.approx(1, abs=1e-3)


def test_what_cannot_be_searched(tmp_path: Path):
    with pytest.raises(DataError, match="name the folder that ditto-encode wrote"):
        search_corpus(tmp_path, np.zeros(WIDTH))
    write(tmp_path / "index", np.ones((3, WIDTH), np.float32), np.ones(3, bool), 4)
    with pytest.raises(OptionError, match="7 dimensions"):
        search_corpus(tmp_path / "index", np.zeros(WIDTH + 1))
    with pytest.raises(OptionError, match="k must be"):
        search_corpus(tmp_path / "index", np.zeros(WIDTH), k=0)


def test_a_corpus_that_is_not_whole_is_not_searched(tmp_path: Path):
    write(tmp_path / "index", np.ones((9, WIDTH), np.float32), np.ones(9, bool), 4)
    (tmp_path / "index" / "part-000001.parquet").unlink()
    with pytest.raises(DataError, match="is not whole: run ditto-encode to its end"):
        search_corpus(tmp_path / "index", np.ones(WIDTH))
    (tmp_path / "index" / "_summary.json").unlink()
    with pytest.raises(DataError, match="is not whole"):
        search_corpus(tmp_path / "index", np.ones(WIDTH))


def test_a_changed_byte_is_found(tmp_path: Path):
    write(tmp_path / "index", np.arange(600, dtype=np.float32).reshape(100, WIDTH), np.ones(100, bool), 100)
    path = tmp_path / "index" / "part-000000.parquet"
    data = bytearray(path.read_bytes())
    place = bytes(data).find(np.float32(300).tobytes() + np.float32(301).tobytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="cannot be read"):
        search_corpus(tmp_path / "index", np.ones(WIDTH))


def test_metadata_is_json(tmp_path: Path):
    from pyarrow import parquet

    write(tmp_path / "index", np.ones((3, WIDTH), np.float32), np.ones(3, bool), 4)
    metadata = parquet.read_schema(tmp_path / "index" / "part-000000.parquet").metadata
    assert json.loads(metadata[b"ditto_fast"])["shard"]["first_row"] == 0
