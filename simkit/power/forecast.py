"""Forecasts: what may be known at an instant about a signal's future.

`predict(now, horizon, step)` returns the mean expected in each step ahead. What each kind reads:

- `PerfectForecast`: the truth up to now + horizon;
- `Persistence`: the truth up to now;
- `NoisyForecast`: the truth up to now + horizon, plus an error that grows with the lead time;
- `GivenForecast`: another signal, such as a recorded forecast of the day before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from simkit.arrays import Floats
from simkit.errors import TraceError
from simkit.power.facts import Noise
from simkit.power.signal import Signal
from simkit.units import DAY_S, format_duration

ERROR_STEP_S: Final = 900.0
"""Distance of the lead times at which an error is drawn; in between it is a straight line."""


class Forecast(Protocol):
    """Predicts a signal."""

    @property
    def truth(self) -> Signal:
        """The signal that is predicted."""

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Return (ceil(horizon / step),) the mean expected in each step, in the signal's unit.

        Args:
            now_s: when the forecast is asked.
            horizon_s: how far ahead, in s, above 0.
            step_s: length of a step in s, above 0; the last step ends at the horizon.

        Raises TraceError if the forecast does not reach that far.
        """


class PerfectForecast:
    """Predicts the truth."""

    def __init__(self, truth: Signal) -> None:
        self.truth = truth

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        return step_means(self.truth, now_s + step_edges(horizon_s, step_s))


class GivenForecast:
    """Predicts that a signal will be as another one, on the same clock.

    Raises TraceError if the two have different units.
    """

    def __init__(self, truth: Signal, given: Signal) -> None:
        if truth.unit != given.unit:
            raise TraceError(
                f"a forecast in {given.unit} of a signal in {truth.unit}; both need the same unit"
            )
        self.truth, self.given = truth, given

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        end = now_s + horizon_s
        if end > self.given.end_s:
            near = end - self.given.end_s <= DAY_S
            raise TraceError(
                f"the forecast ends at {self.given.end_s:.10g} s of the run, but at {now_s:.10g} s "
                f"a horizon of {format_duration(horizon_s)} is needed; give a longer forecast, a "
                f"shorter horizon, or past_end {'hold or ' if near else ''}wrap"
            )
        return step_means(self.given, now_s + step_edges(horizon_s, step_s))


class Persistence:
    """Predicts that the signal keeps its value, or repeats what it did a period ago.

    Args:
        truth: the signal that is predicted.
        period_s: 0: the present value lasts; 86,400: each step is as at the same time of the last
            day that is over, which suits the sun. If the truth does not reach back that far, the
            present value lasts.

    Raises TraceError if the period is negative.
    """

    def __init__(self, truth: Signal, period_s: float = 0.0) -> None:
        if not 0 <= period_s < math.inf:
            raise TraceError(f"persistence: period_s is {period_s!r}; it must be 0 or more")
        self.truth, self.period_s = truth, period_s
        self._last: tuple[float, float, Floats] = (math.nan, math.nan, np.empty(0))

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        period_s = self.period_s
        whole = period_s and not (period_s % step_s or horizon_s % step_s)
        if whole and now_s - period_s >= self.truth.start_s:
            return np.resize(self._last_period(now_s, step_s), round(horizon_s / step_s))
        return self._predict(now_s, horizon_s, step_s)

    def _last_period(self, now_s: float, step_s: float) -> Floats:
        """Return (period / step,) the means of the steps of the period that ends now.

        Forecasts are asked for step by step: then all means but the last ones are known.
        """
        steps = round(self.period_s / step_s)
        ended_s, known_step_s, means = self._last
        new = (now_s - ended_s) / step_s
        if known_step_s != step_s or not (0 <= new < steps and new.is_integer()):
            new, means = steps, means[:0]
        if new == 1:  # most often, and cheaper than arrays
            means = np.append(means[1:], self.truth.mean(now_s - step_s, now_s))
        elif new:
            edges = now_s + step_s * np.arange(-int(new), 1.0)
            means = np.concatenate((means[int(new) - steps :], step_means(self.truth, edges)))
        self._last = (now_s, step_s, means)
        return means

    def _predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        """Predict where periods and steps do not fit together, or begin before the truth does."""
        edges = step_edges(horizon_s, step_s)
        means = np.full(len(edges) - 1, self.truth.value(now_s))
        if self.period_s:
            periods = np.ceil(edges[1:] / self.period_s)  # this many back, all of the step is over
            for back in np.unique(periods).tolist():
                rows = np.flatnonzero(periods == back)
                earlier = now_s + edges[rows[0] : rows[-1] + 2] - back * self.period_s
                if (known := earlier[:-1] >= self.truth.start_s).any():
                    first = int(np.argmax(known))
                    means[rows[first:]] = step_means(self.truth, earlier[first:])
        return means


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
    # Within one piece the mean is its value; a difference of sums is inexact (nights above 0).
    return np.where(first == last, values[first], means)


class NoisyForecast:
    """Predicts the truth with a random error, drawn independently for each forecast issued.

    The error over the lead time is an autoregressive process of first order (a sampled
    Ornstein-Uhlenbeck process; G. E. Uhlenbeck and L. S. Ornstein, "On the theory of the Brownian
    motion", Physical Review 36, 1930) that starts at 0: at lead time l its standard deviation is
    `spread` · sqrt(1 - exp(-2 l / `correlation`)), so the next hour is known well and the day after
    tomorrow badly. Forecasts are issued at multiples of `issue`. In between the last one issued
    holds, so asking often does not average the error out. The error depends on the seed and the
    time of issue alone.

    Args:
        truth: the signal that is predicted.
        seed: of the errors; the same seed gives the same forecasts.
        noise: a relative error leaves nights dark; an absolute one is in the signal's unit.
        bounds: predictions are clipped to this range.

    Raises TraceError unless the first bound is below the second.
    """

    def __init__(
        self,
        truth: Signal,
        seed: int | Sequence[int],
        noise: Noise | None = None,
        *,
        bounds: tuple[float, float] = (0.0, math.inf),
    ) -> None:
        self.truth = truth
        self.seed = seed
        self.noise = noise or Noise()
        self.bounds = bounds
        if not bounds[0] < bounds[1]:
            raise TraceError(
                f"noisy forecast: bounds are {bounds!r}; the first must be below the second"
            )
        self._issue, self._path = 0, np.zeros(1)

    def predict(self, now_s: float, horizon_s: float, step_s: float) -> Floats:
        edges = step_edges(horizon_s, step_s)
        truth = step_means(self.truth, now_s + edges)
        issue = math.floor(now_s / self.noise.issue)
        lead = now_s - issue * self.noise.issue + (edges[:-1] + edges[1:]) / 2
        error = self.error(issue, lead)
        predicted = truth * (1 + error) if self.noise.kind == "relative" else truth + error
        return np.clip(predicted, *self.bounds)

    def error(self, issue: int, lead_s: Floats) -> Floats:
        """Return (n,) the error of a forecast at (n,) ascending lead times in s after its issue.

        `issue` is the forecast's number: its time of issue divided by `issue`.
        """
        drawn = math.ceil(float(lead_s[-1]) / ERROR_STEP_S) + 1
        if issue != self._issue or len(self._path) < drawn:
            self._issue, self._path = issue, self._draw(issue, drawn)
        return np.interp(lead_s, ERROR_STEP_S * np.arange(len(self._path)), self._path)

    def _draw(self, issue: int, number: int) -> Floats:
        """Return the error at the first `number` lead times, a multiple of 900 s each."""
        keep = math.exp(-ERROR_STEP_S / self.noise.correlation)
        seeds = np.random.SeedSequence(self.seed, spawn_key=(issue % 2**64,))
        shocks = np.random.default_rng(seeds).standard_normal(number - 1)
        path, error = [0.0], 0.0
        for shock in (self.noise.spread * math.sqrt(1 - keep * keep) * shocks).tolist():
            error = keep * error + shock
            path.append(error)
        return np.array(path)
