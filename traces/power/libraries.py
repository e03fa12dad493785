"""The libraries of the extra `power`, imported only where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

from simkit.errors import SimkitError


def power_library(name: str, purpose: str) -> Any:
    """Return a module: pvlib, windpowerlib or a library that they need.

    Raises SimkitError, beginning with `purpose`, if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise SimkitError(
            f"{purpose}: {name} is not installed; pip install 'simkit-cluster[power]'"
        ) from error


@contextmanager
def deprecations_hidden() -> Iterator[None]:
    """Hide warnings that these libraries use deprecated functions of pandas: we cannot fix it."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)
        yield
