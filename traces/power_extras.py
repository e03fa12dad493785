"""The libraries of the extra `power`, imported only where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from warnings import catch_warnings, simplefilter

from simkit.errors import SimkitError


def extra(name: str, purpose: str) -> Any:
    """Return a module: pvlib, windpowerlib or what they rest on.

    Raises SimkitError, beginning with `purpose`, if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise SimkitError(
            f"{purpose}: {name} is not installed; pip install 'simkit-cluster[power]'"
        ) from error


@contextmanager
def deprecations_apart() -> Iterator[None]:
    """Hide that these libraries use what pandas will drop one day: their authors' matter."""
    with catch_warnings():
        simplefilter("ignore", DeprecationWarning)
        yield
