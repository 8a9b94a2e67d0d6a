"""The STS sets as the authors' code reads them: counts, order, and what a bad file says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ditto_fast.errors import DataError, OptionError
from ditto_fast.evaluation.tasks import TASKS, load_pairs, load_sts_b_dev, load_task

# science.md, section 2: counted on the files; totals agree with huggingface/sentence-transformers#597
COUNTS = {
    "STS12": [750, 750, 459, 750, 399],
    "STS13": [189, 750, 561],
    "STS14": [450, 300, 750, 750, 750, 750],
    "STS15": [375, 750, 375, 750, 750],
    "STS16": [254, 249, 230, 244, 209],
    "STS-B": [1379],
    "SICK-R": [4927],
}


@pytest.mark.parametrize("name", TASKS)
def test_counts(senteval: Path, name: str):
    task = load_task(senteval, name)
    assert [len(subset) for subset in task.subsets] == COUNTS[name]
    assert all(subset.sentences and np.isfinite(subset.gold).all() for subset in task.subsets)


def test_the_other_splits_come_along_where_there_are_any(senteval: Path):
    assert len(load_sts_b_dev(senteval)) == 1500
    assert len(load_task(senteval, "STS-B").others) == 2 * (5749 + 1500)
    assert len(load_task(senteval, "SICK-R").others) == 2 * (4500 + 500)
    assert load_task(senteval, "STS12").others == ()


def _sts16(folder: Path, name: str, lines: str, gold: str) -> None:
    path = folder / "downstream" / "STS" / "STS16-en-test"
    path.mkdir(parents=True, exist_ok=True)
    (path / f"STS.input.{name}.txt").write_bytes(lines.encode())
    (path / f"STS.gs.{name}.txt").write_bytes(gold.encode())


def test_sts_is_sorted_cut_to_two_columns_and_rows_without_gold_are_dropped(tmp_path: Path):
    for name in ("headlines", "plagiarism", "postediting", "question-question"):
        _sts16(tmp_path, name, "a b\tc\n", "1\n")
    lines = "one two\tx\tsource\nfour\tfive  six\nnel\u0085 and\u2028 more\tx\nfour\tseven eight\nlong one\tx\n"
    _sts16(tmp_path, "answer-answer", lines, "3\n5\n\n2.5\n1\n")
    subset = load_task(tmp_path, "STS16").subsets[0]
    pairs = list(zip(subset.first, subset.second, subset.gold.tolist(), strict=True))
    assert pairs == [
        ("four", "seven eight", 2.5),
        ("four", "five six", 5.0),
        ("long one", "x", 1.0),
        ("one two", "x", 3.0),
    ]


def test_a_line_separator_inside_a_sentence_does_not_part_it_from_its_score(tmp_path: Path):
    path = tmp_path / "dev.tsv"
    path.write_text("a\u0085b \u2028 c\td\t1\ne\tf\t2\n", encoding="utf-8")
    subset = load_pairs(path)
    assert subset.first == ["a b c", "e"]
    assert subset.gold.tolist() == [1, 2]


def test_quotes_are_text(tmp_path: Path):
    path = tmp_path / "dev.tsv"
    path.write_text('"a "b\tc"\t1\r\nd\te\t2\r\n', encoding="utf-8")
    assert load_pairs(path).first == ['"a "b', "d"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\t1\nc\td\n", r"line 2: 3 columns"),
        ("a\tb\t1\nc\td\t \n", r"line 2: 3 columns"),
        ("a\tb\tscore\n", r"line 1: the score 'score' is no number"),
        ("a\tb\t1\n\nc\td\tnan\n", r"line 3: the score 'nan' is no number"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: str, message: str):
    path = tmp_path / "dev.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        load_pairs(path)


def test_missing_files_and_unknown_tasks_are_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"STS\.input\.MSRpar\.txt is missing"):
        load_task(tmp_path, "STS12")
    with pytest.raises(DataError, match=r"dev\.tsv is missing"):
        load_pairs(tmp_path / "dev.tsv")
    with pytest.raises(OptionError, match="STS12, STS13"):
        load_task(tmp_path, "STS17")
    _sts16(tmp_path, "answer-answer", "a\tb\n", "1\n2\n")
    with pytest.raises(DataError, match="do not belong together"):
        load_task(tmp_path, "STS16")
