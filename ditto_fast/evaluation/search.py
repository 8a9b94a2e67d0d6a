"""The head search: all heads on one dev set, how sure the winner is, and a verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import DataError
from ditto_fast.evaluation.head_scores import Candidate, candidates, heads_of, pair_cosines
from ditto_fast.evaluation.protocol import check_gold
from ditto_fast.evaluation.resampling import HeldOut, Interval, bootstrap_difference, held_out
from ditto_fast.evaluation.states import StateSource
from ditto_fast.evaluation.tasks import Subset

_FEWEST_PAIRS = 6  # each half of the held-out split needs 3


@dataclass(frozen=True)
class Search:
    """What a head search found.

    Args:
        name: The dev set.
        pairs: Its size.
        ranking: All candidates, best first, plain averages among them.
        over_runner_up: The best head against the next.
        over_plain: The best head against the best plain average.
        halves: Choices made on one half and scored on the other.
        layers: L of the heat map.
        heads: N of the heat map.
    """

    name: str
    pairs: int
    ranking: list[Candidate]
    over_runner_up: Interval
    over_plain: Interval
    halves: list[HeldOut]
    layers: int
    heads: int

    @property
    def winner(self) -> Candidate:
        """The best head."""
        return next(candidate for candidate in self.ranking if candidate.head is not None)

    @property
    def plain(self) -> Candidate:
        """The best plain average."""
        return next(candidate for candidate in self.ranking if candidate.head is None)

    def grid(self, variant: str) -> NDArray[np.float64]:
        """Spearman x100 of the heads under a pooling (L, N)."""
        grid = np.zeros((self.layers, self.heads))
        for candidate in self.ranking:
            if candidate.head is not None and candidate.variant == variant:
                grid[candidate.head.layer - 1, candidate.head.number - 1] = 100 * candidate.score
        return grid

    def verdict(self) -> str:
        """What to do, in words."""
        kept = float(np.mean([half.head_score - half.plain_score for half in self.halves]))
        gain = self.over_plain
        figures = (
            f"{self.winner} scores {100 * self.winner.score:.2f}, {self.plain} {100 * self.plain.score:.2f} "
            f"(difference {gain.difference:+.2f}, 95 % interval {gain.low:+.2f} to {gain.high:+.2f}; chosen on one "
            f"half and scored on the other {kept:+.2f})"
        )
        if gain.difference <= 0:
            return f"No head beats the plain average on {self.name}: {figures}. Use pooling {self.plain.pooler!r}."
        if gain.low <= 0 or kept <= 0:
            return (
                f"No head is surely better than the plain average on {self.name}: {figures}. Use pooling "
                f"{self.plain.pooler!r} unless a larger dev set says otherwise."
            )
        return f"Ditto helps on {self.name}: {figures}. Use head {self.winner.head} with {self.winner.pooler!r}."

    def to_dict(self) -> dict[str, Any]:
        """The record for machines; scores are correlations, differences x100."""
        return {
            "dev": self.name,
            "pairs": self.pairs,
            "verdict": self.verdict(),
            "ranking": [
                {"pooler": c.pooler, "head": str(c.head) if c.head else None, "spearman": c.score} for c in self.ranking
            ],
            "winner_over_runner_up": vars(self.over_runner_up),
            "winner_over_plain": vars(self.over_plain),
            "held_out": [
                {
                    "head": str(half.head),
                    "plain": str(half.plain),
                    "head_spearman": half.head_score / 100,
                    "plain_spearman": half.plain_score / 100,
                }
                for half in self.halves
            ],
        }


def search(source: StateSource, dev: Subset, seed: int = 0, progress: bool = False) -> Search:
    """Scores all heads, with each of `VARIANTS`, in one pass.

    Args:
        source: The checkpoint's states.
        dev: Pairs with gold scores.
        seed: Of the bootstrap and the split.
        progress: Show a bar on stderr.

    Raises:
        DataError: There are fewer than 6 pairs, or all gold scores are equal.
    """
    check_gold(dev.name, dev.gold)
    if len(dev) < _FEWEST_PAIRS:
        raise DataError(
            f"{dev.name}: {len(dev)} pairs cannot be split into two halves to choose on and to score on; "
            f"at least {_FEWEST_PAIRS} are wanted, and a few hundred to tell heads apart."
        )
    heads, cosines = heads_of(source), pair_cosines(source, dev, progress)
    ranking = candidates(heads, cosines, dev.gold)
    best = [candidate for candidate in ranking if candidate.head is not None][:2]
    plain = next(candidate for candidate in ranking if candidate.head is None)
    row = {choice: cosines[choice.variant][choice.row] for choice in (*best, plain)}
    return Search(
        dev.name,
        len(dev),
        ranking,
        bootstrap_difference(row[best[0]], row[best[-1]], dev.gold, seed),
        bootstrap_difference(row[best[0]], row[plain], dev.gold, seed),
        held_out(heads, cosines, dev.gold, seed),
        source.sizes.num_layers,
        source.sizes.num_heads,
    )
