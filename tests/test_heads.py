from __future__ import annotations

import pytest

from ditto_fast.errors import HeadError
from ditto_fast.heads import PAPER_MODELS, Head, resolve_head


def test_the_paper_heads_are_those_of_the_authors_script():
    # science.md: 0-based (layer, head) of run_eval_ditto.sh
    zero_based = {"bert-base": (0, 9), "roberta-base": (0, 4), "electra-base": (0, 10), "sbert-base": (2, 6)}
    heads = {name: model.head for name, model in PAPER_MODELS.items() if model.head is not None}
    assert {name: (head.layer - 1, head.number - 1) for name, head in heads.items()} == zero_based


@pytest.mark.parametrize(
    "text", ["1.10", "0-3", "3-0", "-1-3", "1", "", "1-2-3", "a-b", "01-2", "1-10x", "\u0661-\u0662"]
)
def test_other_forms_are_refused_and_shown(text: str):
    with pytest.raises(HeadError, match="LAYER-HEAD") as error:
        Head.parse(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("head", [Head(7, 1), Head(1, 13), Head(0, 1)])
def test_out_of_range_says_the_range(head: Head):
    with pytest.raises(HeadError, match="1-1 to 6-12"):
        head.check(num_layers=6, num_heads=12)


def test_a_head_may_be_left_out_only_for_the_paper_models():
    assert resolve_head("roberta-base", None) == Head(1, 5)
    assert resolve_head("bert-base-uncased", None) == Head(1, 10)
    assert resolve_head("bert-base", "2-2") == Head(2, 2)
    with pytest.raises(HeadError, match="--head"):
        resolve_head("some/other", None)
    with pytest.raises(HeadError, match="only for bert-base, roberta-base, electra-base, sbert-base"):
        resolve_head("simcse-sup-bert-base", None)
