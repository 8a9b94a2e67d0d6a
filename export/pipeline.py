"""Export, step by step: load, write the graphs, add what is needed to tokenize, verify, rename."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ditto_fast.artifact import CARD_FILE, GRAPHS, PRECISIONS, TOKENIZER_FILE, GraphInfo, Manifest, graph_file
from ditto_fast.checks import integer, one_of
from ditto_fast.errors import OptionError
from ditto_fast.export.checkpoint import Checkpoint, load_checkpoint
from ditto_fast.export.graph_files import GraphOptions, write_graphs
from ditto_fast.export.hub import DEFAULT_HUB, HubOptions
from ditto_fast.export.model_card import model_card, source_license
from ditto_fast.export.modules import write_modules
from ditto_fast.export.optimize import LEVELS
from ditto_fast.export.prompts import read_prompts, write_prompts
from ditto_fast.export.quality import StsBDev
from ditto_fast.export.upload import check_repo_id, publish
from ditto_fast.export.verify import SENTENCES, verify_graph
from ditto_fast.files import atomic_directory, check_output_directory
from ditto_fast.heads import Head, resolve_head
from ditto_fast.pooling import DEFAULT_POOLING
from ditto_fast.session import import_onnxruntime
from ditto_fast.tokenizer import Tokenizer, resolve_max_seq_length
from ditto_fast.tolerances import MAX_SPEARMAN_DROPS

DEFAULT_OPSET = 18
_VERSIONED = ("ditto-fast", "torch", "transformers", "optimum", "optimum-onnx", "onnx", "tokenizers")


@dataclass(frozen=True)
class ExportReport:
    """What an export made.

    Args:
        directory: The export directory.
        manifest: Its manifest, with the parity report of each graph.
        seconds: How long it took.
        url: Address of the upload, if there was one.
    """

    directory: Path
    manifest: Manifest
    seconds: float
    url: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report for machines."""
        return {**vars(self), "directory": str(self.directory), "manifest": asdict(self.manifest)}


@dataclass(frozen=True)
class Verification:
    """How an export is verified.

    Args:
        enabled: Compare every graph with the eager model before the directory appears.
        min_cosine: Smallest cosine to the eager fp32 embedding; `ditto_fast.tolerances.MIN_COSINES` by default.
        senteval: Folder that holds downstream/: STS-B dev is scored before and after, too.
        max_spearman_drop: Points that STS-B dev may lose; `MAX_SPEARMAN_DROPS` by default.
    """

    enabled: bool = True
    min_cosine: float | None = None
    senteval: Path | None = None
    max_spearman_drop: float | None = None


def export_model(
    model: str | Path,
    head: str | Head | None = None,
    output: str | Path | None = None,
    *,
    outputs: Sequence[str] = ("tokens",),
    precision: Sequence[str] = ("fp32",),
    optimize: str = "full",
    normalize: bool = False,
    max_seq_length: int | None = None,
    opset: int = DEFAULT_OPSET,
    verification: Verification = Verification(),  # frozen
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
            needs) is always written; "embedding" adds model_embedding.onnx, pooled inside the graph;
            "head" adds model_head.onnx, which gives the head's query and key to a kernel. Several share
            one file of weights.
        precision: "fp32", "fp16" (for GPUs) or "int8" (for CPUs), or several.
        optimize: "full" (fused attention where the runtime has a pattern), "basic" or "none".
        normalize: Divide embeddings by their L2 norm, inside the embedding graph too.
        max_seq_length: Length in tokens that texts are cut to; see
            `ditto_fast.tokenizer.resolve_max_seq_length`.
        opset: ONNX operator set.
        verification: How the graphs are compared with the eager model.
        force: Replace a directory that is not empty.
        hub: How the hub is asked, and what of a checkpoint may run.
        push_to_hub: "ORG/NAME" to upload the directory to, once it is complete.
        progress: Called with a line of text at each step.

    Raises:
        HubError: The hub did not take the upload; the directory is complete.
        HeadError: The head is not written L-H or the model does not have it.
        ModelNotFoundError: The checkpoint cannot be found or loaded.
        OptionError: An option is outside its valid values.
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
    options = GraphOptions(
        kinds=_choices("outputs", outputs, GRAPHS, always="tokens"),
        precisions=_choices("precision", precision, PRECISIONS),
        level=one_of("optimize", optimize, LEVELS),
        normalize=normalize,
        opset=integer("opset", opset),
    )
    directory = Path(output if output is not None else f"{Path(name).name}-ditto-{chosen}")
    check_output_directory(directory, force)  # before the long work
    if push_to_hub is not None:
        check_repo_id(push_to_hub)
    import_onnxruntime()
    progress(f"loading {name}")
    checkpoint = load_checkpoint(name, hub)
    config = checkpoint.model.config
    chosen.check(config.num_hidden_layers, config.num_attention_heads)
    prompts = read_prompts(checkpoint.folder)
    with atomic_directory(directory, force) as folder:
        limit = _write_tokenizer(checkpoint, folder, max_seq_length)
        tokenizer = Tokenizer(folder, limit, asked=max_seq_length is not None)
        fused = write_graphs(checkpoint, chosen, options, tokenizer, folder, progress)
        manifest = replace(_manifest(checkpoint, chosen, options, limit, fused), prompts=prompts.get("prompts", {}))
        manifest.write(folder)
        if verification.enabled:
            manifest = _verified(manifest, checkpoint, chosen, tokenizer, folder, verification, progress)
        write_modules(folder)
        write_prompts(prompts, folder)
        card = model_card(
            push_to_hub or directory.absolute().name,
            manifest,
            checkpoint.input_names,
            source_license(checkpoint.folder),
        )
        (folder / CARD_FILE).write_text(card, encoding="utf-8")
        manifest.write(folder)
        manifest = Manifest.read(folder)
    url = None
    if push_to_hub is not None:
        progress(f"uploading to {push_to_hub}")
        url = publish(directory, push_to_hub, hub.token)
    return ExportReport(directory, manifest, time.perf_counter() - started, url)


def _choices(name: str, asked: Sequence[str], valid: Iterable[str], always: str = "") -> tuple[str, ...]:
    """The choices asked for, in the order of `valid`."""
    if isinstance(asked, str) or not asked:
        raise OptionError(f"{name} must be a sequence of names such as [{next(iter(valid))!r}]; got {asked!r}.")
    chosen = {one_of(name, choice, valid) for choice in asked}
    return tuple(choice for choice in valid if choice in chosen or choice == always)


def _write_tokenizer(checkpoint: Checkpoint, folder: Path, max_seq_length: int | None) -> int:
    """Writes what another runtime needs to tokenize the same way; returns the maximum length.

    tokenizer.json and tokenizer_config.json are written with that truncation, on the checkpoint's side, and
    without padding: a checkpoint's may carry its training's.
    """
    config = checkpoint.model.config
    limit = resolve_max_seq_length(checkpoint.folder, checkpoint.architecture.max_positions(config), max_seq_length)
    checkpoint.tokenizer.model_max_length = limit
    checkpoint.tokenizer.save_pretrained(folder)
    raw = checkpoint.tokenizer.backend_tokenizer
    raw.no_padding()
    raw.enable_truncation(limit, direction=checkpoint.tokenizer.truncation_side)
    raw.save(str(folder / TOKENIZER_FILE))
    config.save_pretrained(folder)
    return limit


def _manifest(
    checkpoint: Checkpoint, head: Head, options: GraphOptions, limit: int, fused: dict[str, dict[str, int]]
) -> Manifest:
    config = checkpoint.model.config
    files = {graph_file(kind, precision): (kind, precision) for kind, precision in options.each()}
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
        head_dim=checkpoint.architecture.head_dim(config),
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        pad_token_id=checkpoint.tokenizer.pad_token_id,
        max_positions=checkpoint.architecture.max_positions(config),
        max_seq_length=limit,
        pooling=DEFAULT_POOLING,
        normalize=options.normalize,
        optimize=options.level,
        opset=options.opset,
        graphs={
            file: GraphInfo(kind, precision, list(GRAPHS[kind][1]), fused[file], parity=None)
            for file, (kind, precision) in files.items()
        },
        versions={name: version(name) for name in _VERSIONED},
    )


def _verified(
    manifest: Manifest,
    checkpoint: Checkpoint,
    head: Head,
    tokenizer: Tokenizer,
    folder: Path,
    verification: Verification,
    progress: Callable[[str], None],
) -> Manifest:
    """The manifest with a passed parity report for each graph."""
    sts_b = None if verification.senteval is None else StsBDev(verification.senteval, checkpoint, head)
    graphs = {}
    for file, info in manifest.graphs.items():
        progress(f"verifying {file} against the eager model")
        parity = verify_graph(
            folder / file,
            info.kind,
            info.precision,
            checkpoint,
            head,
            tokenizer,
            unit_norm=manifest.normalize,
            min_cosine=verification.min_cosine,
        )
        parity.check(SENTENCES)
        report = parity.to_dict()
        if sts_b is not None and info.kind != "head":
            max_drop = verification.max_spearman_drop
            drop = sts_b.compare(folder / file, MAX_SPEARMAN_DROPS[info.precision] if max_drop is None else max_drop)
            drop.check()
            report["sts_b_dev"] = drop.to_dict()
        graphs[file] = replace(info, parity=report)
    return replace(manifest, graphs=graphs)
