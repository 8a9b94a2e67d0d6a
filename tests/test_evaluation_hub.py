"""The hub's sets: the table against MTEB's own where it is installed, and the loader without a network."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from ditto_fast.errors import DataError
from ditto_fast.evaluation.hub import HUB_SETS, HubSet, load_hub_task


def _hub(monkeypatch, answer) -> None:
    module = ModuleType("datasets")
    module.load_dataset = answer
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_columns_become_pairs_at_the_pinned_revision(monkeypatch):
    asked = []

    def answer(dataset: str, *, revision: str, split: str) -> dict[str, list[object]]:
        asked.append((dataset, revision, split))
        return {"sentence1": ["a  b", "c"], "sentence2": ["d", "e"], "score": [1, 2.5]}

    _hub(monkeypatch, answer)
    monkeypatch.setitem(HUB_SETS, "STS13", HubSet("owner/name", "0123", 2))
    (subset,) = load_hub_task("STS13").subsets
    assert asked == [("owner/name", "0123", "test")]
    assert (subset.first, subset.second, subset.gold.tolist()) == (["a b", "c"], ["d", "e"], [1, 2.5])
    monkeypatch.setitem(HUB_SETS, "STS13", HubSet("owner/name", "0123", 3))
    with pytest.raises(DataError, match="2 pairs where the protocol has 3"):
        load_hub_task("STS13")


def test_what_the_hub_cannot_give_is_said(monkeypatch):
    with pytest.raises(DataError, match="merges its splits"):
        load_hub_task("SICK-R")

    def unreachable(*_, **__):
        raise ConnectionError("no network")

    _hub(monkeypatch, unreachable)
    with pytest.raises(DataError, match=r"no network.*--senteval"):
        load_hub_task("STS12")


def test_the_table_is_mtebs():
    mteb = pytest.importorskip("mteb", minversion="2", reason="mteb is not installed: pip install 'mteb>=2'")
    for name, entry in HUB_SETS.items():
        dataset = mteb.get_task("STSBenchmark" if name == "STS-B" else name).metadata.dataset
        assert (dataset["path"], dataset["revision"]) == (entry.dataset, entry.revision)
