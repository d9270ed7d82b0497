"""Describes the machine of a run, without which its seconds mean nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch


def machine(device: torch.device) -> str:
    """The name of the GPU, with "TF32" if it multiplies float32 matrices in that format; or the name of the CPU, with
    the numbers of cores and of torch threads."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device)) + ", TF32" * _uses_tf32()
    cores = os.cpu_count() or 1
    return f"{_cpu()}, {cores} core{'s' * (cores > 1)}, {torch.get_num_threads()} used"


def _uses_tf32() -> bool:
    """Whether products of float32 matrices keep 10 bits of the mantissa. The variable of the driver overrides torch."""
    override = os.environ.get("NVIDIA_TF32_OVERRIDE")
    if override in ("0", "1"):
        return override == "1"
    products = torch.backends.cuda.matmul
    # torch 2.9 has a new setting, and then refuses to read the old one if the new one was used.
    return bool(
        products.fp32_precision == "tf32" if hasattr(products, "fp32_precision") else products.allow_tf32
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
