"""What scoring every head costs by each way, from the records of suite heads."""

from __future__ import annotations

from dataclasses import dataclass

import suite_heads
from heads_probe import ONE_PASS
from measure import median
from records import Records


@dataclass(frozen=True)
class Cost:
    """One way's.

    Args:
        heads: How many there are.
        seconds: For all of them: a run's median, as many times as runs are needed, which is extrapolated.
        speedup: Median, least and largest of how many times as long as the pass over all it takes.
    """

    heads: int
    seconds: float
    speedup: tuple[float, float, float]


def cost(records: Records, key: str) -> Cost | None:
    """The cost by a way, None where it or the pass was not measured."""
    case, one_pass = suite_heads.CASE, ONE_PASS
    way, every = (records.row("heads", case, each) for each in (key, one_pass))
    ratio = records.ratio("heads", case, key, one_pass)
    if way is None or every is None or ratio is None:
        return None
    runs = every["heads"] // way["heads"]
    middle, least, largest = (runs * value for value in ratio)
    return Cost(every["heads"], runs * median(way["seconds"]), (middle, least, largest))
