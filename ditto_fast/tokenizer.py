"""Tokenization with the `tokenizers` package alone, and the rule for the longest input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as RawTokenizer

from ditto_fast.artifact import TOKENIZER_FILE
from ditto_fast.checks import integer
from ditto_fast.errors import ExportDirectoryError, OptionError

SENTENCE_TRANSFORMERS_FILE = "sentence_bert_config.json"  # whatever the model's type
_NO_LIMIT = 1_000_000  # transformers writes int(1e30) as model_max_length where none was set


def read_settings(path: Path) -> dict[str, Any]:
    """What a JSON file of a checkpoint sets; nothing where there is none."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def resolve_max_seq_length(directory: Path, max_positions: int, argument: int | None = None) -> int:
    """Longest input in tokens: the first of these that is set, and never more than `max_positions`.

    1. the argument, 2. max_seq_length of sentence_bert_config.json (what sentence-transformers uses),
    3. model_max_length of tokenizer_config.json, 4. the position table. The truncation that may be stored
    in tokenizer.json is a leftover of training and is not used.

    Args:
        directory: Folder of the checkpoint or export.
        max_positions: Longest input, in tokens, that the position table allows.
        argument: What the user asked for.

    Raises:
        OptionError: The argument is not an integer from 1 to `max_positions`.
    """
    if argument is not None:
        return integer("max_seq_length", argument, 1, max_positions, "the model's position table")
    for file, key in (
        (SENTENCE_TRANSFORMERS_FILE, "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        value = read_settings(directory / file).get(key)
        if isinstance(value, (int, float)) and 1 <= value < _NO_LIMIT:
            return min(int(value), max_positions)
    return max_positions


def cut_to(raw: RawTokenizer, max_seq_length: int) -> None:
    """Cuts texts to a length in tokens, on the side that tokenizer.json names, and pads none."""
    raw.no_padding()
    raw.enable_truncation(max_seq_length, direction=(raw.truncation or {}).get("direction", "right"))


class Tokenizer:
    """A read-only tokenizer: truncation is set once, padding never, so threads may share it.

    Args:
        directory: Folder with tokenizer.json.
        max_seq_length: Length in tokens, special tokens included, that texts are cut to.
        asked: Whether somebody asked for that length; else it is the directory's own.

    Raises:
        ExportDirectoryError: tokenizer.json is missing or broken, or the directory's own length leaves no text.
        OptionError: The length asked for leaves none.
    """

    def __init__(self, directory: Path, max_seq_length: int, asked: bool = True) -> None:
        path = directory / TOKENIZER_FILE
        if not path.is_file():
            raise ExportDirectoryError(f"{path} is missing; export again, or copy the whole folder.")
        try:
            self._raw = RawTokenizer.from_file(str(path))
        except Exception as error:  # the binding raises bare Exception
            raise ExportDirectoryError(f"{path} cannot be read ({error}); export again.") from error
        special_tokens = self._raw.num_special_tokens_to_add(False)
        if max_seq_length <= special_tokens:
            wanted = (
                f"max_seq_length must be at least {special_tokens + 1} ({special_tokens} special tokens are added to "
                f"each text); got {max_seq_length}"
            )
            if asked:
                raise OptionError(f"{wanted}. Choose a larger one.")
            raise ExportDirectoryError(f"{wanted}, the length of {directory}. Pass max_seq_length, or export again.")
        cut_to(self._raw, max_seq_length)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, added ones included."""
        return int(self._raw.get_vocab_size(with_added_tokens=True))

    def __call__(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Token ids of each text, special tokens included: one array (T,) a text.

        No text is empty afterwards where the tokenizer adds special tokens; elsewhere an empty text has
        T = 0.
        """
        # one by one: encode_batch takes every core of the machine, whatever num_threads says, and warns after a fork
        return [np.array(self._raw.encode(text).ids, dtype=np.int64) for text in texts]

    def tokens(self, text: str) -> list[str]:
        """The tokens of one text, as their vocabulary entries."""
        return list(self._raw.encode(text).tokens)
