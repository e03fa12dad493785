"""Scaling: a trace of any size at the size of a site, by one factor that a run reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.errors import TraceError
from simkit.power.signal import WATT
from simkit.power.signal_trace import Gaps, PowerTrace, pieces_of


@dataclass(frozen=True)
class Scaling:
    """How large the supply is; neither: as recorded.

    Raises TraceError if both are given, or one that is not positive.
    """

    peak_w: float | None = None
    """The largest value of the trace becomes this power, in W."""
    times_load: float | None = None
    """The mean of the trace becomes this many times the site's load."""

    def __post_init__(self) -> None:
        """Check that at most one is given, above 0."""
        if self.peak_w is not None and self.times_load is not None:
            raise TraceError(
                f"peak_w is {self.peak_w!r} and times_load {self.times_load!r}; a supply is scaled "
                "by one of them: take the other out"
            )
        for name in ("peak_w", "times_load"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise TraceError(f"{name} is {value!r}; it must be above 0")

    def factor(self, trace: PowerTrace, *, load_w: float | None = None, gaps: Gaps) -> float:
        """Return the factor on the trace's values.

        Args:
            trace: of power; its largest value and its mean over time count, gaps filled.
            load_w: the site's load in W, which `times_load` needs.
            gaps: the rule for gaps under which the trace will be used.

        Raises TraceError if the trace is not of power, never positive, or the load missing.
        """
        if self.peak_w is None and self.times_load is None:
            return 1.0
        trace.require(WATT, "a supply that is scaled")
        pieces = pieces_of(trace, gaps)
        lengths = np.diff(pieces.starts_s, append=pieces.end_s)
        if self.peak_w is not None:
            size, wanted = float(pieces.values.max()), self.peak_w
        else:
            size = float(pieces.values @ lengths / lengths.sum())
            wanted = self._wanted_mean(load_w)
        if size <= 0:
            raise TraceError(
                f"{trace.name}: its {'peak' if self.peak_w else 'mean'} is {size:g} W, no factor "
                "makes a supply of it; give another trace"
            )
        return wanted / size

    def _wanted_mean(self, load_w: float | None) -> float:
        if load_w is None or not 0 < load_w < float("inf"):
            raise TraceError(
                f"times_load needs the site's load, which is {load_w!r} W; it must be above 0"
            )
        return (self.times_load or 0.0) * load_w
