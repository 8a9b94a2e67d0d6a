"""Seeded random checkpoints, one a family: small, but with attention that tells heads apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tiny_tokenizers import byte_bpe, unigram, wordpiece

_SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.15,  # at the usual 0.02 all heads are uniform and a wrong head would pass
}


@dataclass(frozen=True)
class Family:
    """A model type.

    Args:
        config: Its config class.
        options: What the config needs beyond the common sizes.
        tokenizer: Makes a tokenizer of the kind that such checkpoints have.
        heads: Heads to test, of the first layer and the last.
        fp64: Whether the model's code can run in fp64.
        fused: Whether "full" optimisation is to fuse the attention of every layer.
    """

    config: Callable[..., Any]
    options: dict[str, Any]
    tokenizer: Callable[[], Any]
    heads: tuple[str, ...] = ("1-1", "3-4")
    fp64: bool = True
    fused: bool = False


_FROM_0 = {"max_position_embeddings": 64}
_FROM_2 = {"max_position_embeddings": 66, "pad_token_id": 1}
_ONE_TYPE = {**_FROM_2, "type_vocab_size": 1}
_EVERY = ("1-1", "2-3", "3-4")

FAMILIES: dict[str, Family] = {
    "bert": Family(transformers.BertConfig, _FROM_0, wordpiece, _EVERY, fused=True),
    "roberta": Family(transformers.RobertaConfig, _ONE_TYPE, byte_bpe, _EVERY, fused=True),
    "electra": Family(transformers.ElectraConfig, {**_FROM_0, "embedding_size": 48}, wordpiece, _EVERY, fused=True),
    "electra-projected": Family(transformers.ElectraConfig, {**_FROM_0, "embedding_size": 16}, wordpiece, fused=True),
    "bert-relative": Family(
        transformers.BertConfig, {**_FROM_0, "position_embedding_type": "relative_key_query"}, wordpiece
    ),
    "ernie": Family(transformers.ErnieConfig, _FROM_0, wordpiece, fused=True),
    "megatron-bert": Family(transformers.MegatronBertConfig, _FROM_0, wordpiece),
    "xlm-roberta": Family(transformers.XLMRobertaConfig, _ONE_TYPE, unigram, fused=True),
    "camembert": Family(transformers.CamembertConfig, _ONE_TYPE, unigram, fused=True),
    "data2vec-text": Family(transformers.Data2VecTextConfig, _ONE_TYPE, byte_bpe, fused=True),
    "roberta-prelayernorm": Family(transformers.RobertaPreLayerNormConfig, _ONE_TYPE, byte_bpe, fused=True),
    "xlm-roberta-xl": Family(transformers.XLMRobertaXLConfig, _ONE_TYPE, unigram, fused=True),
    "rembert": Family(transformers.RemBertConfig, {**_FROM_0, "input_embedding_size": 16}, unigram, fused=True),
    "albert": Family(transformers.AlbertConfig, {**_FROM_0, "embedding_size": 16}, unigram, _EVERY),
    "albert-groups": Family(
        transformers.AlbertConfig, {**_FROM_0, "num_hidden_layers": 4, "num_hidden_groups": 2}, unigram, ("3-1", "4-4")
    ),
    "distilbert": Family(transformers.DistilBertConfig, {**_FROM_0, "hidden_dim": 64}, wordpiece, fused=True),
    "mobilebert": Family(
        transformers.MobileBertConfig,
        {**_FROM_0, "embedding_size": 16, "true_hidden_size": 24, "intra_bottleneck_size": 24},
        wordpiece,
    ),
    "mpnet": Family(transformers.MPNetConfig, _FROM_2, byte_bpe),
    "deberta": Family(
        transformers.DebertaConfig, {**_FROM_0, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, byte_bpe
    ),
    "deberta-v2": Family(
        transformers.DebertaV2Config,
        {
            **_FROM_0,
            "relative_attention": True,
            "position_buckets": 8,
            "pos_att_type": ["p2c", "c2p"],
            "share_att_key": True,
            "position_biased_input": False,
            "norm_rel_ebd": "layer_norm",
        },
        unigram,
    ),
    # fp64 turns the masks' lowest value into -inf, since the softmax is fp32 by its code: NaN on padding
    "modernbert": Family(
        transformers.ModernBertConfig,
        {**_FROM_0, "local_attention": 8, "pad_token_id": 1, "reference_compile": True},
        byte_bpe,
        _EVERY,
        fp64=False,
    ),
    "xlm": Family(transformers.XLMConfig, {**_FROM_0, "embed_init_std": 0.15, "init_std": 0.15}, byte_bpe),
}


def write_checkpoint(name: str, folder: Path, **overrides: Any) -> Path:
    """Saves a random checkpoint of the family and returns its folder."""
    family = FAMILIES[name]
    tokenizer = family.tokenizer()
    torch.manual_seed(0)
    config = family.config(vocab_size=len(tokenizer), **{**_SIZES, **family.options, **overrides})
    model = transformers.AutoModel.from_config(config)
    for parameter in model.parameters():  # biases start at 0 in transformers: a lost bias would pass
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.1)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@cache
def _eager_model(folder: Path, fp64: bool) -> Any:
    dtype = torch.float64 if fp64 else torch.float32
    return transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()


def eager_reference(
    folder: Path, inputs: dict[str, np.ndarray], layer: int, number: int, fp64: bool = True
) -> dict[str, np.ndarray]:
    """The outputs of an export, by transformers alone, in fp64 where the model's code can."""
    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
    with torch.no_grad():
        outputs = _eager_model(folder, fp64)(**tensors, output_attentions=True, output_hidden_states=True)
    mask = tensors["attention_mask"]
    diagonal = torch.stack([a[number - 1].diagonal() for a in outputs.attentions[layer - 1]]) * mask
    first, last = outputs.hidden_states[0], outputs.last_hidden_state
    rows = [sum(d[i] * (f[i] + h[i]) / 2 for i in range(len(d))) for d, f, h in zip(diagonal, first, last, strict=True)]
    return {
        "attention_diagonal": diagonal.numpy(),
        "first_hidden_state": first.numpy(),
        "last_hidden_state": last.numpy(),
        "sentence_embedding": torch.stack(rows).numpy(),
    }
