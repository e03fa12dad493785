"""Devices to train on: the CPU, or a GPU that torch finds."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["check_device"]


def check_device(device: str) -> list[str]:
    """Return why a device cannot be used; empty if it can."""
    if device == "cpu":
        return []
    if find_spec("torch") is None:
        return [f"device: {device!r} needs torch: pip install 'simkit-cluster[learn]'"]
    import torch

    if device == "cuda" and torch.cuda.is_available():
        return []
    return [
        f"device: torch {torch.__version__} finds no {device!r} here; leave --device out, or "
        "install a build of torch for this machine's GPU"
    ]
