"""transformers.js gives the same embeddings from the folder: the block of docs/interoperability.md, under Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from documents import EXAMPLES, ROOT, code_blocks

from ditto_fast import FastEncoder
from ditto_fast.tolerances import within

TEXTS = ["A man is eating food.", "", "ü ñ 東京 \u200b", "word " * 254, "Hallo? 1,234.5 -- it's me!", "word " * 400]


@pytest.fixture(scope="module")
def node() -> str:
    path = shutil.which("node")
    if path is None:
        pytest.skip("node is not installed")
    return path


def test_transformers_js(node: str, node_modules: Path, minilm_export: Path, tmp_path: Path):
    (block,) = code_blocks(ROOT / "docs" / "interoperability.md", "js")
    assert EXAMPLES in block
    (tmp_path / "example.mjs").write_text(block.replace(EXAMPLES, json.dumps(TEXTS)), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(node_modules)
    (tmp_path / "minilm-ditto").symlink_to(minilm_export)
    result = subprocess.run([node, "example.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    vectors = np.array(json.loads(result.stdout), np.float32)
    expected = FastEncoder(minilm_export).encode(TEXTS)
    assert within(vectors[:-1], expected[:-1])
    assert not within(vectors[-1], expected[-1])  # the documentation says so: it cuts the final special token off
