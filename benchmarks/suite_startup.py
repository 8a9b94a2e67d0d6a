"""Suite startup: the import, and a cold process to its first vector."""

from __future__ import annotations

from collections.abc import Iterator

from contenders import chosen, missing_rows
from job import Job, Row, failure
from measure import fresh_process_seconds

_IMPORTS = {"fp32": "import ditto_fast", "st": "import sentence_transformers"}
_COLD = {
    "fp32": "from ditto_fast import FastEncoder; "
    "FastEncoder({export!r}, num_threads={threads}).encode('One sentence.')",
    "st": "import torch; torch.set_num_threads({threads}); from sentence_transformers import SentenceTransformer; "
    "SentenceTransformer({checkpoint!r}, device='cpu').encode('One sentence.')",
}


def suite(job: Job) -> Iterator[Row]:
    """Ours and sentence-transformers: seconds that an interpreter alone would not need, and of whole processes."""
    setting = job.setting
    values = {"export": str(setting.export), "checkpoint": str(setting.checkpoint), "threads": setting.threads}
    contenders = chosen(job, tuple(_COLD))
    yield from missing_rows(contenders, "import")  # who is missing is so once
    for case, codes in (("import", _IMPORTS), ("cold", _COLD)):
        statements = {each.key: codes[each.key].format(**values) for each in contenders if not each.missing()}
        errors: dict[str, Exception] = {}
        for key, seconds in fresh_process_seconds(statements, job.rounds, case == "import", errors).items():
            yield {"case": case, "contender": key, "seconds": seconds}
        yield from (failure(case, key, error) for key, error in errors.items())
