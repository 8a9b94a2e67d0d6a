"""Suite budget: tokens of a batch, and threads across batches or inside one: what CPU_RULE rests on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from job import Job, Row, Setting
from measure import interleaved
from peers_ours import encoder_of

from ditto_fast import FastEncoder
from ditto_fast.batches import CPU_RULE

_DEFAULT = CPU_RULE.max_tokens
_BUDGETS = (64, 128, 256, _DEFAULT, 512, 1024, 2048)


def _inside(setting: Setting) -> FastEncoder:
    """One batch at a time, all threads inside it."""

    def configure(options: object) -> None:
        options.intra_op_num_threads = setting.threads  # type: ignore[attr-defined]

    return FastEncoder(setting.export, precision="fp32", num_threads=1, session_options=configure)


def suite(job: Job) -> Iterator[Row]:
    """A row a budget, the default first, and a row a layout of the threads."""
    budgets = sorted(_BUDGETS, key=lambda tokens: tokens != _DEFAULT)
    by_budget = {f"{tokens} tokens": encoder_of(job.setting, max_batch_tokens=tokens) for tokens in budgets}
    threads = job.setting.threads
    by_layout = {f"{threads} x 1": encoder_of(job.setting), f"1 x {threads}": _inside(job.setting)}
    for case, encoders in (("budget", by_budget), ("layout, batches x threads in each", by_layout)):
        functions = {name: partial(encoder.encode, job.texts) for name, encoder in encoders.items()}
        interleaved(functions, 1)  # warm
        for name, seconds in interleaved(functions, job.rounds).items():
            yield {"case": case, "contender": name, "seconds": seconds, "sentences": len(job.texts)}
