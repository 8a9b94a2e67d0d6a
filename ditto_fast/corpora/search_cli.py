"""The command `ditto-search`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ditto_fast.cli.console import run, stdout
from ditto_fast.corpora.search import Hit, check_model, search_corpus
from ditto_fast.corpora.settings import Model
from ditto_fast.corpora.shards import read_shard, whole_corpus
from ditto_fast.encoder import FastEncoder


def _search(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="Texts to look for.")],
    index: Annotated[Path, typer.Option(help="A folder that ditto-encode wrote.")],
    model: Annotated[str, typer.Option(help="The export directory or hub id that the folder was written with.")],
    k: Annotated[int, typer.Option("-k", "--top", help="Hits of a query.")] = 10,
    prompt: Annotated[str, typer.Option(help="What to put before each query.")] = "",
    num_threads: Annotated[int | None, typer.Option(help="Threads; all CPUs by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object a query.")] = False,
) -> None:
    """Find the rows nearest to a text, by exact cosine over all of them."""
    settings = read_shard(whole_corpus(index)[0]).metadata
    encoder = FastEncoder.from_pretrained(
        model,
        pooling=settings["pooling"],
        precision=settings["precision"],
        max_seq_length=settings["max_seq_length"],
        num_threads=num_threads,
    )
    with encoder:
        check_model(index, Model.of_encoder(encoder))
        embeddings = encoder.encode([prompt + query for query in queries], truncate_dim=settings["truncate_dim"])
    for query, hits in zip(queries, search_corpus(index, embeddings, k), strict=True):
        if as_json:
            typer.echo(json.dumps({"query": query, "hits": [asdict(hit) for hit in hits]}, ensure_ascii=False))
        else:
            stdout.print(_table(query, hits))


def _table(query: str, hits: list[Hit]) -> Table:
    with_text = any(hit.text is not None for hit in hits)
    table = Table("cosine", "id", *(["text"] if with_text else []), title=Text(query), title_justify="left")
    for hit in hits:
        # as they are: brackets in a text are no markup
        table.add_row(f"{hit.score:.4f}", Text(str(hit.id)), *([Text(hit.text or "")] if with_text else []))
    return table


def main() -> None:
    """Runs the command."""
    run(_search)
