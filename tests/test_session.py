"""Which ONNX Runtime is installed, simulated: none, and both."""

from __future__ import annotations

import sys

import pytest

from ditto_fast import providers, session
from ditto_fast.errors import MissingDependencyError, ProviderError


def test_without_a_runtime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError, match=r"ditto-fast\[cpu\]"):
        session.import_onnxruntime()


def test_with_both_wheels_it_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(providers, "installed_runtimes", lambda: ["onnxruntime", "onnxruntime-gpu"])
    with pytest.warns(RuntimeWarning, match="onnxruntime, onnxruntime-gpu are installed together"):
        session.import_onnxruntime()
    with pytest.raises(ProviderError, match="onnxruntime, onnxruntime-gpu are installed together"):
        providers.resolve_providers("cuda", ["CPUExecutionProvider"])
