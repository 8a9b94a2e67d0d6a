"""Ditto on a PyTorch encoder as it stands: q and k of one layer are tapped, attention stays as it was loaded.

e = 1/2 sum_i A_ii (h0_i + hL_i)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from ditto_fast.errors import UnsupportedModelError
from ditto_fast.heads import Head
from ditto_fast.kernels.pooling import ditto_pool


class DittoPooling(nn.Module):
    """Sentence embeddings from a BERT-like encoder, with SDPA in every layer and no attention returned.

    BERT-like: `encoder.layer[i].attention.self` has `query` and `key` projections (BERT, RoBERTa, XLM-R,
    CamemBERT, ELECTRA). A SentenceTransformer holds one: `DittoPooling(model[0].auto_model, head)`.

    Args:
        encoder: A transformers encoder, such as AutoModel loads, in evaluation mode.
        head: "L-H", both counted from 1, or a `Head`.
        normalize: Whether to divide each embedding by its L2 norm.

    Raises:
        UnsupportedModelError: The encoder is not BERT-like, or adds relative positions to its scores.
        HeadError: The encoder has no such head.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(
        ...     vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
        ... )
        >>> pooling = DittoPooling(BertModel(config).eval(), "1-2")
        >>> pooling(torch.tensor([[2, 5, 3]]), torch.tensor([[1, 1, 1]])).shape
        torch.Size([1, 8])
    """

    def __init__(self, encoder: nn.Module, head: str | Head, *, normalize: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = Head.parse(head) if isinstance(head, str) else head
        self.normalize = normalize
        try:
            layers: Any = encoder.get_submodule("encoder.layer")
            attentions: list[Any] = [layer.attention.self for layer in layers]
            num_heads = attentions[0].num_attention_heads
            self.head.check(len(attentions), num_heads)
            attention = attentions[self.head.layer - 1]
            self._head_dim = int(attention.attention_head_size)
            self._taps = {"query": attention.query, "key": attention.key}
        except AttributeError as error:
            raise UnsupportedModelError(
                f"DittoPooling needs a BERT-like encoder (encoder.layer[i].attention.self.query); got "
                f"{type(encoder).__name__}: {error}. Call ditto_pool with q and k of your own."
            ) from error
        if getattr(attention, "position_embedding_type", "absolute") != "absolute":
            raise UnsupportedModelError(
                f"DittoPooling needs absolute positions; {type(encoder).__name__} has "
                f"{attention.position_embedding_type!r}. Call ditto_pool with that bias."
            )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Embeds a tokenized batch.

        Args:
            input_ids: (B, T).
            attention_mask: (B, T), 1 on real tokens.
            token_type_ids: (B, T), for models that have them.

        Returns:
            Embeddings (B, H) float32.
        """
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        with self._record() as recorded:
            last = self.encoder(**inputs, return_dict=True).last_hidden_state
        columns = slice((self.head.number - 1) * self._head_dim, self.head.number * self._head_dim)
        return ditto_pool(
            recorded["query"][..., columns],
            recorded["key"][..., columns],
            recorded["first"],
            last,
            attention_mask=attention_mask,
            normalize=self.normalize,
        )

    @contextmanager
    def _record(self) -> Iterator[dict[str, Tensor]]:
        """Yields a dict that holds, once the encoder has run, the tapped layer's query and key, and h0."""
        recorded: dict[str, Tensor] = {}

        def record_output(name: str, module: nn.Module) -> Any:
            def hook(_: nn.Module, _args: Any, output: Tensor) -> None:
                recorded[name] = output

            return module.register_forward_hook(hook)

        def record_first(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            recorded["first"] = args[0] if args else kwargs["hidden_states"]

        handles = [record_output(name, module) for name, module in self._taps.items()]
        # The encoder's input is h0 also in ELECTRA, which projects its embeddings first.
        stack: Any = self.encoder.encoder
        handles.append(stack.register_forward_pre_hook(record_first, with_kwargs=True))
        try:
            yield recorded
        finally:
            for handle in handles:
                handle.remove()
