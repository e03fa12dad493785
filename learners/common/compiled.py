"""Functions compiled by numba, of the fast simulations, and their modules, named kernels."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from simkit.errors import PluginError

__all__ = ["compiled", "cuda_module", "kernel", "lean", "without_gpu"]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Return the function as machine code, made when it is first called.

    It is not kept on disk: numba would not notice changes of the functions that it calls. Divisions
    by 0 are not looked for, as nothing here divides by 0.
    """
    import numba

    made: Function = numba.njit(function, error_model="numpy")
    return made


def lean(function: Function) -> Function:
    """Return the function as machine code that becomes a part of its callers; see `compiled`.

    It must make no array: none is counted, which takes longer than what small functions do. A GPU
    compiles the same functions.
    """
    import numba

    options: dict[str, Any] = {"error_model": "numpy", "forceinline": True, "_nrt": False}
    made: Function = numba.njit(**options)(function)
    return made


def kernel(module: str) -> Any:
    """Return a module of compiled functions; raises PluginError, which says what to install."""
    try:
        return import_module(f"simkit.learners.{module}")
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise PluginError(
            "fast simulations need numba, which is not installed; "
            "pip install 'simkit-cluster[learn]'"
        ) from error


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
