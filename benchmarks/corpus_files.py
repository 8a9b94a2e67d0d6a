"""Files of many rows, for suite scale: peak memory of encode_corpus by rows, and its time beside that of encode."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from contenders import BY_KEY
from gate import gate
from job import Job, Row, failure
from measure import in_process, interleaved
from sentences import synthetic_sentences

from ditto_fast import FastEncoder
from ditto_fast.corpora import encode_corpus
from ditto_fast.corpora.shards import EMBEDDING, batches, find_shards, vectors

CORPUS = "corpus"
ENCODER = "int8"  # the faster the model, the more reading and writing weigh
RACE = "a file, and a call"
ROWS = (10_000, 100_000, 1_000_000)
_SENTENCES = 20_000  # of the race
_QUICK = 1_000


def case_of(rows: int) -> str:
    """The case of a file of so many short rows."""
    return f"file of {rows} rows"


def corpus_rows(job: Job) -> Iterator[Row]:
    """Rows with memory, each from a process of its own; then two with times."""
    where = [str(job.setting.export), BY_KEY[ENCODER].precision, str(job.setting.threads)]
    for rows in (_QUICK,) if job.quick else ROWS:
        try:
            found = in_process(Path(__file__).with_name("corpus_probe.py"), [*where, str(rows)])
            yield {"case": case_of(rows), "contender": CORPUS, **found}
        except Exception as error:  # whatever ended that process: it becomes a row
            yield failure(case_of(rows), CORPUS, error)
    try:
        yield from _race(job, synthetic_sentences(_QUICK if job.quick else _SENTENCES))
    except Exception as error:
        yield failure(RACE, CORPUS, error)


def _race(job: Job, texts: list[str]) -> Iterator[Row]:
    """Times encode of the texts and encode_corpus, which reads them from a file and writes shards."""
    contender = BY_KEY[ENCODER]
    with (
        FastEncoder(job.setting.export, precision=contender.precision, num_threads=job.setting.threads) as encoder,
        TemporaryDirectory() as temporary,
    ):
        source, shards = Path(temporary) / "texts.txt", Path(temporary) / "shards"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")

        def corpus() -> None:
            shutil.rmtree(shards, ignore_errors=True)
            encode_corpus(source, encoder, shards)

        corpus()
        found = np.concatenate([vectors(batch)[0] for _, batch in batches(find_shards(shards), [EMBEDDING])])
        checks = gate(contender, found, encoder.encode(texts))
        samples = interleaved({ENCODER: lambda: encoder.encode(texts), CORPUS: corpus}, job.rounds)
    for key, seconds in samples.items():
        yield {"case": RACE, "contender": key, "sentences": len(texts), "seconds": seconds, **checks}
