"""RoBERTa and its descendants: BERT's encoder, with positions that count from the padding index + 1."""

from __future__ import annotations

from typing import Any, ClassVar

from ditto_fast.export.architectures.bert import Bert


class Roberta(Bert):
    """The position table's first rows, to that of padding, serve no token."""

    model_types: ClassVar[tuple[str, ...]] = (
        "roberta",
        "xlm-roberta",
        "camembert",
        "data2vec-text",
        "roberta-prelayernorm",
        "xlm-roberta-xl",
    )

    def max_positions(self, config: Any) -> int:
        """Rows of the position table after the padding row."""
        return int(config.max_position_embeddings - config.pad_token_id - 1)
