"""What is encoded: STS-B's sentences where SentEval's data is at hand, else seeded synthetic ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
_WORDS = (
    "the a of and to in is was for on that with as it at by from river stone window garden music engine "
    "market teacher winter signal paper bridge doctor island number question carries finds builds leaves "
    "opens watches follows green quiet early broken narrow several modern heavy quickly often never nearly"
).split()


def senteval_folder(option: Path | None = None) -> Path | None:
    """The folder that holds downstream/: the option, DITTO_SENTEVAL, or shared/senteval beside the checkout."""
    if option is not None:
        return option
    if "DITTO_SENTEVAL" in os.environ:
        return Path(os.environ["DITTO_SENTEVAL"])
    beside = _ROOT.parent / "shared" / "senteval"
    return beside if beside.is_dir() else None


def load_sentences(count: int, senteval: Path | None) -> tuple[str, list[str]]:
    """Returns where the sentences are from, in words, and `count` of them in their own order."""
    if senteval is not None:
        path = senteval / "downstream" / "STS" / "STSBenchmark" / "sts-test.csv"
        rows = [line.rstrip("\n").split("\t") for line in path.open(encoding="utf-8")]
        sentences = [row[column] for row in rows for column in (5, 6)]
        return "STS-B test, file order", sentences[:count]
    rng = np.random.default_rng(0)
    # lengths like those of STS-B: most about a dozen words, a tail of long ones
    lengths = np.clip(rng.lognormal(2.3, 0.5, count).astype(int), 3, 60)
    return "synthetic, seed 0", [" ".join(rng.choice(_WORDS, n)) for n in lengths]
