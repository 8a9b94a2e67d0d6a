"""Suite gpu: FastEncoder in fp16 and torch's SDPA on a card, from text, against its measured matrix rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import transformers
from contenders import Contender
from gate import Field, gate, timed
from gpu_rates import NEEDS_CUDA, matrix_rate
from job import Encode, Job, Row, Setting, Vectors, failure
from measure import median
from peers_ours import ours
from peers_torch import in_batches
from sentences import text_of
from workspace import exported

from ditto_fast import FastEncoder
from ditto_fast.kernels import DittoPooling

TOKENS = 128
_TEXTS, _QUICK_TEXTS = 8192, 512
_CHECKED = 64  # texts that the CPU encodes too
_CASE = f"T = {TOKENS}"


def encoder_flops(config: Any, tokens: int) -> float:
    """Multiplications and additions of one text of so many tokens: the products with weights, and attention's."""
    hidden, inner = config.hidden_size, config.intermediate_size
    each_token = 2 * (4 * hidden**2 + 2 * hidden * inner) + 4 * tokens * hidden
    return float(config.num_hidden_layers * tokens * each_token)


def torch_half(setting: Setting, device: str = "cuda", batch: int = 128) -> Encode:
    """DittoPooling on torch's SDPA, fp16 on a card."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(setting.checkpoint)
    dtype = torch.float16 if device == "cuda" else torch.float32
    encoder = transformers.AutoModel.from_pretrained(setting.checkpoint, dtype=dtype)
    pooling = DittoPooling(encoder.eval().to(device), setting.head)
    cut: Any = {"truncation": True, "max_length": setting.max_seq_length}

    def embed(sentences: list[str]) -> Vectors:
        inputs = tokenizer(sentences, padding=True, return_tensors="pt", **cut).to(device)
        with torch.inference_mode():
            vectors: Vectors = pooling(**inputs).float().cpu().numpy()
        return vectors

    return in_batches(embed, batch, by_length=True)


def ours_half(setting: Setting) -> Encode:
    """FastEncoder on the fp16 head graph and CUDA, pooled by the kernel; an error where that cannot be."""
    outputs = ("tokens", "embedding", "head")
    folder = exported(setting.checkpoint, setting.head, precision=("fp32", "fp16"), outputs=outputs)
    return FastEncoder(
        folder,
        pooling_backend="triton",
        precision="fp16",
        max_seq_length=setting.max_seq_length,
        providers="cuda",
    ).encode


CONTENDERS = (
    Contender("torch-fp16", "torch, SDPA, fp16", "DittoPooling, batches of 128", torch_half, ours, precision="fp16"),
    Contender("fp16", "ditto_fast, fp16", "FastEncoder on CUDA, its defaults", ours_half, ours, precision="fp16"),
)


def suite(job: Job) -> Iterator[Row]:
    """The card's matrix rate, then a row a contender; one row that says so where there is no CUDA."""
    if not torch.cuda.is_available():
        yield {"case": _CASE, "contender": "fp16", "missing": NEEDS_CUDA}
        return
    rate, products = matrix_rate("cuda", 10, torch.float16)
    yield {"case": "device", "contender": "matmul", "seconds": products, "tflops": rate / 1e12}
    texts = [text_of(TOKENS, seed) for seed in range(_QUICK_TEXTS if job.quick else _TEXTS)]
    setting = replace(job.setting, max_seq_length=TOKENS)
    config = transformers.AutoConfig.from_pretrained(setting.checkpoint)
    admitted = _admitted(setting, texts)
    for row in timed(admitted, texts, _CASE, job.rounds):
        if row.get("seconds"):
            achieved = encoder_flops(config, TOKENS) * len(texts) / median(row["seconds"])
            row |= {"tflops": achieved / 1e12, "of_floor": achieved / rate, "gpu": torch.cuda.get_device_name()}
        yield row


def _admitted(setting: Setting, texts: list[str]) -> Field:
    """The contenders whose vectors of the first texts are those that fp32 gives on the CPU."""
    admitted = Field()
    expected = ours(setting)(texts[:_CHECKED])
    for contender in CONTENDERS:
        try:
            encode = contender.build(setting)
            admitted.checks[contender.key] = gate(contender, encode(texts)[:_CHECKED], expected)
            admitted.encoders[contender.key] = encode
        except Exception as error:  # of any library: it becomes a row
            admitted.rows.append(failure(_CASE, contender.key, error))
    return admitted
