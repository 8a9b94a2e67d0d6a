"""Small tokenizers of the three kinds, trained on a few sentences."""

from __future__ import annotations

import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The ferry left the harbour before sunrise and the old bridge was closed to cars.",
    "Who repaired the piano in the school hall? A committee of teachers met twice in the spring.",
    "Prices rose by 3.5 % in 2021 but wages did not; nobody wanted to see it pulled down.",
    "word a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 . , ! ? ' - ;",
]


def wordpiece() -> transformers.PreTrainedTokenizerFast:
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


def byte_bpe() -> transformers.PreTrainedTokenizerFast:
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


def unigram() -> transformers.PreTrainedTokenizerFast:
    """What a sentencepiece tokenizer becomes."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    raw = Tokenizer(models.Unigram())
    raw.normalizer = normalizers.NFKC()
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    raw.train_from_iterator(
        CORPUS, trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>"
    )
