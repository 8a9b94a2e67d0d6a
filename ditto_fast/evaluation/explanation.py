"""Which tokens of a sentence count: a head's diagonal beside the impact matrix and TF-IDF, as bars, HTML and PNG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ditto_fast.errors import DataError, HeadError, MissingDependencyError
from ditto_fast.evaluation.impact import impact_matrix, importance
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tfidf import TfIdf
from ditto_fast.evaluation.words import word_texts

_BAR = 14  # characters of the longest: three fit on 80 columns


@dataclass(frozen=True)
class Explanation:
    """Scores of a sentence's T tokens.

    Args:
        title: Model and head.
        tokens: The tokens, special ones included.
        scores: By name, T numbers each: "diagonal", and where they could be had "impact" and "TF-IDF".
        missing: Why a score is not there, in words.
    """

    title: str
    tokens: list[str]
    scores: dict[str, list[float]]
    missing: list[str]

    def to_dict(self) -> dict[str, Any]:
        """The record for machines."""
        return asdict(self)


def explain(source: StateSource, sentence: str, corpus: Sequence[str] = ()) -> Explanation:
    """Scores the tokens of a sentence.

    Args:
        source: The model, with a head.
        sentence: What to look at.
        corpus: Sentences that document frequencies are counted on; without them there is no TF-IDF. Pieces of a
            word share its TF-IDF, special tokens have 0.

    Raises:
        HeadError: The source has no head.
    """
    if source.head is None:
        raise HeadError("Token weights are one head's diagonal: name it with --head L-H.")
    encoding = source.encodings(sentence)
    scores = {"diagonal": source.run([encoding.ids])["diagonal"][0].tolist()}
    missing = []
    try:
        scores["impact"] = importance(impact_matrix(source, sentence)).tolist()
    except DataError as error:
        missing.append(f"impact: {error}")
    if corpus:
        tfidf = TfIdf([word_texts(source.encodings(text)) for text in corpus])
        by_word = dict(zip(sorted(set(encoding.words[encoding.words >= 0])), tfidf(word_texts(encoding)), strict=True))
        scores["TF-IDF"] = [float(by_word.get(word, 0.0)) for word in encoding.words]
    else:
        missing.append("TF-IDF: name sentences to count document frequencies on with --corpus.")
    title = f"{source.sizes.name}, head {source.head}"
    return Explanation(title, encoding.tokens, scores, missing)


def _shares(scores: Sequence[float]) -> list[float]:
    """Scores as parts of the largest, from 0 to 1."""
    top = max(max(scores), np.finfo(float).tiny)
    return [max(0.0, score / top) for score in scores]


def bars(explanation: Explanation) -> Table:
    """A bar a token and score for the terminal, the longest of each score the largest."""
    table = Table(title=explanation.title, title_justify="left", show_edge=False)
    table.add_column("token", no_wrap=True, min_width=10)
    for name in explanation.scores:
        table.add_column(name, no_wrap=True)
    columns = [
        [f"{'█' * round(_BAR * share):<{_BAR}} {score:.3g}" for share, score in zip(_shares(s), s, strict=True)]
        for s in explanation.scores.values()
    ]
    for token, *cells in zip(explanation.tokens, *columns, strict=True):
        table.add_row(token.replace("[", r"\["), *cells)
    return table


def html(explanation: Explanation) -> str:
    """A page with the sentence once a score, its tokens the darker the more they count."""
    lines = []
    for name, scores in explanation.scores.items():
        tokens = " ".join(
            f'<span style="background:rgba(0,128,0,{share:.3f})" title="{score:.4f}">{escape(token)}</span>'
            for token, share, score in zip(explanation.tokens, _shares(scores), scores, strict=True)
        )
        lines.append(f"<p><b>{escape(name)}</b><br>{tokens}</p>")
    body = "\n".join(lines)
    head = f'<meta charset="utf-8"><title>{escape(explanation.title)}</title>'
    title = f"<h1>{escape(explanation.title)}</h1>"
    return f"<!DOCTYPE html>\n<html><head>{head}</head><body>\n{title}\n{body}\n</body></html>\n"


def write_png(explanation: Explanation, path: Path) -> None:
    """Draws the bars.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(f"A PNG needs matplotlib: pip install 'ditto-fast[eval]' ({error}).") from error
    count = len(explanation.scores)
    figure = Figure(figsize=(2 + 3 * count, 1 + 0.28 * len(explanation.tokens)), layout="constrained")
    places = range(len(explanation.tokens))
    for axis, (name, scores) in zip(
        figure.subplots(1, count, squeeze=False, sharey=True)[0], explanation.scores.items(), strict=True
    ):
        axis.barh(places, scores, color="seagreen")
        axis.set(title=name, yticks=places, yticklabels=explanation.tokens)
    axis.invert_yaxis()
    figure.suptitle(explanation.title)
    figure.savefig(path, dpi=150)
