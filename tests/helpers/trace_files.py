"""Real files of traces, and what a reader says to a file that it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.errors import TraceError

SHARED = Path(__file__).parents[3] / "shared"
DATA = Path(os.environ.get("SIMKIT_DATA", SHARED / "data"))
ORACLE = Path(os.environ.get("SIMKIT_ORACLE", SHARED / "oracle"))


def real_file(*parts: str) -> Path:
    """Return a file below SIMKIT_DATA; skip the test where it is absent."""
    return _there(DATA.joinpath(*parts), "SIMKIT_DATA")


def oracle_file(*parts: str) -> Path:
    """Return a file of reference results, below SIMKIT_ORACLE; skip the test where it is absent."""
    return _there(ORACLE.joinpath(*parts), "SIMKIT_ORACLE")


def _there(path: Path, variable: str) -> Path:
    if not path.exists():
        pytest.skip(f"no {path}; set {variable} to its folder")
    return path


def needs_real(*parts: str) -> pytest.MarkDecorator:
    """Mark a test that needs a file below SIMKIT_DATA."""
    path = DATA.joinpath(*parts)
    return pytest.mark.skipif(not path.exists(), reason=f"no {path}; set SIMKIT_DATA")


def refusal(read: Callable[..., object], path: Path, **keys: object) -> str:
    """Return the message with which a reader refuses a file, after the file's name."""
    with pytest.raises(TraceError) as caught:
        read(path, **keys)
    return str(caught.value).removeprefix(str(path))
