"""An export on screen."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from ditto_fast.artifact import GraphInfo, Manifest
from ditto_fast.prompts import listed


def _parity(info: GraphInfo) -> str:
    if info.parity is None:
        return "not verified"
    if info.parity["tolerance"] is None:
        text = f"cosine to fp32 min {info.parity['cosine_min']:.4f}, mean {info.parity['cosine_mean']:.4f}"
    else:
        worst = max(output["max_abs"] for output in info.parity["outputs"].values())
        text = f"max abs difference {worst:.1e} to the eager model"
    if "sts_b_dev" in info.parity:
        drop = info.parity["sts_b_dev"]
        text += f"; STS-B dev {drop['eager']:.2f} -> {drop['exported']:.2f}"
    return text


def summary(directory: Path, manifest: Manifest) -> Table:
    """The table of an export directory: model, head, each graph with its size, fusions and parity."""
    revision = manifest.source["revision"]
    source = f"{manifest.source['model_id']}{f' at {revision[:10]}' if revision else ''}"
    table = Table(title=f"{source}, head {manifest.head}", show_header=False)
    table.add_row("directory", str(directory))
    table.add_row(
        "model",
        f"{manifest.model_type}, {manifest.num_layers} layers, {manifest.num_heads} heads, "
        f"hidden size {manifest.hidden_size}, at most {manifest.max_seq_length} tokens",
    )
    if manifest.prompts:
        table.add_row("prompts", listed(manifest.prompts))
    for file, info in manifest.graphs.items():
        size = (directory / file).stat().st_size / 1e6
        fused = ", ".join(f"{count} {name}" for name, count in info.fused.items()) or "nothing"
        notes = "\nfor GPUs: slower than fp32 on a CPU" if info.precision == "fp16" else ""
        table.add_row(
            file,
            f"{info.precision}, {size:.1f} MB: {', '.join(info.outputs)}\nfused: {fused}\n{_parity(info)}{notes}",
        )
    for file in sorted(name for name in manifest.files if name.endswith("_data")):
        table.add_row(file, f"weights, {(directory / file).stat().st_size / 1e6:.1f} MB")
    return table
