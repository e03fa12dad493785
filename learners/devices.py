"""Where a learner calculates: the processor, by NumPy, or a GPU, by torch."""

from __future__ import annotations

from importlib.util import find_spec

from .input_layers import InputLayer
from .perceptron import Weights
from .policy_network import PolicyNetwork


def check_device(device: str) -> list[str]:
    """Return what is wrong with a device that a user asks for; nothing: it is there."""
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


def make_network(first: InputLayer, weights: Weights, device: str) -> PolicyNetwork:
    """Return the network that does its products on a device that is there."""
    if device == "cpu":
        return PolicyNetwork(first, weights)
    from .torch_network import TorchNetwork

    return TorchNetwork(first, weights, device)
