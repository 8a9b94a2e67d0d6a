"""The command `ditto-export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ditto_fast.artifact import GRAPHS
from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.errors import MissingDependencyError
from ditto_fast.heads import PAPER_MODELS

if TYPE_CHECKING:
    from ditto_fast.export.pipeline import ExportReport

_MODEL_HELP = f"A folder, a hub id, or a short name: {', '.join(PAPER_MODELS)}."


def _export(
    model: Annotated[str, typer.Option(help=_MODEL_HELP)],
    head: Annotated[
        str | None,
        typer.Option(help="LAYER-HEAD, both counted from 1, such as 1-10. A short name brings the paper's."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Directory to write; NAME-ditto-L-H by default.")] = None,
    outputs: Annotated[
        str,
        typer.Option(help=f"Graphs to write, a comma list of {', '.join(GRAPHS)}; tokens is always written."),
    ] = "tokens",
    max_seq_length: Annotated[
        int | None, typer.Option(help="Tokens that texts are cut to; the checkpoint's limit by default.")
    ] = None,
    verify: Annotated[bool, typer.Option(help="Compare each graph with the eager model.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace a directory that is not empty.")] = False,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
    token: Annotated[
        str | None, typer.Option(help="Hub access token; by default that of hf auth login or HF_TOKEN.")
    ] = None,
    cache_dir: Annotated[Path | None, typer.Option(help="The hub's cache; huggingface_hub's by default.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Let Python code that comes with the checkpoint run.")
    ] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Load pickled weights where there is no model.safetensors.")
    ] = False,
    push_to_hub: Annotated[str | None, typer.Option(help="ORG/NAME on the hub to upload the directory to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Export a pretrained encoder for Ditto sentence embeddings on ONNX Runtime."""
    try:
        from ditto_fast.export.hub import HubOptions
        from ditto_fast.export.pipeline import export_model
    except ImportError as error:
        raise MissingDependencyError(
            f"ditto-export needs the export extra: pip install 'ditto-fast[export,cpu]' ({error})."
        ) from error
    report = export_model(
        model,
        head,
        output,
        outputs=[name.strip() for name in outputs.split(",")],
        max_seq_length=max_seq_length,
        verify=verify,
        force=force,
        hub=HubOptions(
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            trust_remote_code=trust_remote_code,
            allow_pickle=allow_pickle,
        ),
        push_to_hub=push_to_hub,
        progress=lambda step: stderr.print(f"{step} ...", style="dim", highlight=False),
    )
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        _print_summary(report)


def _print_summary(report: ExportReport) -> None:
    manifest = report.manifest
    table = Table(title=f"{manifest.source['model_id']}, head {manifest.head}", show_header=False)
    table.add_row("directory", str(report.directory))
    table.add_row(
        "model",
        f"{manifest.model_type}, {manifest.num_layers} layers, {manifest.num_heads} heads, "
        f"hidden size {manifest.hidden_size}, at most {manifest.max_seq_length} tokens",
    )
    for file, names in manifest.graphs.items():
        size = (report.directory / file).stat().st_size / 1e6
        table.add_row(file, f"{size:.1f} MB: {', '.join(names)}")
    for parity in report.parity:
        worst = max(output.max_abs for output in parity.outputs.values())
        table.add_row("parity", f"{parity.file}: max abs difference {worst:.1e} to the eager model")
    if not report.parity:
        table.add_row("parity", "not verified (--no-verify)")
    if report.url:
        table.add_row("hub", report.url)
    table.add_row("time", f"{report.seconds:.1f} s")
    stdout.print(table)
    stdout.print(
        f'next: python -c "from ditto_fast import FastEncoder; '
        f"print(FastEncoder('{report.directory}').encode('Hello.')[:5])\"",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def main() -> None:
    """Entry point."""
    run(_export)
