"""A checksum of a module's weights."""

from __future__ import annotations

import hashlib

import torch


@torch.no_grad()
def checksum(model: torch.nn.Module) -> str:
    """A checksum of all weights. Integer sums make it independent of the device and the order of summation."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        plain = tensor.detach().contiguous().reshape(-1)
        number = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[plain.dtype.itemsize]
        bits = plain.view(number).to(torch.int64)
        place = torch.arange(len(bits), device=bits.device) % 65_521 + 1
        digest.update(f"{name} {tuple(tensor.shape)} {int(bits.sum())} {int((bits * place).sum())}".encode())
    return digest.hexdigest()
