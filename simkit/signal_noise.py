"""A forecast with an error that grows with the lead time, as a weather forecast's does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, get_args

import numpy as np

from simkit.errors import TraceError, did_you_mean
from simkit.signal import Floats, Signal
from simkit.signal_forecast import require_reach, step_edges, step_means

ErrorKind = Literal["relative", "absolute"]

RESOLUTION_S: Final = 900.0
"""Lead times at which the error is drawn; between them it is a straight line."""


class NoisyForecast:
    """The truth and a random error, drawn anew whenever a forecast is issued.

    The error over the lead time is an autoregressive process of first order (an Ornstein-Uhlenbeck
    process, sampled; G. E. Uhlenbeck and L. S. Ornstein, "On the theory of the Brownian motion",
    Physical Review 36, 1930) that starts at 0: at lead time l its standard deviation is
    spread · sqrt(1 - exp(-2 l / correlation)), so that the next hour is known well and the day
    after tomorrow badly. Forecasts are issued at multiples of `issue_s`; in between everybody gets
    the last one issued, so that asking often wears no error away. The error depends on the seed
    and the time of issue alone, not on who asked before.

    Args:
        truth: the signal that is foreseen.
        seed: of the errors; the same seed gives the same forecasts.
        spread: standard deviation at long lead times. ``relative``: a share of the truth, which
            leaves nights dark; ``absolute``: in the unit of the signal.
        kind: of the error.
        correlation_s: how long an error lasts, in s; also how soon it grows.
        issue_s: time between two forecasts, in s.
        bounds: predictions below the first or above the second become it.
        reach_s: how far ahead it may be asked, in s.

    Raises TraceError if one of these is out of its range.
    """

    def __init__(
        self,
        truth: Signal,
        seed: int | Sequence[int],
        *,
        spread: float = 0.2,
        kind: ErrorKind = "relative",
        correlation_s: float = 21_600.0,
        issue_s: float = 3_600.0,
        bounds: tuple[float, float] = (0.0, math.inf),
        reach_s: float = math.inf,
    ) -> None:
        _check(spread, kind, correlation_s, issue_s, bounds, reach_s)
        self.truth = truth
        self.seed = seed
        self.spread = spread
        self.kind = kind
        self.correlation_s = correlation_s
        self.issue_s = issue_s
        self.bounds = bounds
        self.reach_s = reach_s
        self._issue, self._path = 0, np.zeros(1)

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Return the truth with the error of the forecast issued last."""
        require_reach(self.reach_s, horizon_s)
        edges = step_edges(horizon_s, step_s)
        truth = step_means(self.truth, now_s + edges)
        issue = math.floor(now_s / self.issue_s)
        lead = now_s - issue * self.issue_s + (edges[:-1] + edges[1:]) / 2
        error = self.error(issue, lead)
        predicted = truth * (1 + error) if self.kind == "relative" else truth + error
        return np.clip(predicted, *self.bounds)

    def error(self, issue: int, lead_s: Floats) -> Floats:
        """Return the error of a forecast at lead times in s after it was issued: (n,).

        Args:
            issue: number of the forecast: its time divided by `issue_s`.
            lead_s: (n,) ascending lead times.
        """
        drawn = math.ceil(float(lead_s[-1]) / RESOLUTION_S) + 1
        if issue != self._issue or len(self._path) < drawn:
            self._issue, self._path = issue, self._draw(issue, drawn)
        return np.interp(lead_s, RESOLUTION_S * np.arange(len(self._path)), self._path)

    def _draw(self, issue: int, number: int) -> Floats:
        """Return the error at `number` lead times; more of them begin with the fewer."""
        keep = math.exp(-RESOLUTION_S / self.correlation_s)
        seeds = np.random.SeedSequence(self.seed, spawn_key=(issue % 2**64,))
        shocks = np.random.default_rng(seeds).standard_normal(number - 1)
        path, error = [0.0], 0.0
        for shock in (self.spread * math.sqrt(1 - keep * keep) * shocks).tolist():
            error = keep * error + shock
            path.append(error)
        return np.array(path)


def _check(
    spread: float,
    kind: str,
    correlation_s: float,
    issue_s: float,
    bounds: tuple[float, float],
    reach_s: float,
) -> None:
    """Raise TraceError with everything that is out of its range."""
    wrong = []
    if not 0 <= spread < math.inf:
        wrong.append(f"spread is {spread!r}; it must be 0 or more")
    if kind not in get_args(ErrorKind):
        wrong.append(f"kind {kind!r} is no kind of error{did_you_mean(kind, get_args(ErrorKind))}")
    for name, length in (("correlation_s", correlation_s), ("issue_s", issue_s)):
        if not 0 < length < math.inf:
            wrong.append(f"{name} is {length!r}; it must be above 0 and finite")
    if not bounds[0] < bounds[1]:
        wrong.append(f"bounds are {bounds!r}; the first must be below the second")
    if not reach_s > 0:
        wrong.append(f"reach_s is {reach_s!r}; it must be above 0")
    if wrong:
        raise TraceError("noisy forecast: " + "\nnoisy forecast: ".join(wrong))
