"""Section 2 of the paper: does a head's diagonal, or the impact matrix, follow TF-IDF?

Our choices, since the paper's are not known: a document is a sentence; TF-IDF is tf ln(D / df), divided by the
sentence's L2 norm; special tokens are left out; a word's score is the mean over its pieces; the words of all sentences
are pooled into one Pearson and one Spearman correlation, and the mean of each sentence's own Spearman is given too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ditto_fast.errors import DataError, HeadError
from ditto_fast.evaluation.impact import impact_matrix, importance
from ditto_fast.evaluation.protocol import pearson, spearman
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tfidf import TfIdf
from ditto_fast.evaluation.words import word_means, word_texts

IMPACT_SENTENCES = 100  # a sentence of W words costs W^2 / 2 runs
_FEWEST_WORDS = 3


@dataclass(frozen=True)
class Correlation:
    """One score's correlation with TF-IDF.

    Args:
        score: "diagonal" or "impact".
        sentences: How many went in.
        words: How many words they have.
        pearson: Over all words.
        spearman: Over all words.
        by_sentence: Mean of the sentences' own Spearman.
    """

    score: str
    sentences: int
    words: int
    pearson: float
    spearman: float
    by_sentence: float


@dataclass(frozen=True)
class Analysis:
    """The correlations of a model's head and impact matrix with TF-IDF."""

    head: str
    diagonal: Correlation
    impact: Correlation

    def to_dict(self) -> dict[str, Any]:
        """The record for machines."""
        return asdict(self)


def analyse(
    source: StateSource,
    corpus: Sequence[str],
    impact_sentences: int = IMPACT_SENTENCES,
    progress: bool = False,
) -> Analysis:
    """Correlates over a corpus.

    Args:
        source: The model, with a head.
        corpus: Sentences; document frequencies are counted on them.
        impact_sentences: How many of them, from the first, the impact matrix is made of.
        progress: Show a bar on stderr.

    Raises:
        DataError: No sentence has at least 3 words.
        HeadError: The source has no head.
    """
    if source.head is None:
        raise HeadError("The analysis looks at one head's diagonal: name it with --head L-H.")
    documents = [word_texts(source.encodings(text)) for text in corpus]
    tfidf = TfIdf(documents)
    diagonals: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    impacts: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for number, text in enumerate(tqdm(corpus, disable=not progress, desc="analysis", unit="sentence")):
        if len(documents[number]) < _FEWEST_WORDS:
            continue
        encoding, wanted = source.encodings(text), tfidf(documents[number])
        diagonals.append((word_means(encoding, source.run([encoding.ids])["diagonal"][0]), wanted))
        if len(impacts) < impact_sentences:
            impacts.append((word_means(encoding, importance(impact_matrix(source, text))), wanted))
    if not diagonals:
        raise DataError(f"No sentence of the corpus has {_FEWEST_WORDS} words, so nothing can be correlated.")
    return Analysis(str(source.head), _correlate("diagonal", diagonals), _correlate("impact", impacts))


def _correlate(name: str, pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Correlation:
    scores, wanted = (np.concatenate(side) for side in zip(*pairs, strict=True))
    own = [float(spearman(score, weight)) for score, weight in pairs]
    return Correlation(
        name,
        len(pairs),
        len(scores),
        float(pearson(scores, wanted)),
        float(spearman(scores, wanted)),
        float(np.nanmean(own)) if not np.isnan(own).all() else float("nan"),
    )


def analysis_lines(analysis: Analysis) -> list[list[str]]:
    """The table, head and body."""
    lines = [["score", "sentences", "words", "Pearson", "Spearman", "Spearman by sentence"]]
    for row in (analysis.diagonal, analysis.impact):
        figures = (f"{value:.3f}" for value in (row.pearson, row.spearman, row.by_sentence))
        lines.append([row.score, str(row.sentences), str(row.words), *figures])
    return lines
