"""Whether numba can use a GPU here, and what to do if it cannot."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from simkit.errors import PluginError

__all__ = ["cuda_module", "without_gpu"]


def cuda_module() -> Any:
    """Return numba's module for GPUs; raises PluginError without it."""
    try:
        return import_module("numba.cuda")
    except ModuleNotFoundError as error:
        raise PluginError(
            "device 'cuda' needs numba-cuda, which is not installed; "
            "pip install 'simkit-cluster[gpu]'"
        ) from error


def without_gpu() -> str:
    """Return why numba cannot use a GPU here, and what to do; empty if it can."""
    try:
        found = cuda_module().is_available()
    except PluginError as error:
        return str(error)
    if found:
        return ""
    return (
        "device 'cuda': numba finds no GPU of NVIDIA with its driver here; leave --device out, or "
        "run it where there is one, after pip install 'simkit-cluster[gpu]'"
    )
