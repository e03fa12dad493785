"""The exceedance curve: for what share of the time a signal is above a level."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.power.signal import Signal


def exceedance(
    signal: Signal, levels: npt.ArrayLike, start_s: float, end_s: float, mean_s: float = 0.0
) -> Floats:
    """Return the share of a span in which the signal is above each level, 0 to 1.

    Args:
        signal: any; for several sources together their `Sum`.
        levels: (n,) in the signal's unit.
        start_s: start of the span, finite.
        end_s: end of the span, after the start.
        mean_s: 0 looks at the signal itself; 3600 at its means over the hours of the span, the
            last of which may be shorter.

    Returns:
        (n,) shares, falling where levels rise.

    Raises ValueError if the span is empty or not finite.
    """
    if not end_s > start_s:
        raise ValueError(f"a span from {start_s!r} to {end_s!r} s; it must not be empty")
    starts, values = signal.pieces(start_s, end_s)
    lengths = np.diff(starts, append=end_s)
    if mean_s:
        edges = np.append(np.arange(start_s, end_s, mean_s), end_s)
        area = np.concatenate(([0.0], np.cumsum(values * lengths)))
        lengths = np.diff(edges)
        values = np.diff(np.interp(edges, np.append(starts, end_s), area)) / lengths
    order = np.argsort(values, kind="stable")
    below = np.concatenate(([0.0], np.cumsum(lengths[order])))
    rows = np.searchsorted(values[order], np.asarray(levels, dtype=np.float64), side="right")
    shares: Floats = 1.0 - below[rows] / below[-1]
    return shares
