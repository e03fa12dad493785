"""Real files of traces, and what a reader says to a file that it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.errors import TraceError

DATA = Path(os.environ.get("SIMKIT_DATA", Path(__file__).parents[3] / "shared" / "data"))


def real_file(*parts: str) -> Path:
    """Return a file below SIMKIT_DATA; skip the test where it is absent."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {path}; set SIMKIT_DATA to the folder of real data")
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
