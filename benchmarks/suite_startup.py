"""Suite startup: the import, and a cold process to its first vector."""

from __future__ import annotations

from collections.abc import Iterator

from contenders import chosen
from job import Job, Row
from measure import fresh_process_seconds

_IMPORTS = {"fp32": "import ditto_fast", "st": "import sentence_transformers"}
_COLD = {
    "fp32": "from ditto_fast import FastEncoder; FastEncoder({export!r}).encode('One sentence.')",
    "st": "from sentence_transformers import SentenceTransformer; "
    "SentenceTransformer({checkpoint!r}, device='cpu').encode('One sentence.')",
}


def suite(job: Job) -> Iterator[Row]:
    """Ours and sentence-transformers: seconds that an interpreter alone would not need, and of whole processes."""
    paths = {"export": str(job.setting.export), "checkpoint": str(job.setting.checkpoint)}
    keys = [contender.key for contender in chosen(job, tuple(_COLD)) if not contender.missing()]
    for case, codes in (("import", _IMPORTS), ("cold", _COLD)):
        statements = {key: codes[key].format(**paths) for key in keys}
        for key, seconds in fresh_process_seconds(statements, job.rounds, inside=case == "import").items():
            yield {"case": case, "contender": key, "seconds": seconds}
