"""Columns of whole numbers and texts, packed for a page: a few bytes a row instead of a line.

Neighbours in a column are alike, so each number is stored as its difference from the one before;
then all lowest bytes follow each other, all second bytes, and so on, which gzip packs well. The
page undoes this with a loop, see ``assets/decode.js``.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats

LARGEST: Final = 2**32 - 1
"""The largest number of a column."""
_LEVEL: Final = 6
"""Of gzip; higher ones take several times as long for a few per cent."""


class Packed:
    """Named columns, packed one after the other into one gzipped block."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._columns: list[dict[str, Any]] = []

    def numbers(self, name: str, values: npt.ArrayLike) -> None:
        """Add whole numbers from 0 to `LARGEST`, by their differences."""
        given = np.asarray(values, dtype=np.int64)
        assert not len(given) or (given.min() >= 0 and given.max() <= LARGEST), name
        steps = np.diff(given, prepend=0).astype(np.uint32)  # modulo 2**32, as the page adds them
        planes = steps.astype("<u4").view(np.uint8).reshape(-1, 4).T
        self._add(name, "numbers", len(given), planes.tobytes())

    def bytes_of(self, name: str, values: npt.NDArray[np.uint8]) -> None:
        """Add numbers from 0 to 255 as they are."""
        self._add(name, "bytes", values.size, values.tobytes())

    def texts(self, name: str, values: Sequence[str]) -> None:
        """Add texts."""
        self._add(name, "texts", len(values), json.dumps(list(values)).encode())

    def _add(self, name: str, kind: str, count: int, part: bytes) -> None:
        self._parts.append(part)
        self._columns.append({"name": name, "kind": kind, "count": count, "bytes": len(part)})

    def finish(self) -> dict[str, Any]:
        """Return the columns' names, kinds and sizes, and the block as base64 text."""
        block = gzip.compress(b"".join(self._parts), _LEVEL, mtime=0)
        return {"columns": self._columns, "block": b64encode(block).decode()}


def whole(values: Floats, start: float, unit: float, most: int = LARGEST) -> npt.NDArray[np.int64]:
    """Return times as whole numbers of a unit since a start, within 0 and `most`; NaN as 0."""
    ticks = np.nan_to_num((values - start) / unit, nan=0.0, posinf=float(most), neginf=0.0)
    return np.rint(np.clip(ticks, 0, most)).astype(np.int64)
