"""Execution providers: how they may be written, and that the first of them runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import onnxruntime
import pytest

from ditto_fast import FastEncoder
from ditto_fast.errors import OptionError, ProviderError
from ditto_fast.providers import CPU, ON_GPU, PROVIDERS, check_running, prefers_cuda, resolve_providers

CUDA = PROVIDERS["cuda"]
BOTH = [CUDA, CPU]


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("cuda", [(CUDA, {})]),
        (CPU, [(CPU, {})]),
        (["cpu"], [(CPU, {})]),
        (["cuda", "cpu"], [(CUDA, {}), (CPU, {})]),
        ([("cuda", {"device_id": 1}), CPU], [(CUDA, {"device_id": 1}), (CPU, {})]),
    ],
)
def test_short_and_full_names_alone_and_in_lists(written, resolved):
    assert resolve_providers(written, BOTH) == resolved
    assert prefers_cuda(written) == (resolved[0][0] == CUDA)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("cud", "auto, .*got 'cud'. Did you mean 'cuda'"),
        (["cud", "cpu"], "got 'cud'. Did you mean 'cuda'"),
        (["auto"], "must be one of cpu, .*; got 'auto'"),
        (("cuda", {"device_id": 1}), r"pairs; got \{'device_id': 1\}"),
        ([("cuda", None)], r"pairs; got \('cuda', None\)"),
    ],
)
def test_what_is_no_provider_is_said(written, message: str):
    with pytest.raises(OptionError, match=message):
        resolve_providers(written, BOTH)


def test_a_provider_that_is_not_installed_is_no_misspelling():
    with pytest.raises(ProviderError, match=r"'coreml' .* cannot run"):
        resolve_providers(["CoreMLExecutionProvider", "cpu"], BOTH)


def _session(*taking: str) -> SimpleNamespace:
    parts = [SimpleNamespace(ep_name=name) for name in taking]
    return SimpleNamespace(get_providers=lambda: BOTH, get_provider_graph_assignment_info=lambda: parts)


def test_the_first_provider_takes_nodes_or_it_is_an_error():
    wanted = [(CUDA, {}), (CPU, {})]
    check_running(wanted, _session(CUDA, CPU), BOTH)  # those of shapes stay on the CPU
    with pytest.raises(ProviderError, match=f"{CUDA} .* no node of this graph: {CPU} would run"):
        check_running(wanted, _session(CPU, CPU), BOTH)
    check_running(wanted, SimpleNamespace(get_providers=lambda: BOTH), BOTH)  # before 1.24
    check_running([(CPU, {})], SimpleNamespace(get_providers=lambda: [CPU]), BOTH)


@pytest.mark.parametrize("others", [[], ["cpu"]])
def test_a_provider_that_runs_nothing_here(tiny_export: Path, others: list[str]):
    name = "AzureExecutionProvider"  # for remote models; it comes with the usual wheel
    if name not in onnxruntime.get_available_providers():
        pytest.skip(f"no {name}")
    if not hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
        pytest.skip("ONNX Runtime before 1.24")
    with pytest.raises(ProviderError, match=f"{name} was asked for and takes no node"):
        FastEncoder(tiny_export, providers=[name, *others])


def test_which_run_on_a_gpu(tiny_export: Path, monkeypatch: pytest.MonkeyPatch):
    assert {PROVIDERS[name] in ON_GPU for name in ("cuda", "tensorrt")} == {True}
    assert {PROVIDERS[name] in ON_GPU for name in ("cpu", "openvino", "coreml")} == {False}
    runner = FastEncoder(tiny_export)._open().runner
    assert not runner.on_gpu
    monkeypatch.setattr(type(runner), "provider", CUDA)
    assert runner.on_gpu
