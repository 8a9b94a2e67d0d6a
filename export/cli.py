"""The command `ditto-export`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ditto_fast.artifact import GRAPHS, PRECISIONS, Manifest
from ditto_fast.cli.console import run, stderr, stdout
from ditto_fast.errors import MissingDependencyError, OptionError
from ditto_fast.export.summary import summary
from ditto_fast.heads import PAPER_MODELS, resolve_head

if TYPE_CHECKING:
    from ditto_fast.export.pipeline import ExportReport

_MODEL_HELP = f"A folder, a hub id, or a short name: {', '.join(PAPER_MODELS)}."


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _export(
    model: Annotated[str | None, typer.Option(help=_MODEL_HELP)] = None,
    head: Annotated[
        str | None,
        typer.Option(help="LAYER-HEAD, both counted from 1, such as 1-10. A short name brings the paper's."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Directory to write; NAME-ditto-L-H by default.")] = None,
    outputs: Annotated[
        str, typer.Option(help=f"Graphs to write, a comma list of {', '.join(GRAPHS)}; tokens is always written.")
    ] = "tokens",
    precision: Annotated[str, typer.Option(help=f"A comma list of {', '.join(PRECISIONS)}.")] = "fp32",
    optimize: Annotated[str, typer.Option(help="full, basic or none.")] = "full",
    normalize: Annotated[bool, typer.Option("--normalize", help="Divide embeddings by their L2 norm.")] = False,
    max_seq_length: Annotated[
        int | None, typer.Option(help="Tokens that texts are cut to; the checkpoint's limit by default.")
    ] = None,
    opset: Annotated[int, typer.Option(help="ONNX operator set.")] = 18,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not compare with the eager model.")] = False,
    min_cosine: Annotated[float | None, typer.Option(help="Smallest cosine to the fp32 embedding.")] = None,
    senteval: Annotated[
        Path | None, typer.Option(help="Folder that holds downstream/: score STS-B dev before and after.")
    ] = None,
    max_spearman_drop: Annotated[float | None, typer.Option(help="Points that STS-B dev may lose.")] = None,
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List short names, heads and architectures.")] = False,
    inspect: Annotated[Path | None, typer.Option(help="Show what an export directory holds.")] = None,
    verify: Annotated[
        Path | None, typer.Option(help="Check an export directory again, against --model or the hub id it names.")
    ] = None,
    sentences: Annotated[Path | None, typer.Option(help="Texts for --verify, one a line; ours by default.")] = None,
) -> None:
    """Export a pretrained encoder for Ditto sentence embeddings on ONNX Runtime."""
    if list_:
        _list(as_json)
    elif inspect is not None:
        _show(inspect, Manifest.read(inspect), as_json)
    elif verify is not None:
        _verify(verify, model, sentences, as_json)
    elif model is None:
        raise OptionError("Name what to export with --model (or use --list, --inspect DIR, --verify DIR).")
    else:
        resolve_head(model, head)  # before torch is imported, which takes seconds
        try:
            from ditto_fast.export.hub import HubOptions
            from ditto_fast.export.pipeline import Verification, export_model
        except ImportError as error:
            raise _missing(error) from error
        report = export_model(
            model,
            head,
            output,
            outputs=_names(outputs),
            precision=_names(precision),
            optimize=optimize,
            normalize=normalize,
            max_seq_length=max_seq_length,
            opset=opset,
            verification=Verification(not no_verify, min_cosine, senteval, max_spearman_drop),
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
        _tell(report, as_json)


def _tell(report: ExportReport, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
        return
    _show(report.directory, report.manifest, as_json=False)
    stdout.print(f"{report.seconds:.1f} s", *([report.url] if report.url else []), highlight=False)
    stdout.print(
        f'next: python -c "from ditto_fast import FastEncoder; '
        f"print(FastEncoder('{report.directory}').encode('Hello.')[:5])\"",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _missing(error: ImportError) -> MissingDependencyError:
    return MissingDependencyError(
        f"ditto-export needs the export extra: pip install 'ditto-fast[export,cpu]' ({error})."
    )


def _show(directory: Path, manifest: Manifest, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(manifest), indent=2))
    else:
        stdout.print(summary(directory, manifest))


def _list(as_json: bool) -> None:
    try:
        from ditto_fast.export.architectures import SUPPORTED_MODEL_TYPES
    except ImportError as error:
        raise _missing(error) from error
    if as_json:
        models = {
            name: {"model": m.model_id, "head": str(m.head) if m.head else None} for name, m in PAPER_MODELS.items()
        }
        typer.echo(json.dumps({"models": models, "architectures": SUPPORTED_MODEL_TYPES}, indent=2))
        return
    table = Table("short name", "checkpoint", "head")
    for name, paper_model in PAPER_MODELS.items():
        table.add_row(name, paper_model.model_id, str(paper_model.head or "none"))
    stdout.print(table)
    stdout.print(f"architectures: {', '.join(SUPPORTED_MODEL_TYPES)}", highlight=False)


def _verify(directory: Path, model: str | None, sentences: Path | None, as_json: bool) -> None:
    try:
        from ditto_fast.export.again import verify_directory
    except ImportError as error:
        raise _missing(error) from error
    if sentences is None:
        reports = verify_directory(directory, model)
    else:
        reports = verify_directory(directory, model, sentences.read_text(encoding="utf-8").splitlines())
    if as_json:
        typer.echo(json.dumps([report.to_dict() for report in reports], indent=2))
        return
    for report in reports:
        stdout.print(
            f"{report.file}: passed on {report.sentences} sentences, cosine min {report.cosine_min:.6f}",
            highlight=False,
        )


def main() -> None:
    """Entry point."""
    run(_export)
