"""Export, step by step: load, trace and write each graph, add what is needed to tokenize, verify, rename."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ditto_fast.artifact import CARD_FILE, GRAPHS, TOKENIZER_FILE, Manifest, graph_file
from ditto_fast.checks import one_of
from ditto_fast.errors import OptionError
from ditto_fast.export.checkpoint import Checkpoint, load_checkpoint
from ditto_fast.export.graph import DittoGraph
from ditto_fast.export.hub import DEFAULT_HUB, HubOptions
from ditto_fast.export.model_card import model_card, source_license
from ditto_fast.export.modules import write_modules
from ditto_fast.export.optimum_export import write_onnx
from ditto_fast.export.upload import check_repo_id, publish
from ditto_fast.export.verify import Parity, verify_graph
from ditto_fast.files import atomic_directory, check_output_directory
from ditto_fast.heads import Head, resolve_head
from ditto_fast.pooling import DEFAULT_POOLING
from ditto_fast.session import import_onnxruntime
from ditto_fast.tokenizer import Tokenizer, resolve_max_seq_length

DEFAULT_OPSET = 18
_VERSIONED = ("ditto-fast", "torch", "transformers", "optimum", "optimum-onnx", "onnx", "tokenizers")


@dataclass(frozen=True)
class ExportReport:
    """What an export made.

    Args:
        directory: The export directory.
        manifest: Its manifest.
        parity: One report a graph file; empty where verification was turned off.
        seconds: How long it took.
        url: Address of the commit on the hub, None where it was not pushed.
    """

    directory: Path
    manifest: Manifest
    parity: tuple[Parity, ...]
    seconds: float
    url: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report for machines."""
        return {
            "directory": str(self.directory),
            "seconds": self.seconds,
            "url": self.url,
            "manifest": asdict(self.manifest),
        }


def export_model(
    model: str | Path,
    head: str | Head | None = None,
    output: str | Path | None = None,
    *,
    outputs: Sequence[str] = ("tokens",),
    max_seq_length: int | None = None,
    opset: int = DEFAULT_OPSET,
    verify: bool = True,
    force: bool = False,
    hub: HubOptions = DEFAULT_HUB,
    push_to_hub: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ExportReport:
    """Exports a checkpoint as a directory that `FastEncoder` reads.

    Args:
        model: A folder, a hub id, or a short name of `ditto_fast.heads.PAPER_MODELS`.
        head: The head, "L-H", counted from 1; may be left out for the paper's checkpoints.
        output: The directory to write; NAME-ditto-L-H in the working directory by default.
        outputs: Kinds of graph to write. "tokens" (model.onnx, the three outputs that every pooling
            needs) is always written; "embedding" adds model_embedding.onnx, pooled inside the graph.
        max_seq_length: Length in tokens that texts are cut to; see
            `ditto_fast.tokenizer.resolve_max_seq_length`.
        opset: ONNX operator set.
        verify: Compare every written graph with the eager model before the directory appears.
        force: Replace a directory that is not empty.
        hub: How the hub is asked, and what of a checkpoint may run.
        push_to_hub: "ORG/NAME" to upload the directory to, once it is complete.
        progress: Called with a line of text at each step.

    Raises:
        HubError: The hub did not take the upload; the directory is complete.
        HeadError: The head is not written L-H or the model does not have it.
        ModelNotFoundError: The checkpoint cannot be found or loaded.
        UnsupportedModelError: It is no encoder that can be exported.
        OutputExistsError: `output` is not empty and `force` is off.
        ParityError: A written graph differs from the eager model; nothing is left behind.
        UntrustedCodeError: The checkpoint would run code (pickled weights, Python files) that `hub` does not allow.

    Example:
        >>> report = export_model(checkpoint_folder, "1-10", "minilm-ditto", force=True)
        >>> report.manifest.head, sorted(report.manifest.graphs)
        ('1-10', ['model.onnx'])
    """
    started = time.perf_counter()
    name, chosen = str(model), resolve_head(str(model), head)
    kinds = _graph_kinds(outputs)
    if output is None:
        output = f"{Path(name).name}-ditto-{chosen}"
    directory = Path(output)
    check_output_directory(directory, force)  # before the long work
    if push_to_hub is not None:
        check_repo_id(push_to_hub)
    import_onnxruntime()
    progress(f"loading {name}")
    checkpoint = load_checkpoint(name, hub)
    config = checkpoint.model.config
    chosen.check(config.num_hidden_layers, config.num_attention_heads)
    with atomic_directory(directory, force) as folder:
        limit = _write_tokenizer(checkpoint, folder, max_seq_length)
        inputs = _input_names(checkpoint)
        parity = []
        for kind in kinds:
            progress(f"writing {graph_file(kind)}")
            graph = DittoGraph(checkpoint.model, checkpoint.architecture, chosen, kind)
            path = folder / graph_file(kind)
            write_onnx(graph, inputs, path, opset)
            if verify:
                progress(f"verifying {graph_file(kind)} against the eager model")
                tokenizer = Tokenizer(folder, limit)
                pad_id = checkpoint.tokenizer.pad_token_id
                parity.append(verify_graph(path, kind, checkpoint.model, chosen, tokenizer, pad_id, inputs))
                parity[-1].check()
        manifest = _manifest(checkpoint, chosen, kinds, limit, opset, parity)
        write_modules(folder)
        card = model_card(push_to_hub or directory.absolute().name, manifest, inputs, source_license(checkpoint.folder))
        (folder / CARD_FILE).write_text(card, encoding="utf-8")
        manifest.write(folder)
        manifest = Manifest.read(folder)
    url = None
    if push_to_hub is not None:
        progress(f"uploading to {push_to_hub}")
        url = publish(directory, push_to_hub, hub.token)
    return ExportReport(directory, manifest, tuple(parity), time.perf_counter() - started, url)


def _graph_kinds(outputs: Sequence[str]) -> list[str]:
    if isinstance(outputs, str):
        raise OptionError(f"outputs must be a sequence of names such as ['tokens']; got {outputs!r}.")
    asked = {one_of("outputs", kind, GRAPHS) for kind in outputs}
    return [kind for kind in GRAPHS if kind == "tokens" or kind in asked]


def _input_names(checkpoint: Checkpoint) -> tuple[str, ...]:
    """token_type_ids only where the model tells two types apart."""
    names = ("input_ids", "attention_mask")
    return (*names, "token_type_ids") if getattr(checkpoint.model.config, "type_vocab_size", 0) > 1 else names


def _write_tokenizer(checkpoint: Checkpoint, folder: Path, max_seq_length: int | None) -> int:
    """Writes what another runtime needs to tokenize the same way; returns the maximum length.

    tokenizer.json and tokenizer_config.json are written with that truncation and without padding: a
    checkpoint's may carry its training's.
    """
    config = checkpoint.model.config
    limit = resolve_max_seq_length(checkpoint.folder, checkpoint.architecture.max_positions(config), max_seq_length)
    checkpoint.tokenizer.model_max_length = limit
    checkpoint.tokenizer.save_pretrained(folder)
    raw = checkpoint.tokenizer.backend_tokenizer
    raw.no_padding()
    raw.enable_truncation(limit)
    raw.save(str(folder / TOKENIZER_FILE))
    config.save_pretrained(folder)
    return limit


def _manifest(
    checkpoint: Checkpoint, head: Head, kinds: list[str], limit: int, opset: int, parity: list[Parity]
) -> Manifest:
    config = checkpoint.model.config
    return Manifest(
        source={
            "model_id": checkpoint.name,
            "revision": checkpoint.revision,
            "content_hash": checkpoint.content_hash,
        },
        model_type=config.model_type,
        head=str(head),
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        head_dim=config.hidden_size // config.num_attention_heads,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        pad_token_id=checkpoint.tokenizer.pad_token_id,
        max_positions=checkpoint.architecture.max_positions(config),
        max_seq_length=limit,
        pooling=DEFAULT_POOLING,
        precision="fp32",
        opset=opset,
        graphs={graph_file(kind): list(GRAPHS[kind][1]) for kind in kinds},
        versions={name: version(name) for name in _VERSIONED},
        parity={report.file: report.to_dict() for report in parity} or None,
    )
