"""Suite startup: the import, and a cold process to its first vector."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from contenders import chosen, missing_rows
from gate import gate
from job import Job, Row, failure
from measure import fresh_process_seconds, printed

_IMPORTS = {"fp32": "import ditto_fast", "st": "import sentence_transformers"}
_COLD = {
    "fp32": "from ditto_fast import FastEncoder; "
    "vector = FastEncoder({export!r}, num_threads={threads}).encode({text!r})",
    "st": "import torch; torch.set_num_threads({threads}); from sentence_transformers import SentenceTransformer; "
    "vector = SentenceTransformer({checkpoint!r}, device='cpu').encode({text!r}, normalize_embeddings=True)",
}
_TEXT = "One sentence."
_PRINTED = "{}; import json; print(json.dumps(vector.tolist()))"


def suite(job: Job) -> Iterator[Row]:
    """Ours and sentence-transformers: seconds that an interpreter alone would not need, and of whole processes.

    What a cold process gives is checked first, and who fails there is not timed.
    """
    contenders = chosen(job, tuple(_COLD))
    yield from missing_rows(contenders, "import")  # who is missing is so once
    contenders = [contender for contender in contenders if not contender.missing()]
    yield from _timed("import", {contender.key: _IMPORTS[contender.key] for contender in contenders}, job.rounds)
    setting, statements = job.setting, {}
    for contender in contenders:
        statement = _COLD[contender.key].format(
            export=str(setting.export), checkpoint=str(setting.checkpoint), threads=setting.threads, text=_TEXT
        )
        try:
            vector = np.array([printed(_PRINTED.format(statement))], np.float32)
            gate(contender, vector, contender.expected(setting)([_TEXT]))
            statements[contender.key] = statement
        except Exception as error:  # whatever ended that process: it becomes a row
            yield failure("cold", contender.key, error)
    yield from _timed("cold", statements, job.rounds)


def _timed(case: str, statements: dict[str, str], rounds: int) -> Iterator[Row]:
    errors: dict[str, Exception] = {}
    for key, seconds in fresh_process_seconds(statements, rounds, case == "import", errors).items():
        yield {"case": case, "contender": key, "seconds": seconds}
    yield from (failure(case, key, error) for key, error in errors.items())
