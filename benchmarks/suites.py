"""The suites, in one list."""

from __future__ import annotations

import suite_budget
import suite_cpu
import suite_gpu
import suite_graphs
import suite_heads
import suite_kernels
import suite_latency
import suite_length
import suite_memory
import suite_precision
import suite_profile
import suite_ray
import suite_scale
import suite_startup
from job import Suite

SUITES: dict[str, Suite] = {
    "cpu": suite_cpu.suite,
    "latency": suite_latency.suite,
    "startup": suite_startup.suite,
    "memory": suite_memory.suite,
    "length": suite_length.suite,
    "scale": suite_scale.suite,
    "precision": suite_precision.suite,
    "budget": suite_budget.suite,
    "graphs": suite_graphs.suite,
    "profile": suite_profile.suite,
    "heads": suite_heads.suite,
    "ray": suite_ray.suite,
    "kernels": suite_kernels.suite,
    "gpu": suite_gpu.suite,
}
DEFAULT = "cpu"
