"""The ledger as a table at regular times: a view of its rows that changes no total."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from simkit.ledger_rows import RATES, STORED

Floats = npt.NDArray[np.float64]


def resampled(rows: Mapping[str, Floats], edges: npt.ArrayLike) -> dict[str, Floats]:
    """Return the means of a ledger's rows over bins.

    The mean of a bin times its length is exactly what flowed in it, so that bins of any length add
    up to the same totals as long as they cover the same time.

    Args:
        rows: columns of equal length as the ledger hands them on, in order of time.
        edges: (bins + 1,) ascending times in s; outside the rows nothing flows.

    Returns:
        Columns of (bins,): start_s, end_s, the means of `RATES`, and what is stored at the end,
        NaN before the first row has ended.
    """
    cuts = np.asarray(edges, dtype=np.float64)
    start, end = np.asarray(rows["start_s"]), np.asarray(rows["end_s"])
    span, length = end - start, np.diff(cuts)
    times = np.concatenate((start[:1], end))
    view = {"start_s": cuts[:-1], "end_s": cuts[1:]}
    for name in RATES:
        flowed = np.concatenate(([0.0], np.cumsum(rows[name] * span)))
        view[name] = np.diff(np.interp(cuts, times, flowed)) / length
    last = np.searchsorted(end, cuts[1:], side="right") - 1
    for name in STORED:
        view[name] = np.where(last >= 0, np.asarray(rows[name])[last], np.nan)
    return view
