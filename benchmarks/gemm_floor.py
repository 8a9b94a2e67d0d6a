"""The limit: the model's matrix products with weights, at the same batches, and nothing else.

Attention's own products q k^T and A v are left out (T / (6 H + T) of the multiplications where a block is 4 H wide),
and so are tokenization, padding and all that is not a product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from job import Setting, Vectors, parts
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from transformers import AutoConfig

from ditto_fast.artifact import Manifest
from ditto_fast.batches import CPU_RULE
from ditto_fast.errors import OptionError
from ditto_fast.scheduler import Scheduler
from ditto_fast.session import open_session
from ditto_fast.tokenizer import Tokenizer

if TYPE_CHECKING:
    import onnxruntime

FLOOR = "floor"
_BERT_LAYERS = ("albert", "bert", "camembert", "electra", "ernie", "mpnet", "roberta", "xlm-roberta")
LAST = "last"  # the output of the last product


def gemm_graph(layers: int, hidden: int, intermediate: int) -> onnx.ModelProto:
    """A graph of each layer's products: query, key and value in one, the output's, and the two of the block after."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    outputs = [LAST]
    source = "states"

    def product(name: str, source: str, width_in: int, width_out: int) -> str:
        # scaled so that values neither grow nor shrink from layer to layer: denormal numbers are slow
        values = (rng.standard_normal((width_in, width_out)) / np.sqrt(width_in)).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"{name}_weight"))
        nodes.append(helper.make_node("MatMul", [source, f"{name}_weight"], [name]))
        return name

    for layer in range(layers):
        outputs.append(product(f"qkv_{layer}", source, hidden, 3 * hidden))  # an output, or it would be removed
        attended = product(f"attended_{layer}", source, hidden, hidden)
        inner = product(f"inner_{layer}", attended, hidden, intermediate)
        source = product(f"outer_{layer}" if layer + 1 < layers else LAST, inner, intermediate, hidden)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["tokens", None]) for name in outputs]
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, ["tokens", hidden])
    graph = helper.make_graph(nodes, "products", [states], infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def batch_shapes(setting: Setting, texts: list[str]) -> list[tuple[int, int]]:
    """Texts and tokens (B, T) of each batch that FastEncoder makes of `texts` with its defaults."""
    manifest = Manifest.read(setting.export)
    shapes: list[tuple[int, int]] = []

    def record(token_ids: Sequence[NDArray[np.int64]]) -> Vectors:
        shapes.append((len(token_ids), max(len(ids) for ids in token_ids)))
        return np.zeros((len(token_ids), manifest.hidden_size), np.float32)

    tokenizer = Tokenizer(setting.export, setting.max_seq_length or manifest.max_seq_length)
    scheduler = Scheduler(tokenizer, record, manifest.hidden_size, setting.threads)
    scheduler.run(texts, CPU_RULE, lambda _, __: None)
    return shapes


def floor(setting: Setting, texts: list[str], size: int | None = None) -> Callable[[], None]:
    """Makes the function that does the products of all batches, as many at once as there are threads.

    A call of one batch has all threads inside the products, as FastEncoder's of one text has.

    Args:
        setting: What every contender gets.
        texts: What is encoded.
        size: Texts of a call of FastEncoder, one call after the other; all in one by default.

    Raises:
        OptionError: The model's layers are of another kind.
    """
    config: Any = AutoConfig.from_pretrained(setting.checkpoint)
    if config.model_type not in _BERT_LAYERS:
        raise OptionError(f"The floor is known for {', '.join(_BERT_LAYERS)}; got {config.model_type}.")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "products.onnx"
        onnx.save(gemm_graph(config.num_hidden_layers, config.hidden_size, config.intermediate_size), path)
        narrow, wide = (open_session(path, "cpu", num_threads=threads) for threads in (1, setting.threads))
    calls = [
        [count * tokens for count, tokens in batch_shapes(setting, part)] for part in parts(texts, size or len(texts))
    ]
    states = np.random.default_rng(0).standard_normal((max(map(max, calls)), config.hidden_size)).astype(np.float32)

    def products(session: onnxruntime.InferenceSession, rows: int) -> None:
        session.run([LAST], {"states": states[:rows]})  # all are computed, and no other is copied out

    def run() -> None:
        with ThreadPoolExecutor(setting.threads) as executor:
            for batches in calls:
                list(executor.map(partial(products, wide if len(batches) == 1 else narrow), batches))

    return run
