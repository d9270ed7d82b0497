"""What a run folder says about the machine."""

import torch

from pivotal.jobs.preparation import machine


def test_a_cpu_has_its_threads():
    assert machine(torch.device("cpu")).endswith(f" {torch.get_num_threads()} used")


def test_a_gpu_says_whether_its_products_have_few_digits(monkeypatch):
    """With a stand-in for the name of a GPU. The settings of torch can be changed without one."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A GPU")
    try:
        for precision, said in (("highest", "A GPU"), ("high", "A GPU, TF32")):
            torch.set_float32_matmul_precision(precision)
            assert machine(torch.device("cuda")) == said
    finally:
        torch.set_float32_matmul_precision("highest")
