"""docs/integrations.md tells the truth: each of its blocks runs and prints what is shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "integrations.md"
EXAMPLES = {
    title: (code, output)
    for title, code, output in re.findall(
        r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```\n+```text\n(.*?)^```$",
        DOCUMENT.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
}
PACKAGES = {
    "LangChain": "langchain_core",
    "LlamaIndex": "llama_index.core",
    "scikit-learn": "sklearn",
    "Chroma": "chromadb",
    "Qdrant": "qdrant_client",
}


def test_every_block_is_an_example():
    assert EXAMPLES.keys() == PACKAGES.keys()
    assert DOCUMENT.read_text(encoding="utf-8").count("```python") == len(EXAMPLES)


@pytest.mark.parametrize("title", PACKAGES)
def test_the_example_prints_what_is_shown(title: str, minilm_export: Path, tmp_path: Path):
    pytest.importorskip(PACKAGES[title], reason=f"{PACKAGES[title]} is not installed: see {DOCUMENT.name}")
    (tmp_path / "minilm-ditto").symlink_to(minilm_export)
    code, output = EXAMPLES[title]
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout == output
