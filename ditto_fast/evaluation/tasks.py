"""The seven STS sets as the authors' code reads them, and a dev file of one's own.

Sentences are split at white space and joined with single spaces, as the authors' batcher does. Lines end at
a newline only: `str.splitlines` would also cut a sentence at U+0085 or U+2028 and part it from its score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import one_of
from ditto_fast.errors import DataError


@dataclass(frozen=True)
class Subset:
    """Sentence pairs with gold scores; row i of each belongs together.

    Args:
        name: As the data's files call it.
        first: n sentences.
        second: n sentences.
        gold: Their similarity (n,), float64.
    """

    name: str
    first: list[str]
    second: list[str]
    gold: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def sentences(self) -> list[str]:
        """Both sides, the first before the second: 2 n."""
        return [*self.first, *self.second]

    def take(self, rows: NDArray[np.int64]) -> Subset:
        """The pairs of these rows."""
        return Subset(self.name, [self.first[i] for i in rows], [self.second[i] for i in rows], self.gold[rows])


@dataclass(frozen=True)
class Task:
    """One column of the table.

    Args:
        name: As in the table's head.
        subsets: What is scored.
        others: Sentences of its other splits, which a post-processing fit on the "target" sees too.
    """

    name: str
    subsets: tuple[Subset, ...]
    others: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.subsets))

    @property
    def sentences(self) -> list[str]:
        """Every sentence that is scored."""
        return [sentence for subset in self.subsets for sentence in subset.sentences]


Pair = tuple[list[str], list[str], float]

STS_SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "OnWN", "images", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
STS_B, SICK_R = "STS-B", "SICK-R"
TASKS = (*STS_SUBSETS, STS_B, SICK_R)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise DataError(f"{path} is missing. Name the folder that holds downstream/, with SentEval's files in it.")
    lines = path.read_bytes().decode("utf-8").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _subset(name: str, pairs: Iterable[Pair]) -> Subset:
    rows = list(pairs)
    first, second = [" ".join(row[0]) for row in rows], [" ".join(row[1]) for row in rows]
    return Subset(name, first, second, np.array([row[2] for row in rows], dtype=np.float64))


def _score(text: str, path: Path, number: int) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not np.isfinite(score):
        raise DataError(f"{path}, line {number}: the score {text!r} is no number. Correct or remove the line.")
    return score


def _sts_pairs(folder: Path, name: str) -> list[Pair]:
    """STS12 to 16: two files, rows without a gold score dropped, sorted as the authors' code sorts its batches."""
    path, gold_path = folder / f"STS.input.{name}.txt", folder / f"STS.gs.{name}.txt"
    lines, gold = _lines(path), _lines(gold_path)
    if len(lines) != len(gold):
        raise DataError(f"{path} has {len(lines)} lines and {gold_path} {len(gold)}: they do not belong together.")
    pairs = []
    for number, (line, score) in enumerate(zip(lines, gold, strict=True), start=1):
        if score.strip() == "":
            continue
        columns = line.split("\t")[:2]  # STS16's raw files have more
        if len(columns) < 2:
            raise DataError(f"{path}, line {number}: two sentences with a tab between are wanted; got {line!r}.")
        pairs.append((columns[0].split(), columns[1].split(), _score(score, gold_path, number)))
    return sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1]), pair[2]))


def _columns(path: Path, columns: tuple[int, int, int], header: bool) -> list[Pair]:
    """Pairs of a tab-separated file without quoting, in file order, from (first, second, score) columns."""
    pairs = []
    for number, line in enumerate(_lines(path), start=1):
        cells = line.strip().split("\t")
        if (header and number == 1) or not line.strip():
            continue
        if len(cells) <= max(columns) or not cells[columns[2]].strip():
            raise DataError(
                f"{path}, line {number}: {max(columns) + 1} columns between tabs are wanted, with the score in "
                f"column {columns[2] + 1}; got {line.strip()[:80]!r}. Correct or remove the line."
            )
        first, second, score = (cells[column] for column in columns)
        pairs.append((first.split(), second.split(), _score(score, path, number)))
    return pairs


def _sts(senteval: Path, name: str) -> Task:
    folder = senteval / "downstream" / "STS" / f"{name}-en-test"
    return Task(name, tuple(_subset(subset, _sts_pairs(folder, subset)) for subset in STS_SUBSETS[name]))


def _split_task(name: str, test: Path, others: Sequence[Path], read: Callable[[Path], list[Pair]]) -> Task:
    subsets = [_subset(path.stem, read(path)) for path in (test, *others)]
    return Task(name, (subsets[0],), tuple(sentence for subset in subsets[1:] for sentence in subset.sentences))


def _read_sts_b(path: Path) -> list[Pair]:
    return _columns(path, (5, 6, 4), header=False)


def _sts_b_file(senteval: Path, split: str) -> Path:
    return senteval / "downstream" / "STS" / "STSBenchmark" / f"sts-{split}.csv"


def load_task(senteval: Path, name: str) -> Task:
    """Reads one task.

    Args:
        senteval: The folder that holds downstream/.
        name: One of `TASKS`.

    Raises:
        DataError: A file is missing or malformed; the message names it and the line.
        OptionError: There is no such task.
    """
    one_of("tasks", name, TASKS)
    if name in STS_SUBSETS:
        return _sts(senteval, name)
    if name == STS_B:
        test, *others = (_sts_b_file(senteval, split) for split in ("test", "train", "dev"))
        return _split_task(STS_B, test, others, _read_sts_b)
    folder = senteval / "downstream" / "SICK"
    test, *others = (folder / f"SICK_{split}.txt" for split in ("test_annotated", "train", "trial"))
    return _split_task(SICK_R, test, others, lambda path: _columns(path, (1, 2, 3), header=True))


def load_sts_b_dev(senteval: Path) -> Subset:
    """The set that heads are chosen on: 1500 pairs."""
    return _subset("STS-B dev", _read_sts_b(_sts_b_file(senteval, "dev")))


def load_pairs(path: Path) -> Subset:
    """A dev file of one's own: sentence, sentence, score, with tabs between, no header.

    Raises:
        DataError: It is missing, or a line has no score, with its number.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing; a dev file has lines of sentence<TAB>sentence<TAB>score.")
    return _subset(path.stem, _columns(path, (0, 1, 2), header=False))


def read_sentences(path: Path) -> list[str]:
    """The lines of a file that are not blank.

    Raises:
        DataError: It is missing or has none.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing; a file with one sentence a line is wanted.")
    sentences = [line.strip() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    if not sentences:
        raise DataError(f"{path} has no sentences; one a line is wanted.")
    return sentences
