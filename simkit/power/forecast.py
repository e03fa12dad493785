"""Forecasts: what may be known at an instant of a signal's future.

`predict(now, horizon, step)` returns the mean expected in each step ahead. What each kind looks
at, and nothing else:

- `PerfectForecast`: the truth up to now + horizon;
- `Persistence`: the truth up to now, or up to the same hours of the day before;
- `NoisyForecast`: the truth up to now + horizon, with an error that grows with the lead time;
- `GivenForecast`: another signal, such as a recorded forecast of the day before.

`foreseen` makes a signal of a forecast: what was expected so long before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, Protocol, get_args

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError, did_you_mean
from simkit.power.signal import Signal
from simkit.power.signal_steps import Steps
from simkit.units import format_duration


class Forecast(Protocol):
    """Whatever predicts a signal."""

    @property
    def truth(self) -> Signal:
        """The signal that is foreseen."""

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Return what is expected.

        Args:
            now_s: the instant at which somebody asks.
            horizon_s: how far ahead, in s, above 0.
            step_s: the length of a step in s, above 0; the last step ends at the horizon.

        Returns:
            (ceil(horizon / step),) the mean over each step, in the unit of the signal.

        Raises TraceError if the forecast does not reach so far.
        """


class PerfectForecast:
    """Foresees the truth."""

    def __init__(self, truth: Signal) -> None:
        self.truth = truth

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Return the true mean of each step."""
        return step_means(self.truth, now_s + step_edges(horizon_s, step_s))


class GivenForecast:
    """Another signal, on the same clock, is taken for what will be.

    Args:
        truth: the signal that is foreseen.
        given: the signal that is believed.
        reach_s: how far ahead it may be asked, in s.

    Raises TraceError if the two have different units, or the reach is not above 0.
    """

    def __init__(self, truth: Signal, given: Signal, reach_s: float = math.inf) -> None:
        if truth.unit != given.unit:
            raise TraceError(
                f"a forecast in {given.unit} of a signal in {truth.unit}; both need the same unit"
            )
        if not reach_s > 0:
            raise TraceError(f"a forecast that reaches {reach_s!r} s ahead; it must be above 0")
        self.truth, self.given, self.reach_s = truth, given, reach_s

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Return the mean of each step of the given signal."""
        require_reach(self.reach_s, horizon_s)
        end = now_s + horizon_s
        if end > self.given.end_s:
            raise TraceError(
                f"the forecast ends at {self.given.end_s:.10g} s of the run, but at {now_s:.10g} s "
                f"one for {format_duration(horizon_s)} is asked for; give a longer one, a shorter "
                "horizon, or past_end hold or wrap"
            )
        return step_means(self.given, now_s + step_edges(horizon_s, step_s))


class Persistence:
    """Everything stays as it is, or repeats what it did a period ago.

    Args:
        truth: the signal that is foreseen.
        period_s: 0: the value of now lasts; 86,400: each step is as it was at the same time on the
            last day that is over by then, which suits the sun. Where the truth does not reach back
            so far, the value of now lasts.

    Raises TraceError if the period is negative.
    """

    def __init__(self, truth: Signal, period_s: float = 0.0) -> None:
        if not 0 <= period_s < math.inf:
            raise TraceError(f"persistence over {period_s!r} s; it must be 0 or more")
        self.truth, self.period_s = truth, period_s

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Return the value of now, or the means of the steps a period earlier."""
        edges = step_edges(horizon_s, step_s)
        means = np.full(len(edges) - 1, self.truth.value(now_s))
        if self.period_s:
            periods = np.ceil(edges[1:] / self.period_s)  # back to where all of a step is over
            for back in np.unique(periods).tolist():
                rows = np.flatnonzero(periods == back)
                earlier = now_s + edges[rows[0] : rows[-1] + 2] - back * self.period_s
                if (known := earlier[:-1] >= self.truth.start_s).any():
                    first = int(np.argmax(known))
                    means[rows[first:]] = step_means(self.truth, earlier[first:])
        return means


def foreseen(
    forecast: Forecast, start_s: float, end_s: float, *, lead_s: float, step_s: float
) -> Steps:
    """Return what was expected of each step of a span, asked `lead_s` before it began.

    Args:
        forecast: who is asked.
        start_s: start of the span.
        end_s: its end.
        lead_s: how long before each step the forecast is asked, in s, 0 or more; rounded up to
            whole steps.
        step_s: length of the steps in s.

    Raises TraceError if the forecast does not reach so far, ValueError if the span is empty.
    """
    starts = start_s + step_edges(end_s - start_s, step_s)[:-1]
    if not lead_s >= 0:
        raise ValueError(f"lead_s is {lead_s!r}; a step is foreseen before it begins")
    values = [_expected(forecast, start, lead_s, step_s) for start in starts.tolist()]
    return Steps(starts, values, end_s, unit=forecast.truth.unit, name="forecast")


def _expected(forecast: Forecast, start_s: float, lead_s: float, step_s: float) -> float:
    """Return what is expected of a step, from a prediction that ends with it."""
    whole = math.ceil(lead_s / step_s)
    horizon = (whole + 1) * step_s
    return float(forecast.predict(start_s - whole * step_s, horizon, step_s)[-1])


def step_edges(horizon_s: float, step_s: float) -> Floats:
    """Return the edges of the steps ahead in s from 0 to the horizon.

    Raises ValueError unless both lengths are above 0 and finite.
    """
    if not (0 < horizon_s < math.inf and 0 < step_s < math.inf):
        raise ValueError(f"horizon {horizon_s!r} s, step {step_s!r} s; both must be above 0")
    steps = math.ceil(horizon_s / step_s)
    return np.append(step_s * np.arange(steps, dtype=np.float64), horizon_s)


def step_means(signal: Signal, edges_s: Floats) -> Floats:
    """Return the mean of a signal between neighbours of (n + 1,) ascending instants in s: (n,)."""
    starts, values = signal.pieces(float(edges_s[0]), float(edges_s[-1]))
    cuts = np.append(starts, edges_s[-1])
    area = np.concatenate(([0.0], np.cumsum(values * np.diff(cuts))))
    means = np.diff(np.interp(edges_s, cuts, area)) / np.diff(edges_s)
    first = np.searchsorted(starts, edges_s[:-1], side="right") - 1
    last = np.searchsorted(starts, edges_s[1:], side="left") - 1
    # Within one piece the mean is its value; a difference of sums would be so nearly, nights not 0.
    return np.where(first == last, values[first], means)


def require_reach(reach_s: float, horizon_s: float) -> None:
    """Raise TraceError if a forecast that reaches `reach_s` ahead is shorter than a horizon."""
    if horizon_s > reach_s:
        raise TraceError(
            f"the forecast reaches {format_duration(reach_s)} ahead, the horizon is "
            f"{format_duration(horizon_s)}; shorten the horizon or give a longer forecast"
        )


# MERGED A forecast with an error that grows with the lead time, as a weather forecast's does.


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
