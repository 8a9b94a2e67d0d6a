"""One contender's memory, in a process of its own: prints a JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from job import Encode, Setting
from peers_ours import encoder_of
from resident import resident_mb, sampled
from sentences import text_of

from ditto_fast.heads import Head

ONE_BATCH = "fp32-batch"


def _encode(how: str, setting: Setting, count: int) -> Encode:
    if how == ONE_BATCH:
        encoder = encoder_of(setting)
        return lambda texts: encoder.encode(texts, batch_size=count)
    module, name = how.split(":")  # no other contender's, whose libraries it would load
    build: Callable[[Setting], Encode] = getattr(import_module(module), name)
    return build(setting)


def texts_of(tokens: int, count: int) -> list[str]:
    """The texts, each of so many tokens."""
    return [text_of(tokens, seed) for seed in range(count)]


def main(arguments: list[str]) -> None:
    """Memory of texts of so many tokens over that of the model, loaded and warm from one short text; their vectors."""
    how, checkpoint, export, head, threads, tokens, count = arguments
    setting = Setting(Path(checkpoint), Path(export), Head.parse(head), int(threads), int(tokens))
    encode = _encode(how, setting, int(count))
    encode(["Warm."])
    loaded = resident_mb()
    texts = texts_of(int(tokens), int(count))
    with sampled() as samples:
        vectors = encode(texts)
    peak = max(mb for _, mb in samples)
    memory = {"loaded_mb": loaded, "peak_mb": peak, "extra_mb": peak - loaded}
    sys.stdout.write(json.dumps({**memory, "vectors": vectors.tolist()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
