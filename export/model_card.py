"""The model card: what an export is, how exact it is and how to use it, for people and for the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ditto_fast.artifact import GraphInfo, Manifest
from ditto_fast.prompts import listed
from ditto_fast.selection import choose_graph

_LICENSE_KEYS = ("license", "license_name", "license_link")

_CARD = """\
---
{metadata}
---

# {name}

Sentence embeddings by Ditto (diagonal attention pooling): `e = 1/2 * sum_i A_ii (h0_i + hL_i)`, with A the attention
of one head, h0 the first and hL the last hidden states. Exported by ditto-fast {version} as ONNX; nothing was trained.

| | |
|---|---|
| source | {source} |
| head | {head} (layer-head, counted from 1) |
| architecture | {model_type}, {num_layers} layers, {num_heads} heads |
| embedding | {hidden_size} values, pooling {pooling} |
| longest text | {max_seq_length} tokens; the rest is cut |
| prompts, put before texts | {said} |
| files | {files} |

## Difference to the eager model

{parity}

## Use

With ditto-fast (`pip install 'ditto-fast[cpu]'`):

```python
from ditto_fast import FastEncoder

encoder = FastEncoder.from_pretrained("{name}")
embeddings = encoder.encode(["A man is eating food.", "Someone is having a meal."])
```

With onnxruntime and tokenizers alone, in this folder:

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_padding(pad_id={pad_token_id})
encodings = tokenizer.encode_batch(["A man is eating food.", "Someone is having a meal."])
ids, mask = (np.array([getattr(e, name) for e in encodings]) for name in ("ids", "attention_mask"))
{run}
```
"""

_RUN = {
    "embedding": '(embeddings,) = session.run(["sentence_embedding"], feeds)',
    "tokens": """\
outputs = ["attention_diagonal", "first_hidden_state", "last_hidden_state"]
diagonal, first, last = session.run(outputs, feeds)
embeddings = np.einsum("bt,bth->bh", diagonal, (first + last) / 2)""",
}


def source_license(folder: Path) -> dict[str, Any]:
    """The licence lines of a checkpoint's own card; empty where it says nothing readable."""
    from huggingface_hub import metadata_load

    try:
        metadata = metadata_load(folder / "README.md") or {}
    except Exception:  # people write cards by hand: a broken one only means that the licence is unknown
        return {}
    return {key: metadata[key] for key in _LICENSE_KEYS if isinstance(metadata.get(key), str)}


def model_card(name: str, manifest: Manifest, inputs: tuple[str, ...], licence: dict[str, Any]) -> str:
    """The text of an export's README.md.

    Args:
        name: How the export is called: its hub id, or the name of its directory.
        manifest: Its manifest.
        inputs: Inputs of its graphs.
        licence: What `source_license` found.
    """
    from huggingface_hub import ModelCardData

    source, revision = manifest.source["model_id"], manifest.source["revision"]
    metadata = ModelCardData(
        base_model=source if revision else None,
        library_name="ditto-fast",
        pipeline_tag="sentence-similarity",
        tags=["ditto", "feature-extraction", "onnx", "sentence-embeddings"],
        **licence,
    )
    origin = (
        f"revision {revision}"
        if revision
        else f"a local folder, SHA-256 of the weights {manifest.source['content_hash']}"
    )
    facts = {
        **vars(manifest),
        "metadata": metadata.to_yaml(),
        "name": name,
        "files": "; ".join(f"{file} ({info.precision}, {info.kind})" for file, info in manifest.graphs.items()),
        "parity": _parity_table(manifest.graphs),
        "said": listed(manifest.prompts),
        "run": _run_lines(manifest, inputs),
        "source": f"{source}, {origin}",
        "version": manifest.versions["ditto-fast"],
    }
    return _CARD.format(**facts)


def _parity_table(graphs: dict[str, GraphInfo]) -> str:
    reports = {file: info.parity for file, info in graphs.items() if info.parity is not None}
    if not reports:
        return "It was not measured (--no-verify)."
    rows = [
        f"| {file} | {max(o['max_abs'] for o in report['outputs'].values()):.1e} | {report['cosine_min']:.6f} "
        f"| {report['cosine_mean']:.6f} |"
        for file, report in reports.items()
    ]
    sentences = max(report["sentences"] for report in reports.values())
    return "\n".join(
        [
            f"Over {sentences} sentences, from an empty one to one past the longest input.",
            "",
            "| file | largest absolute difference of an output | smallest cosine of an embedding | mean cosine |",
            "|---|---:|---:|---:|",
            *rows,
        ]
    )


def _run_lines(manifest: Manifest, inputs: tuple[str, ...]) -> str:
    file = choose_graph(manifest)
    zeros = ', "token_type_ids": np.zeros_like(ids)' if "token_type_ids" in inputs else ""
    return "\n".join(
        [
            f'feeds = {{"input_ids": ids, "attention_mask": mask{zeros}}}',
            f'session = onnxruntime.InferenceSession("{file}")',
            _RUN[manifest.graphs[file].kind],
        ]
    )
