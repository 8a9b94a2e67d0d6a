"""FastEncoder's memory over many sentences of mixed lengths, then short ones, in a process of its own: prints JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from resident import resident_mb, sampled, thinned
from sentences import synthetic_sentences

from ditto_fast import FastEncoder
from ditto_fast.errors import ParityError
from ditto_fast.tolerances import within

_CHUNK = 5000  # sentences of a call: many calls, as a service makes them
_SAMPLES = 100
_CHECKED = 8  # sentences


def _no_arena(options: Any) -> None:
    options.enable_cpu_mem_arena = False


def main(arguments: list[str]) -> None:
    """Samples resident memory; the last sentences are a tenth as many, of at most five words."""
    export, precision, arena, threads, count = arguments
    encoder = FastEncoder(
        Path(export),
        precision=precision,
        num_threads=int(threads),
        session_options=_no_arena if arena == "no arena" else None,
    )
    mixed = synthetic_sentences(int(count), longest=200, spread=0.8)
    short = synthetic_sentences(int(count) // 10, longest=5)
    before = encoder.encode(mixed[:_CHECKED])
    loaded = resident_mb()
    with sampled() as samples:
        for texts in (mixed, short):
            for start in range(0, len(texts), _CHUNK):
                encoder.encode(texts[start : start + _CHUNK], deduplicate=False)
    if not within(encoder.encode(mixed[:_CHECKED]), before):
        raise ParityError("The first sentences have other vectors at the end than at the start.")
    result = {
        "loaded_mb": loaded,
        "peak_mb": max(mb for _, mb in samples),
        "end_mb": samples[-1][1],
        "seconds": [samples[-1][0]],
        "sentences": len(mixed) + len(short),
        "samples_mb": thinned(samples, _SAMPLES),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
