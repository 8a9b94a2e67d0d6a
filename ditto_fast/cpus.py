"""How many CPUs this process may really use."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath

_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def _folders(root: Path, membership: Path) -> set[Path]:
    """The folders that may hold this process's quota: its own group's and those above it, of cgroup v2 and v1."""
    try:
        paths = [line.split(":", 2)[2] for line in membership.read_text().splitlines()]
    except (OSError, IndexError):
        paths = []
    groups = [PurePosixPath(path.lstrip("/")) for path in ["", *paths]]
    return {top / each for group in groups for each in (group, *group.parents) for top in (root, root / "cpu")}


def _quota(folder: Path) -> float | None:
    """CPUs that one group is granted, None where it has no quota."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    try:
        cpus = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None  # "max": no quota
    return cpus if cpus > 0 else None


def available_cpus(cgroup_root: Path = _CGROUP, membership: Path = _MEMBERSHIP) -> int:
    """CPUs in this process's affinity mask, no more than its container's quota (rounded up), at least 1.

    Example:
        >>> available_cpus() >= 1
        True
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for folder in _folders(cgroup_root, membership) if (quota := _quota(folder)) is not None]
    return max(1, min([cpus, *map(math.ceil, quotas)]))
