"""What a run folder says about the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pivotal.jobs.preparation import machine


def test_a_cpu_has_its_threads() -> None:
    assert machine(torch.device("cpu")).endswith(f" {torch.get_num_threads()} used")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A stand-in for the name of a GPU. The settings of torch can be changed without one."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A GPU")
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    yield monkeypatch
    torch.set_float32_matmul_precision("highest")


def test_a_gpu_says_whether_its_products_have_few_digits(gpu: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda")
    assert machine(device) == "A GPU"
    torch.set_float32_matmul_precision("high")
    assert machine(device) == "A GPU, TF32"
    gpu.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert machine(device) == "A GPU"
    torch.set_float32_matmul_precision("highest")
    gpu.setenv("NVIDIA_TF32_OVERRIDE", "1")
    assert machine(device) == "A GPU, TF32"
