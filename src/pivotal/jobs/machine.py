"""Describes the machine of a run, without which its seconds mean nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch


def machine(device: torch.device) -> str:
    """The name of the GPU, or of the CPU with the numbers of cores and of torch threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    cores = os.cpu_count() or 1
    return f"{_cpu()}, {cores} core{'s' * (cores > 1)}, {torch.get_num_threads()} used"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
