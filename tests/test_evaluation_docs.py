"""docs/evaluation.md and the README say what the records say."""

from __future__ import annotations

import pytest
from evaluation_report import BLOCKS, updated


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_that_of_the_records(name: str):
    path, make = BLOCKS[name]
    text = path.read_text(encoding="utf-8")
    assert updated(text, name, make()) == text
