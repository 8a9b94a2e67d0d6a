from __future__ import annotations

from enum import Enum

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ditto_fast.errors import TextTypeError, TextValueError
from ditto_fast.streams import chunks_of
from ditto_fast.texts import as_texts


class _Column:
    """A lazily indexed column: a length and items by position, nothing else."""

    def __len__(self):
        return 2

    def __getitem__(self, index: int):
        return ["a", "c"][index]


ACCEPTED = {
    "list": ["a", "c"],
    "tuple": ("a", "c"),
    "array": np.array(["a", "c"]),
    "object array": np.array(["a", "c"], object),
    "Series": pd.Series(["a", "c"]),
    "Series with gaps": pd.Series(["a", "c"], index=[0, 2]),
    "Series with labels": pd.Series(["a", "c"], index=["x", "y"]),
    "generator": (text for text in ["a", "c"]),
    "column": _Column(),
    "Arrow array": pa.array(["a", "c"]),
    "Arrow column": pa.chunked_array([["a"], ["c"]]),
}


class _Colour(str, Enum):
    RED = "red"


class _Anycase(str):
    def __eq__(self, other):
        return str(self).lower() == str(other).lower()

    def __hash__(self):
        return hash(str(self).lower())


@pytest.mark.parametrize("name", ACCEPTED)
def test_sequences_are_taken_by_position(name: str):
    assert as_texts(ACCEPTED[name]) == (["a", "c"], False)


@pytest.mark.parametrize("text", ["hello", np.str_("hello"), np.array("hello")])
def test_one_string_is_one_text(text):
    assert as_texts(text) == (["hello"], True)


def test_a_string_is_itself_whatever_its_class_makes_of_it():
    assert as_texts(_Colour.RED) == (["red"], True)
    texts, _ = as_texts([_Colour.RED, _Anycase("A"), _Anycase("a"), np.str_("b")])
    assert texts == ["red", "A", "a", "b"]
    assert {type(text) for text in texts} == {str}
    assert len(set(texts)) == 4


@pytest.mark.parametrize("value", [{"a": 1}, {"a"}, pd.DataFrame({"text": ["a", "b"]}), b"a"])
def test_a_stream_refuses_what_a_call_refuses(value):
    with pytest.raises(TextTypeError, match=type(value).__name__):
        as_texts(value)
    with pytest.raises(TextTypeError, match=type(value).__name__):
        next(chunks_of(value, 2))


def test_a_stream_takes_a_column():
    assert list(chunks_of(_Column(), 1)) == [["a"], ["c"]]


def test_a_stream_takes_an_arrow_column_by_parts():
    """One that is mapped from a file may be larger than memory."""
    texts = [f"text {i}" for i in range(20_000)]
    asked = []

    class Column:
        __module__ = "pyarrow.lib"

        def __len__(self):
            return len(texts)

        def slice(self, start: int, length: int):
            asked.append(start)
            return pa.array(texts).slice(start, length)

        def to_pylist(self):
            raise AssertionError("all at once")

    chunks = chunks_of(Column(), 5000)
    assert next(chunks) == texts[:5000]
    assert asked == [0]
    assert [text for chunk in chunks for text in chunk] == texts[5000:]
    assert as_texts(pa.chunked_array([texts[:9000], texts[9000:]]))[0] == texts


def test_another_librarys_column_has_a_slice_of_its_own():
    class Column:
        def to_pylist(self):
            return ["a", "c"]

        def slice(self, start: int, end: int):
            raise AssertionError(f"from {start} to {end}, and no length")

    assert as_texts(Column())[0] == ["a", "c"]


@pytest.mark.parametrize("value", [{"a": 1}, {"a"}, frozenset(["a"]), b"a", bytearray(b"a"), 3, None, 2.5])
def test_containers_without_order_and_other_types_are_refused(value):
    with pytest.raises(TextTypeError, match=type(value).__name__):
        as_texts(value)


@pytest.mark.parametrize("bad", [float("nan"), None, 3, b"x", ["nested"], pd.NA])
def test_a_bad_item_is_named_by_position_and_type(bad):
    with pytest.raises(TextTypeError, match=rf"item 1: {type(bad).__name__}"):
        as_texts(["a", bad])


def test_arrays_of_other_dimensions_are_refused():
    with pytest.raises(TextTypeError, match=r"\(1, 2\)"):
        as_texts(np.array([["a", "b"]]))


def test_a_lone_surrogate_is_named():
    with pytest.raises(TextValueError, match="item 2"):
        as_texts(["a", "ü", "x\ud800"])
