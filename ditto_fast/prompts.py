"""What is put before queries and before documents."""

from __future__ import annotations

from collections.abc import Mapping

from ditto_fast.checks import one_of
from ditto_fast.errors import OptionError
from ditto_fast.texts import Sentences, as_texts, describe

# the names under which sentence-transformers looks for the prompt of a role
NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


def are_prompts(value: object) -> bool:
    """Whether it maps strings to strings."""
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def check_prompts(prompts: Mapping[str, str] | None) -> None:
    """Passes None, and prompts by the names that sentence-transformers has for those of queries and documents.

    Raises:
        OptionError: They are something else.

    Example:
        >>> check_prompts({"query": "query: ", "passage": "passage: "})
    """
    names = [name for each in NAMES.values() for name in each]
    if prompts is None:
        return
    if not are_prompts(prompts):
        raise OptionError(f"prompts must map {', '.join(names)} to strings; got {prompts!r}.")
    for name in prompts:
        one_of("prompts: a key", name, names)


def by_role(prompts: Mapping[str, str]) -> dict[str, str]:
    """The prompts of "query" and "document", by the first of their names that has one; empty ones are none.

    Example:
        >>> by_role({"query": "query: ", "passage": "passage: ", "clustering": "topic: "})
        {'query': 'query: ', 'document': 'passage: '}
    """
    found = {role: next((prompts[name] for name in names if prompts.get(name)), "") for role, names in NAMES.items()}
    return {role: prompt for role, prompt in found.items() if prompt}


def listed(prompts: Mapping[str, str]) -> str:
    """Prompts in the order of their names, in one line.

    Example:
        >>> listed({"query": "query: ", "passage": "passage: "})
        "passage: 'passage: '; query: 'query: '"
    """
    return "; ".join(f"{name}: {prompt!r}" for name, prompt in sorted(prompts.items()) if prompt) or "none"


def check_prompt(prompt: str) -> str:
    """Returns a prompt if it is a string.

    Raises:
        OptionError: It is not.
    """
    if not isinstance(prompt, str):
        raise OptionError(f"prompt must be a string, which is put before each text; got {describe(prompt)}.")
    return prompt


def prompted(sentences: Sentences, prompt: str) -> Sentences:
    """The sentences with the prompt before each.

    Raises:
        OptionError: The prompt is no string.
        TextTypeError: As `as_texts`.
    """
    if not check_prompt(prompt):
        return sentences
    texts, single = as_texts(sentences)
    return prompt + texts[0] if single else [prompt + text for text in texts]
