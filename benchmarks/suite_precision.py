"""Suite precision: what int8 gains in time and costs in quality, and whether company changes a vector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from contenders import OURS, chosen
from gate import admit, timed
from gemm_floor import floors
from job import Encode, Job, Row
from scipy.stats import spearmanr

from ditto_fast.similarity import similarity_pairwise

CASE = "precision"
_AMONG = ("eager", "st-onnx-int8", "openvino-int8", "fp32", "int8")
_SCORED = ("openvino-int8", *OURS)  # of the same pooling; fp32 has just been found equal to eager
_ALONE = 256  # sentences that are encoded alone as well


def spearman(encode: Encode, path: Path) -> float:
    """Spearman x100 of the cosines with the gold scores of an STS-B file."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    first, second = np.split(encode([row[5] for row in rows] + [row[6].strip() for row in rows]), 2)
    gold = [float(row[4]) for row in rows]
    return 100 * float(spearmanr(similarity_pairwise(first, second), gold).statistic)


def cosine_alone(encode: Encode, texts: list[str]) -> float:
    """Smallest cosine of a text's vector computed alone with the one it gets among others."""
    alone = np.concatenate([encode([text]) for text in texts[:_ALONE]])
    return float(similarity_pairwise(alone, encode(texts)[:_ALONE]).min())


def suite(job: Job) -> Iterator[Row]:
    """A row a precision, and the peers' own int8; those of our pooling are scored where SentEval's data is."""
    admitted = admit(chosen(job, _AMONG), job.setting, job.texts, CASE)
    for row in timed(admitted, job.texts, CASE, job.rounds, floors(job.setting, job.texts)):
        encode = admitted.encoders.get(row["contender"])
        if encode is not None:
            row["cosine_alone"] = cosine_alone(encode, job.texts)
            if row["contender"] in _SCORED and job.senteval is not None and not job.quick:
                folder = job.senteval / "downstream" / "STS" / "STSBenchmark"
                row["spearman_dev"] = spearman(encode, folder / "sts-dev.csv")
                row["spearman_test"] = spearman(encode, folder / "sts-test.csv")
        yield row
