"""The ledger as a table at regular times: a view of its rows that changes no total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from simkit.ledger_flows import Flows
from simkit.ledger_rows import RATES, STORED

Floats = npt.NDArray[np.float64]

MEANS: Final = tuple(name for name in Flows._fields if name not in RATES)
"""Columns that hold and do not flow: PUE, prices, carbon intensities."""


def resampled(
    rows: Mapping[str, Floats | Sequence[float]],
    edges: npt.ArrayLike,
    first: Mapping[str, float] | None = None,
) -> dict[str, Floats]:
    """Return the means of a ledger's rows over bins.

    The mean of a bin times its length is exactly what flowed in it, so that bins of any length add
    up to the same totals as long as they cover the same time.

    Args:
        rows: columns of equal length as the ledger hands them on, in order of time.
        edges: (bins + 1,) ascending times in s; outside the rows nothing flows.
        first: what is stored at the first row's start, by the names of `STORED`; NaN where absent.

    Returns:
        Columns of (bins,): start_s, end_s, the means of `RATES` over the bin, those of `MEANS` over
        what the rows cover of it (NaN: nothing), and what is stored at its end; within a row the
        store is filled and emptied evenly.
    """
    cuts = np.asarray(edges, dtype=np.float64)
    columns = {name: np.asarray(rows[name], dtype=np.float64) for name in rows}
    times = np.concatenate((columns["start_s"][:1], columns["end_s"]))
    within = times[np.searchsorted(times, cuts[0], "right") : np.searchsorted(times, cuts[-1])]
    points = np.union1d(cuts, within)  # between two of them everything is constant
    row = np.searchsorted(times, points[:-1], side="right") - 1
    covered = (row >= 0) & (row < len(times) - 1)
    row = np.clip(row, 0, len(times) - 2)
    span = np.where(covered, np.diff(points), 0.0)
    begin = np.searchsorted(points, cuts[:-1])
    view = {"start_s": cuts[:-1], "end_s": cuts[1:]}
    for names, seconds in ((RATES, np.diff(cuts)), (MEANS, np.add.reduceat(span, begin))):
        for name in names:
            flowed = np.add.reduceat(columns[name][row] * span, begin)
            view[name] = np.divide(
                flowed, seconds, out=np.full(len(begin), np.nan), where=seconds > 0
            )
    for name in STORED:
        held = np.concatenate(([(first or {}).get(name, np.nan)], columns[name]))
        view[name] = np.interp(cuts[1:], times, held)
    return view
