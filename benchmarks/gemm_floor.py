"""The limit: the model's matrix products with weights, at the same batches, and nothing else.

Attention's own products q k^T and A v are left out (T / (6 H + T) of the multiplications where a block is 4 H wide),
and so are tokenization, padding and all that is not a product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from ditto_fast.batches import default_rule
from ditto_fast.errors import OptionError
from ditto_fast.scheduler import Scheduler
from ditto_fast.session import open_session
from ditto_fast.tokenizer import Tokenizer
from ditto_fast.wide import goes_wide

if TYPE_CHECKING:
    import onnxruntime

FLOOR, FLOOR_INT8 = "floor", "floor-int8"
FLOORS = {"fp32": FLOOR, "int8": FLOOR_INT8}  # by the precision of the products
_BERT_LAYERS = ("albert", "bert", "camembert", "electra", "ernie", "mpnet", "roberta", "xlm-roberta")
STATES, INNER = "states", "inner"  # what the graph is fed
LAST = "last"  # the output of the last product


def gemm_graph(layers: int, hidden: int, intermediate: int, precision: str = "fp32") -> onnx.ModelProto:
    """A graph of each layer's products: query, key and value in one, the output's, and the two of the block after.

    In fp32 a product takes what the one before it gives, in int8 (whose products give fp32) what the graph is fed.
    """
    graph = onnx.GraphProto(name="products")
    rng = np.random.default_rng(0)
    outputs = [LAST]
    chained = precision == "fp32"
    kind = TensorProto.FLOAT if chained else TensorProto.UINT8

    def product(name: str, source: str, width_in: int, width_out: int) -> None:
        # scaled so that values neither grow nor shrink from layer to layer: denormal numbers are slow
        values = rng.standard_normal((width_in, width_out)).astype(np.float32) / np.float32(np.sqrt(width_in))
        node, constants = _PRODUCTS[precision](name, source, values)
        graph.node.append(node)
        graph.initializer.extend(constants)

    shapes = (
        ("qkv", STATES, hidden, 3 * hidden),
        ("attended", STATES, hidden, hidden),
        ("inner", STATES, hidden, intermediate),
        ("outer", INNER, intermediate, hidden),
    )
    before = STATES
    for layer in range(layers):
        for role, fed, width_in, width_out in shapes:
            name = LAST if (layer, role) == (layers - 1, "outer") else f"{role}_{layer}"
            product(name, before if chained else fed, width_in, width_out)
            if role == "qkv" or not chained:
                outputs.append(name)  # what no product takes would be removed
            if role != "qkv":
                before = name
    inputs = {STATES: hidden} if chained else {STATES: hidden, INNER: intermediate}
    graph.input.extend(helper.make_tensor_value_info(name, kind, ["tokens", width]) for name, width in inputs.items())
    named = dict.fromkeys(outputs)
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["tokens", None]) for name in named)
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=10)


Product = tuple[onnx.NodeProto, list[TensorProto]]


def _fp32(name: str, source: str, values: Vectors) -> Product:
    weight = numpy_helper.from_array(values, f"{name}_weight")
    return helper.make_node("MatMul", [source, weight.name], [name]), [weight]


def _int8(name: str, source: str, values: Vectors) -> Product:
    """The product of the int8 graphs: activations in uint8, weights in int8 with a scale a column, fp32 out."""
    scales = np.abs(values).max(axis=0) / 63
    constants = {
        "weight": np.round(values / scales).astype(np.int8),
        "scale": np.float32(0.02),
        "scales": scales,
        "zero_point": np.uint8(128),
    }
    tensors = [numpy_helper.from_array(np.asarray(value), f"{name}_{role}") for role, value in constants.items()]
    inputs = [source, *(tensor.name for tensor in tensors)]
    return helper.make_node("MatMulIntegerToFloat", inputs, [name], domain="com.microsoft"), tensors


_PRODUCTS = {"fp32": _fp32, "int8": _int8}


def batch_shapes(setting: Setting, texts: list[str], precision: str = "fp32") -> list[tuple[int, int]]:
    """Texts and tokens (B, T) of each batch that FastEncoder makes of `texts` in a precision."""
    manifest = Manifest.read(setting.export)
    shapes: list[tuple[int, int]] = []

    def record(token_ids: Sequence[NDArray[np.int64]]) -> Vectors:
        shapes.append((len(token_ids), max(len(ids) for ids in token_ids)))
        return np.zeros((len(token_ids), manifest.hidden_size), np.float32)

    tokenizer = Tokenizer(setting.export, setting.max_seq_length or manifest.max_seq_length)
    threads = 1 if goes_wide(len(texts), setting.threads) else setting.threads
    Scheduler(tokenizer, record, manifest.hidden_size, threads).run(texts, default_rule(precision), lambda _, __: None)
    return shapes


@dataclass(frozen=True)
class Call:
    """The batches of a call of FastEncoder.

    Args:
        tokens: Of each batch.
        wide: Whether all threads are inside one batch.
    """

    tokens: list[int]
    wide: bool

    @classmethod
    def of(cls, setting: Setting, texts: list[str], precision: str) -> Call:
        """Those that FastEncoder makes of `texts`."""
        tokens = [count * length for count, length in batch_shapes(setting, texts, precision)]
        return cls(tokens, goes_wide(len(texts), setting.threads))


class Products:
    """Does the products of calls, batches as many at once as there are threads, or all threads inside each.

    Args:
        setting: What every contender gets.
        precision: Of the products.
        most: Tokens of the largest batch.

    Raises:
        OptionError: The model's layers are of another kind.
    """

    def __init__(self, setting: Setting, precision: str, most: int) -> None:
        config: Any = AutoConfig.from_pretrained(setting.checkpoint)
        if config.model_type not in _BERT_LAYERS:
            raise OptionError(f"The floor is known for {', '.join(_BERT_LAYERS)}; got {config.model_type}.")
        sizes = config.num_hidden_layers, config.hidden_size, config.intermediate_size
        with TemporaryDirectory() as folder:
            path = Path(folder) / "products.onnx"
            onnx.save(gemm_graph(*sizes, precision), path)
            self._narrow, self._wide = (open_session(path, "cpu", num_threads=count) for count in (1, setting.threads))
        self._feeds = _feeds(self._narrow, most)
        self._threads = setting.threads

    def _run(self, session: onnxruntime.InferenceSession, rows: int) -> None:
        # all are computed, and no other is copied out
        session.run([LAST], {name: values[:rows] for name, values in self._feeds.items()})

    def __call__(self, calls: Iterable[Call]) -> None:
        """Does the calls one after the other."""
        with ThreadPoolExecutor(self._threads) as executor:
            for call in calls:
                if call.wide:
                    for rows in call.tokens:
                        self._run(self._wide, rows)
                else:
                    list(executor.map(partial(self._run, self._narrow), call.tokens))


def floors(setting: Setting, texts: list[str], size: int | None = None) -> dict[str, Callable[[], Callable[[], None]]]:
    """What makes the function of each floor, by its key; see `floor`."""
    return {key: partial(floor, setting, texts, precision, size) for precision, key in FLOORS.items()}


def floor(setting: Setting, texts: list[str], precision: str, size: int | None = None) -> Callable[[], None]:
    """Makes the function that does the products of all batches.

    Args:
        setting: What every contender gets.
        texts: What is encoded.
        precision: Of the products.
        size: Texts of a call of FastEncoder, one call after the other; all in one by default.

    Raises:
        OptionError: The model's layers are of another kind.
    """
    calls = [Call.of(setting, part, precision) for part in parts(texts, size or len(texts))]
    return partial(Products(setting, precision, max(max(call.tokens) for call in calls)), calls)


def floor_of_each(setting: Setting, texts: list[str], precision: str) -> Callable[[list[str]], None]:
    """Makes the function that does the products of calls of one text, given any of `texts`.

    Raises:
        OptionError: The model's layers are of another kind.
    """
    calls = {text: Call.of(setting, [text], precision) for text in texts}
    products = Products(setting, precision, max(max(call.tokens) for call in calls.values()))
    return lambda some: products(calls[text] for text in some)


def _feeds(session: onnxruntime.InferenceSession, rows: int) -> dict[str, NDArray[Any]]:
    """Random values for so many tokens, of the types and widths that the graph declares."""
    rng = np.random.default_rng(0)
    draws: dict[str, Callable[[tuple[int, int]], NDArray[Any]]] = {
        "tensor(float)": lambda shape: rng.standard_normal(shape).astype(np.float32),
        "tensor(uint8)": lambda shape: rng.integers(0, 256, shape, np.uint8),
    }
    return {node.name: draws[node.type]((rows, node.shape[1])) for node in session.get_inputs()}
