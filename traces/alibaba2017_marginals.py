"""A fitted distribution: knots of its cumulative curve, drawn from by inversion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.workload import Floats, Ints


@dataclass(frozen=True)
class Marginal:
    """Values of at least 0 and the share of all that does not exceed each.

    Between two knots the curve is straight over log(1 + value); a value that stands twice is one
    that many rows have, and takes the whole share between its two knots.
    """

    knots: tuple[tuple[float, float], ...]
    """((value, share up to and with it), …), both ascending, the last share 1."""

    def __post_init__(self) -> None:
        """Check our own tables."""
        values, shares = np.array(self.knots).T
        assert (np.diff(values) >= 0).all()
        assert (np.diff(shares) >= 0).all()
        assert values[0] >= 0
        assert shares[-1] == 1

    def at(self, level: Floats) -> Floats:
        """Return the values at these levels, shares in 0 … 1, of any shape."""
        values, shares = np.array(self.knots).T
        return np.asarray(np.expm1(np.interp(level, shares, np.log1p(values))))

    def whole_at(self, level: Floats) -> Ints:
        """Return the whole numbers at these levels: those of whole knots have their exact share."""
        return np.ceil(self.at(level) - 1e-9).astype(np.int64)

    def share_upto(self, value: float) -> float:
        """Return which share of all is at most `value`."""
        values, shares = np.array(self.knots).T
        last = np.searchsorted(values, value, side="right") - 1
        if last < 0:
            return 0.0
        if last == len(values) - 1 or values[last] == value:
            return float(shares[last])
        rows = slice(last, last + 2)
        return float(np.interp(np.log1p(value), np.log1p(values[rows]), shares[rows]))
