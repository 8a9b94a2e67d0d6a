from __future__ import annotations

import os
from pathlib import Path

import pytest

from ditto_fast.cpus import available_cpus


@pytest.fixture
def _sixteen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


@pytest.mark.usefixtures("_sixteen")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "1000 100000"}, 1),
        ({"cpu.max": "max 100000"}, 16),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 16),
        ({"cpu.max": "nonsense"}, 16),
        ({}, 16),
    ],
)
def test_the_quota_caps_the_affinity_mask(tmp_path: Path, files: dict[str, str], expected: int):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cpus(tmp_path) == expected


@pytest.mark.usefixtures("_sixteen")
@pytest.mark.parametrize(
    ("line", "folder", "file"),
    [("0::/system.slice/a.service", "system.slice", "cpu.max"), ("4:cpu,cpuacct:/docker/7", "cpu/docker/7", "cpu.max")],
)
def test_the_quota_of_the_group_and_of_those_above_it_counts(tmp_path: Path, line: str, folder: str, file: str):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / file).write_text("500000 100000")
    membership = tmp_path / "membership"
    membership.write_text(f"3:memory:/elsewhere\n{line}\n")
    assert available_cpus(tmp_path, membership) == 5


def test_the_affinity_mask_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert available_cpus(tmp_path) == 1
