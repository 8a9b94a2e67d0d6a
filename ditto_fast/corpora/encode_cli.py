"""The command `ditto-encode`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ditto_fast.checks import one_of
from ditto_fast.cli.console import run, stderr
from ditto_fast.corpora.encode import DTYPES, SHARD_ROWS, encode_corpus
from ditto_fast.corpora.run import Summary
from ditto_fast.corpora.sources import FORMATS
from ditto_fast.encoder import FastEncoder
from ditto_fast.errors import OptionError

if TYPE_CHECKING:
    from ditto_fast.corpora.ray_engine import RayEngine

ENGINES = ("local", "ray")


def _encode(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help=f"Files ({', '.join(FORMATS)}; .gz, .zst), globs, folders, - for stdin."
        ),
    ],
    model: Annotated[str, typer.Option(help="Export directory, or an export's hub id.")],
    output: Annotated[Path, typer.Option(help="A folder for Parquet shards, or a name ending in .npy or .jsonl.")],
    column: Annotated[str, typer.Option(help="Column of the texts.")] = "text",
    id_column: Annotated[str | None, typer.Option(help="Column of the ids; row numbers by default.")] = None,
    form: Annotated[
        str | None, typer.Option("--format", help=f"Of all inputs: {', '.join(FORMATS)}; by default names tell.")
    ] = None,
    keep_text: Annotated[bool, typer.Option("--keep-text", help="Write the texts, too.")] = False,
    prompt: Annotated[str, typer.Option(help="What to put before each text.")] = "",
    pooling: Annotated[str | None, typer.Option(help="A pooling of FastEncoder; the export's by default.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, fp16 or int8, where the export has several.")] = None,
    max_seq_length: Annotated[int | None, typer.Option(help="Tokens that texts are cut to.")] = None,
    dtype: Annotated[str, typer.Option(help=f"Of the embeddings: {', '.join(DTYPES)}.")] = DTYPES[0],
    truncate_dim: Annotated[int | None, typer.Option(help="Keep the first dimensions only.")] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Divide each embedding by its L2 norm.")] = False,
    shard_rows: Annotated[int, typer.Option(help="Rows of a shard at most.")] = SHARD_ROWS,
    on_error: Annotated[str, typer.Option(help="At a bad row: raise, or null for a null embedding there.")] = "raise",
    provider: Annotated[str, typer.Option(help="cpu, cuda, tensorrt, coreml, openvino or auto.")] = "cpu",
    num_threads: Annotated[
        int | None, typer.Option(help="Threads in all; the CPUs it may use by default. On Ray of each worker: 1.")
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Processes to share the threads; 0 for none. On Ray actors; 0 for all that fit.")
    ] = 0,
    engine: Annotated[str, typer.Option(help=f"Who computes: {', '.join(ENGINES)}.")] = ENGINES[0],
    ray_address: Annotated[
        str | None, typer.Option(help="host:port of a Ray cluster's head; by default Ray is started here.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write again what was made otherwise.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Embed the texts of files of any size; killed, the same command goes on where it was."""
    one_of("--engine", engine, ENGINES)
    if ray_address is not None and engine != "ray":
        raise OptionError("--ray-address is for --engine ray; leave it out, or name that engine.")
    run_by = {"providers": provider, "num_workers": workers}
    chosen = {"pooling": pooling, "precision": precision, "max_seq_length": max_seq_length}
    with _opened(model, engine, ray_address, num_threads, {**run_by, **chosen}) as encoder:
        summary = encode_corpus(
            inputs,
            encoder,
            output,
            column=column,
            id_column=id_column,
            format=form,
            keep_text=keep_text,
            prompt=prompt,
            dtype=dtype,
            truncate_dim=truncate_dim,
            normalize_embeddings=normalize,
            shard_rows=shard_rows,
            on_error=on_error,
            force=force,
            show_progress_bar=not quiet and sys.stderr.isatty(),
        )
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), indent=2))
    if not quiet:
        _tell(summary)


def _opened(
    model: str, engine: str, ray_address: str | None, num_threads: int | None, options: dict[str, Any]
) -> FastEncoder | RayEngine:
    if engine == "local":
        return FastEncoder.from_pretrained(model, num_threads=num_threads, **options)
    from ditto_fast.corpora.ray_engine import RayEngine

    return RayEngine(model, address=ray_address, num_threads=num_threads or 1, **options)


def _tell(summary: Summary) -> None:
    resumed = f", {summary.resumed_rows:,} of them done before" if summary.resumed_rows else ""
    stderr.print(
        f"{summary.output}: {summary.rows:,} rows{resumed}; {summary.rows_per_second:,.0f} rows/s, "
        f"{summary.tokens_per_second:,.0f} tokens/s",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if summary.nulls:
        stderr.print(f"{summary.nulls:,} rows have no embedding:", markup=False, highlight=False)
        for row in summary.bad_rows[:10]:
            stderr.print(f"  {row['file']}, row {row['row']}: {row['problem']}", markup=False, highlight=False)


def main() -> None:
    """Runs the command."""
    run(_encode)
