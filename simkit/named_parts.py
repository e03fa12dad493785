"""Parts that are known by name, and loaded when they are asked for: encoders, rewards."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from simkit.errors import PluginError, did_you_mean
from simkit.plugins import find


def named_part(noun: str, table: Mapping[str, str], name: str) -> Any:
    """Return the class or function that a name stands for.

    Args:
        noun: what it is, with its article: ``a reward``.
        table: name → ``module:attribute``.
        name: one of the table, or a ``module:attribute`` or ``file.py:attribute`` of one's own.

    Raises PluginError if nothing answers to the name.
    """
    if ":" in name:
        return find("", name)
    if name not in table:
        raise PluginError(f"{name!r} is not known as {noun}{did_you_mean(name, table)}")
    module, _, attribute = table[name].partition(":")
    return getattr(import_module(module), attribute)
