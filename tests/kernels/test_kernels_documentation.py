"""The examples in docstrings and in docs/kernels.md run, and every public function has one."""

import doctest
import importlib

import pytest

from ditto_fast import kernels

MODULES = ["checks", "diagonals", "modules", "packed", "pooling", "roofline", "settings"]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"ditto_fast.kernels.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", kernels.__all__)
def test_every_public_name_shows_an_example_its_shapes_and_its_errors(name):
    text = getattr(kernels, name).__doc__
    for part in (">>>", "Args:", "Raises:", "("):
        assert part in text


def test_the_page_s_examples(docs):
    result = doctest.testfile(str(docs), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
