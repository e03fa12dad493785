"""What a golden case is, and digests that do not hang on the last bits of floats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("SIMKIT_DATA", HERE.parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Case:
    """Something whose results must not change unnoticed."""

    results: Callable[[], Any]
    """Returns plain JSON values: digests, and a few numbers for people."""
    slow: bool = False
    """Whether it takes seconds, and is left out of `make test`."""
    needs_data: bool = False
    """Whether it reads logs in the folder `SIMKIT_DATA`."""
    needs: tuple[str, ...] = ()
    """Packages without which it is skipped."""
    listing: Callable[[Any, Any], list[str]] | None = None
    """Says, given what was expected and what was found, what differs."""

    def differences(self, expected: Any, found: Any) -> list[str]:
        """Return what differs, in lines for people; none if nothing does."""
        if expected == found:
            return []
        if self.listing is not None and expected is not None:
            return self.listing(expected, found)
        return [f"expected {expected}", f"found    {found}"]


def digest(value: Any) -> str:
    """Return a short SHA-256 of plain JSON values and arrays of whole numbers."""
    return sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()[:16]


def rounded(values: Any, digits: int = 6) -> list[Any]:
    """Return floats as text of a few digits; NaN is ``nan``, and minus nought is nought."""
    flat = np.asarray(values, np.float64)
    return [f"{number + 0.0:.{digits}g}" for number in np.round(flat, 12).ravel().tolist()]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray):
        assert value.dtype.kind in "biu", f"round {value.dtype} first"
        return value.astype(np.int64).tolist()
    return value.item() if isinstance(value, np.generic) else value
