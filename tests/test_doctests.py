"""The example of every public function runs, and every public function has one."""

from __future__ import annotations

import doctest
import os
from pathlib import Path

import numpy as np
import pytest

from ditto_fast.errors import MissingDependencyError

MODULES = (
    "ditto_fast.artifact",
    "ditto_fast.batches",
    "ditto_fast.checks",
    "ditto_fast.corpora.encode",
    "ditto_fast.corpora.search",
    "ditto_fast.corpora.sources",
    "ditto_fast.cpus",
    "ditto_fast.distributed",
    "ditto_fast.encoder",
    "ditto_fast.evaluation.cited",
    "ditto_fast.evaluation.geometry",
    "ditto_fast.evaluation.glove",
    "ditto_fast.evaluation.impact",
    "ditto_fast.evaluation.protocol",
    "ditto_fast.evaluation.tfidf",
    "ditto_fast.export.hub",
    "ditto_fast.export.pipeline",
    "ditto_fast.export.upload",
    "ditto_fast.export.sentence_transformers",
    "ditto_fast.heads",
    "ditto_fast.integrations.identity",
    "ditto_fast.integrations.langchain",
    "ditto_fast.integrations.llama_index",
    "ditto_fast.integrations.sklearn",
    "ditto_fast.pooling",
    "ditto_fast.providers",
    "ditto_fast.quantization",
    "ditto_fast.shipping",
    "ditto_fast.similarity",
    "ditto_fast.streams",
    "ditto_fast.texts",
    "ditto_fast.tolerances",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, minilm: Path, minilm_export: Path, tmp_path: Path, monkeypatch):
    """Examples name the export "minilm-ditto", as a user's folder would be."""
    monkeypatch.chdir(tmp_path)
    os.symlink(minilm_export, tmp_path / "minilm-ditto")
    if name == "ditto_fast.export.pipeline":
        (tmp_path / "minilm-ditto").unlink()  # it is written by the example
    module = pytest.importorskip(name, exc_type=MissingDependencyError)
    result = doctest.testmod(module, extraglobs={"np": np, "checkpoint_folder": minilm})
    assert result.attempted > 0
    assert result.failed == 0
