"""Seeded random checkpoints, one a family: small, but with attention that tells heads apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The ferry left the harbour before sunrise and the old bridge was closed to cars.",
    "Who repaired the piano in the school hall? A committee of teachers met twice in the spring.",
    "Prices rose by 3.5 % in 2021 but wages did not; nobody wanted to see it pulled down.",
    "word a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 . , ! ? ' - ;",
]
_SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.15,  # at the usual 0.02 all heads are uniform and a wrong head would pass
}


def _wordpiece() -> transformers.PreTrainedTokenizerFast:
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer()
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    raw.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.BertTokenizerFast(tokenizer_object=raw)


def _byte_bpe() -> transformers.PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    )
    raw.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return transformers.RobertaTokenizerFast(tokenizer_object=raw)


@dataclass(frozen=True)
class Family:
    """A model type: its config class, what its config needs beyond the common sizes, its tokenizer."""

    config: Callable[..., Any]
    options: dict[str, Any]
    tokenizer: Callable[[], Any]


FAMILIES: dict[str, Family] = {
    "bert": Family(transformers.BertConfig, {"max_position_embeddings": 64}, _wordpiece),
    "roberta": Family(
        transformers.RobertaConfig,
        {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1},
        _byte_bpe,
    ),
    "electra": Family(transformers.ElectraConfig, {"max_position_embeddings": 64, "embedding_size": 48}, _wordpiece),
    "electra-projected": Family(
        transformers.ElectraConfig, {"max_position_embeddings": 64, "embedding_size": 16}, _wordpiece
    ),
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


def eager_reference(folder: Path, inputs: dict[str, np.ndarray], layer: int, number: int) -> dict[str, np.ndarray]:
    """The outputs of an export, by transformers alone, in fp64."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").double().eval()
    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
    with torch.no_grad():
        outputs = model(**tensors, output_attentions=True, output_hidden_states=True)
    mask = tensors["attention_mask"].double()
    diagonal = torch.stack([a[number - 1].diagonal() for a in outputs.attentions[layer - 1]]) * mask
    first, last = outputs.hidden_states[0], outputs.hidden_states[-1]
    rows = [sum(d[i] * (f[i] + h[i]) / 2 for i in range(len(d))) for d, f, h in zip(diagonal, first, last, strict=True)]
    return {
        "attention_diagonal": diagonal.numpy(),
        "first_hidden_state": first.numpy(),
        "last_hidden_state": last.numpy(),
        "sentence_embedding": torch.stack(rows).numpy(),
    }
