"""A length that leaves no room for text: whose fault it is; and which end of a text is cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer as RawTokenizer

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


@pytest.mark.parametrize(("side", "kept"), [("left", ["c", "d"]), ("right", ["a", "b"])])
def test_the_side_is_the_files_whatever_the_length(tiny_export: Path, tmp_path: Path, side: str, kept: list[str]):
    folder = tmp_path / "copy"
    shutil.copytree(tiny_export, folder)
    raw = RawTokenizer.from_file(str(folder / "tokenizer.json"))
    raw.enable_truncation(64, direction=side)
    raw.save(str(folder / "tokenizer.json"))
    assert Tokenizer(folder, 4).tokens("a b c d") == ["[CLS]", *kept, "[SEP]"]
    assert [token for token, _ in FastEncoder(folder, max_seq_length=4).token_weights("a b c d")][1:-1] == kept
