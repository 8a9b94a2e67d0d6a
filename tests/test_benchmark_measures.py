"""What the benchmark computes from samples and shapes, each against what is known of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from gemm_floor import Call, Products, batch_shapes, floor_of_each, gemm_graph
from gpu_rates import card, copy_bandwidth, matrix_rate
from job import Setting
from kernel_ways import Tensors, ditto_expected, ditto_ways, pool_expected, pool_ways
from measure import fresh_process_seconds, in_process, percentile, ratios
from resident import resident_mb, sampled, thinned
from suite_gpu import encoder_flops
from suite_kernels import kernel_rows

from ditto_fast import FastEncoder
from ditto_fast.batches import CPU_RULE
from ditto_fast.heads import Head
from ditto_fast.kernels.roofline import GPUS
from ditto_fast.runner import GraphRunner
from ditto_fast.session import import_onnxruntime
from ditto_fast.wide import WideRunner


def test_ratios_are_taken_round_by_round():
    assert ratios([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == (3.0, 2.0, 4.0)
    assert percentile(list(range(1, 101)), 95) == 95
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([5.0], 95) == 5.0


def test_fresh_processes_are_timed_inside_and_whole(tmp_path: Path):
    statements = {"sleep": "time.sleep(0.05)", "nothing": "pass"}
    inside = fresh_process_seconds(statements, 2, inside=True)
    assert min(inside["sleep"]) >= 0.05 > max(inside["nothing"])
    assert min(fresh_process_seconds({"nothing": "pass"}, 1, inside=False)["nothing"]) > 0
    script = tmp_path / "script.py"
    script.write_text("import sys; print('{\"a\": 1}') if sys.argv[1] == 'good' else sys.exit('went wrong')")
    assert in_process(script, ["good"]) == {"a": 1}
    with pytest.raises(RuntimeError, match="went wrong"):
        in_process(script, ["bad"])


def test_memory_that_is_taken_and_given_back_is_seen():
    before = resident_mb()
    with sampled() as samples:
        block = np.ones(30_000_000, np.uint8)
        torch.zeros(1)
        assert block.sum() == 30_000_000
        del block
    assert max(mb for _, mb in samples) >= before
    assert thinned([(0.0, 1.0), (0.1, 5.0), (0.2, 2.0)], 2) == [(0.0, 5.0), (0.2, 2.0)]


def test_the_floor_has_the_products_of_the_model_and_nothing_else():
    model = gemm_graph(layers=2, hidden=8, intermediate=32)
    onnx.checker.check_model(model)
    assert {node.op_type for node in model.graph.node} == {"MatMul"}
    weights = [tuple(tensor.dims) for tensor in model.graph.initializer]
    assert weights == 2 * [(8, 24), (8, 8), (8, 32), (32, 8)]
    session = import_onnxruntime().InferenceSession(model.SerializeToString())
    outputs = session.run(None, {"states": np.ones((5, 8), np.float32)})
    assert [output.shape for output in outputs] == [(5, 8), (5, 24), (5, 24)]


def test_the_floor_of_int8_has_the_same_products_in_integers():
    model = gemm_graph(layers=2, hidden=8, intermediate=32, precision="int8")
    assert {node.op_type for node in model.graph.node} == {"MatMulIntegerToFloat"}
    weights = [tuple(tensor.dims) for tensor in model.graph.initializer if len(tensor.dims) == 2]
    assert weights == 2 * [(8, 24), (8, 8), (8, 32), (32, 8)]
    session = import_onnxruntime().InferenceSession(model.SerializeToString())
    outputs = session.run(None, {"states": np.full((5, 8), 129, np.uint8), "inner": np.full((5, 32), 129, np.uint8)})
    assert [output.shape[1] for output in outputs] == [8, 24, 8, 32, 8, 24, 8, 32]
    assert all(np.isfinite(output).all() and output.any() for output in outputs)


def test_the_floor_runs_the_batches_of_fast_encoder(minilm: Path, minilm_export: Path):
    setting = Setting(minilm, minilm_export, Head.parse("1-10"), 1)
    shapes = batch_shapes(setting, ["one"] * 200 + ["two words"] * 3)
    assert sum(count for count, _ in shapes) == 203
    assert all(count * tokens <= CPU_RULE.max_tokens for count, tokens in shapes)
    of_int8 = batch_shapes(setting, ["one"] * 200 + ["two words"] * 3, "int8")
    assert sorted(set(of_int8) & {(3, 4)}) == [(3, 4)]  # nothing is padded


@pytest.mark.parametrize(("texts", "threads", "wide"), [(1, 2, True), (2, 2, False), (8, 16, True), (9, 16, False)])
def test_the_floor_has_all_threads_inside_a_batch_where_fast_encoder_has(
    minilm: Path, minilm_export: Path, monkeypatch, texts: int, threads: int, wide: bool
):
    narrow, inside = [], []
    monkeypatch.setattr(GraphRunner, "embed", lambda _, ids: narrow.append(len(ids)) or np.zeros((len(ids), 384)))
    monkeypatch.setattr(WideRunner, "embed", lambda _, ids: inside.append(len(ids)) or np.zeros((len(ids), 384)))
    some = [f"text number {i}" for i in range(texts)]
    FastEncoder(minilm_export, num_threads=threads).encode(some)
    setting = Setting(minilm, minilm_export, Head.parse("1-10"), threads)
    call = Call.of(setting, some, "fp32")
    assert (call.wide, bool(inside), bool(narrow)) == (wide, wide, not wide)
    assert len(call.tokens) == len(inside or narrow)


def test_the_floor_of_each_text_runs_that_text_alone(minilm: Path, minilm_export: Path, monkeypatch):
    ran: list[int] = []
    run = Products._run
    monkeypatch.setattr(Products, "_run", lambda self, session, rows: ran.append(rows) or run(self, session, rows))
    products = floor_of_each(Setting(minilm, minilm_export, Head.parse("1-10"), 2), ["one", "one two three"], "fp32")
    products(["one two three"])
    products(["one"])
    assert ran == [5, 3]


@pytest.mark.parametrize("shape", [(3, 7), (2, 16)])
def test_every_way_to_ditto_is_the_same_on_tiny_shapes(shape: tuple[int, int]):
    x = Tensors.random(*shape, 2, 8, torch.float32, "cpu")
    for name, call in ditto_ways(x, compiled=False).items():
        assert torch.allclose(call(), ditto_expected(x), atol=1e-5), name
    for name, call in pool_ways(x).items():
        assert torch.allclose(call(), pool_expected(x), atol=1e-5), name


def test_rows_of_the_kernels_have_rates_and_their_share_of_the_floor():
    rows = list(kernel_rows((2, 8), torch.float32, "cpu", GPUS[0], 2, heads=2, head_dim=8))
    assert [row["contender"] for row in rows][-2:] == ["torch, two bmm", "weighted_pool"]
    for row in rows:
        assert len(row["seconds"]) == 2
        assert 0 < row["of_floor"] < 1
        assert row["gb_per_second"] > 0


def test_a_way_that_is_wrong_gets_a_row_with_its_error(monkeypatch):
    import suite_kernels

    monkeypatch.setattr(suite_kernels, "pool_ways", lambda x: {"wrong": lambda: -pool_expected(x)})
    rows = list(kernel_rows((2, 8), torch.float32, "cpu", GPUS[0], 1, heads=2, head_dim=8))
    assert "ParityError" in rows[-1]["error"]
    assert "seconds" not in rows[-1]


def test_rates_of_a_device():
    assert copy_bandwidth("cpu", 2, size=2**16)[0] > 0
    assert matrix_rate("cpu", 2, torch.float32, side=32)[0] > 0
    assert card("NVIDIA H200", 1.0, 1.0).bandwidth == 4.8e12
    assert card("Another", 2.0, 32.0).matrix_rate == 32.0


def test_flops_of_an_encoder():
    from transformers import BertConfig

    config = BertConfig(num_hidden_layers=1, hidden_size=2, num_attention_heads=1, intermediate_size=8)
    assert encoder_flops(config, 1) == 2 * (4 * 4 + 2 * 2 * 8) + 4 * 2
