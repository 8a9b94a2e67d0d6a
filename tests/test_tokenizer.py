"""A length that leaves no room for text: whose fault it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ditto_fast import FastEncoder
from ditto_fast.errors import ExportDirectoryError, OptionError
from ditto_fast.tokenizer import Tokenizer

MESSAGE = r"max_seq_length must be at least 3 \(2 special tokens .*\); got {}"


@pytest.mark.parametrize("length", [1, 2])
def test_a_length_that_was_asked_for(tiny_export: Path, length: int):
    with pytest.raises(OptionError, match=MESSAGE.format(length)):
        FastEncoder(tiny_export, max_seq_length=length)
    encoder = FastEncoder(tiny_export)
    before = encoder.max_seq_length
    with pytest.raises(OptionError, match=MESSAGE.format(length)):
        encoder.max_seq_length = length
    assert encoder.max_seq_length == before
    encoder.max_seq_length = 3
    assert encoder.encode("a b").shape == (48,)


def test_the_exports_own_length(tiny_export: Path):
    with pytest.raises(ExportDirectoryError, match=MESSAGE.format(2) + ".*export again"):
        Tokenizer(tiny_export, 2, asked=False)
