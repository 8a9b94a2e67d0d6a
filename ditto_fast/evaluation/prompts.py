"""Two baselines of PromptBERT (Jiang et al., 2022) that change the text: a manual prompt, and biases removed.

The details are those of its published runs: the template's spaced colon, the full stop that is added, the 36 frequent
tokens.
"""

from __future__ import annotations

import string

from ditto_fast.errors import DataError
from ditto_fast.evaluation.encodings import Encodings

TEMPLATE = 'This sentence : "[X]" means [MASK].'
_ENDS = (".", "?", '"', "'")
# tokens that embeddings are biased towards, by PromptBERT's list for BERT
_FREQUENT = frozenset(
    ". a the in , is to of and ' on man - s with for \" at ##s woman are it two that you dog said playing i an as was "
    "from : by white".split()
)
_NOTHING = "[PAD]"


def manual_prompt(text: str, encodings: Encodings, template: str) -> str:
    """The template with the text, ended by a full stop, for [X] and the model's mask token for [MASK].

    Raises:
        DataError: The template lacks one of the two, or the model has no mask token.
    """
    if "[X]" not in template or "[MASK]" not in template:
        raise DataError(f"A template has [X] for the sentence and [MASK] for its meaning; got {template!r}.")
    token, _ = encodings.mask_token()
    ended = text if text.endswith(_ENDS) else f"{text}."
    before, _, after = template.replace("[MASK]", token).partition("[X]")
    return f"{before}{ended}{after}"


def without_biases(text: str, encodings: Encodings, template: str) -> str:  # noqa: ARG001 - one form for all
    """The text without frequent tokens, punctuation and what continues a word, in lower case.

    Raises:
        DataError: The tokenizer is no WordPiece: PromptBERT has another token list for byte-level ones, which we
            do not have.
    """
    if not encodings.is_wordpiece:
        raise DataError(
            "static-remove-biases is defined on WordPiece tokens (BERT, ELECTRA); this tokenizer is another kind, "
            "for which no list of frequent tokens is at hand. Leave it out of --poolers."
        )
    encoding = encodings(text)
    kept = [
        token.lower()
        for token, word in zip(encoding.tokens, encoding.words, strict=True)
        if word != -1 and not token.startswith("##") and token not in _FREQUENT and token not in string.punctuation
    ]
    return " ".join(kept) or _NOTHING
