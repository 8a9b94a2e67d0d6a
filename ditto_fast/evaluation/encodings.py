"""A tokenizer that tells more than ids: tokens, the word that each is of, which ones are special."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as RawTokenizer

from ditto_fast.artifact import TOKENIZER_FILE
from ditto_fast.errors import DataError, ExportDirectoryError
from ditto_fast.tokenizer import cut_to

_MASKS = ("[MASK]", "<mask>")


@dataclass(frozen=True)
class Encoding:
    """A text's tokens.

    Args:
        ids: Token ids (T,), special tokens included.
        tokens: T vocabulary entries.
        words: Number of the word that each token is of (T,), -1 for special tokens.
    """

    ids: NDArray[np.int64]
    tokens: list[str]
    words: NDArray[np.int64]


class Encodings:
    """The tokenizer of a folder.

    Args:
        directory: Folder with tokenizer.json.
        max_seq_length: Tokens that texts are cut to, special ones included.

    Raises:
        ExportDirectoryError: There is none.
    """

    def __init__(self, directory: Path, max_seq_length: int) -> None:
        path = directory / TOKENIZER_FILE
        if not path.is_file():
            raise ExportDirectoryError(f"{path} is missing; export again, or copy the whole folder.")
        self._raw = RawTokenizer.from_file(str(path))
        cut_to(self._raw, max_seq_length)

    def ids(self, text: str) -> NDArray[np.int64]:
        """Token ids (T,), special tokens included."""
        return np.array(self._raw.encode(text).ids, dtype=np.int64)

    def __call__(self, text: str) -> Encoding:
        """Tokens of a text with their words."""
        raw = self._raw.encode(text)
        words = [
            -1 if special or word is None else word
            for special, word in zip(raw.special_tokens_mask, raw.word_ids, strict=True)
        ]
        return Encoding(np.array(raw.ids, np.int64), list(raw.tokens), np.array(words, np.int64))

    @property
    def is_wordpiece(self) -> bool:
        """Whether tokens that continue a word start with ##."""
        return type(self._raw.model).__name__ == "WordPiece"

    @property
    def vocab_size(self) -> int:
        """Number of tokens, added ones included."""
        return int(self._raw.get_vocab_size(with_added_tokens=True))

    def mask_token(self) -> tuple[str, int]:
        """The token that hides a word, and its id.

        Raises:
            DataError: The model has none.
        """
        for token in _MASKS:
            number = self._raw.token_to_id(token)
            if number is not None:
                return token, int(number)
        raise DataError(
            f"This tokenizer has no mask token ({' or '.join(_MASKS)}), which a prompt and the impact matrix need. "
            "Choose another pooler, or a model trained to fill in masked words."
        )
