"""Heads chosen without labels, held against the labels of the seven STS sets, from three sets of plain sentences.

python benchmarks/unlabeled.py --out benchmarks/results/evaluation/unlabeled.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from record import environment
from sentences import senteval_folder
from workspace import FOLDER, minilm

from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.errors import DataError
from ditto_fast.evaluation.criteria import head_criteria
from ditto_fast.evaluation.head_scores import heads_of
from ditto_fast.evaluation.regret import head_task_scores, regret, regret_lines
from ditto_fast.evaluation.report import screen
from ditto_fast.evaluation.sources import open_checkpoint
from ditto_fast.evaluation.tasks import TASKS, load_sts_b_dev, load_task


def _unlabeled(
    senteval: Annotated[Path | None, typer.Option(help="Folder that holds downstream/.")] = None,
    out: Annotated[Path, typer.Option(help="The JSON file to write.")] = Path(".demo/unlabeled.json"),
) -> None:
    """Measure the regret of each criterion's pick; the splits that give the sentences are not scored on."""
    folder = senteval_folder(senteval)
    if folder is None:
        raise DataError("SentEval's data is wanted: name the folder that holds downstream/ with --senteval.")
    tasks = [load_task(folder, name) for name in TASKS]
    others = {task.name: list(task.others) for task in tasks}
    texts = {
        "STS-B train": others["STS-B"][:4000],
        "STS-B dev": load_sts_b_dev(folder).sentences,
        "SICK train": others["SICK-R"][:4000],
    }
    source = open_checkpoint(str(minilm()), "unlabeled.py", FOLDER / "states")
    scores = head_task_scores(source, tasks, progress=True)
    record = {**environment(), "model": "all-MiniLM-L6-v2", "sentences": {}}
    for name, sentences in texts.items():
        stderr.print(f"{name} ...", style="dim")
        result = regret(heads_of(source), head_criteria(source, sentences), scores, TASKS)
        record["sentences"][name] = result.to_dict()
        stdout.print(screen(regret_lines(result), f"sentences of {name}"))
    out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(_unlabeled)
