"""The Lublin–Feitelson workload model: rigid jobs as on parallel supercomputers.

Uri Lublin and Dror G. Feitelson, "The workload on parallel supercomputers: modeling the
characteristics of rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003.

- Size: serial with a fixed probability; else 2 to a two-stage uniform power, which is rounded
  with a fixed probability, so that powers of two are frequent.
- Run time: its logarithm is a mixture of two gamma variables; the larger the job, the more often
  it is the second, the long one.
- Arrivals: the logarithm of a gap is a gamma variable too, and gaps are measured on a clock with
  the rhythm of the day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.traces.models.synthetic import BLOCK, RigidModel, draw_column, redraw_above
from simkit.workload import Trace


@dataclass(frozen=True)
class LublinParameters:
    """The published parameters of one class of jobs.

    The paper fits them to logs of machines of about 128 processors; sizes are given relative to
    the machine, so that the model follows it. Logarithms of sizes are to base 2, of times natural.
    """

    serial_share: float
    """Probability that a job takes one processor."""
    power_of_two_share: float
    """Probability that a job takes several and rounds the logarithm of its size."""
    log_smallest: float
    """Lower bound of the two-stage uniform distribution of log2 of a parallel job's size."""
    medium_below_largest: float
    """How far its middle bound lies below the upper one; published as 1.5 … 3.5."""
    largest_below_machine: float
    """How far its upper bound lies below log2 of the machine's processors."""
    medium_share: float
    """Probability of the lower of the two stages."""
    run_shape: tuple[float, float]
    """Shapes of the two gamma distributions of the logarithm of the run time (in seconds)."""
    run_scale: tuple[float, float]
    """Their scales."""
    first_share: tuple[float, float]
    """(a, b): the first gamma has probability a · processors + b, kept within [0, 1]."""
    gap_shape: float
    """Shape of the gamma distribution of the logarithm of the gap (in seconds) at rush hours."""
    gap_scale: float
    """Its scale."""
    gap_shape_factor: float
    """Ratio of all hours to rush hours, a factor on the shape (ARAR in the authors' program)."""
    day_shape: float
    """Shape of the gamma distribution of arrivals over the day, in half hours."""
    day_scale: float
    """Its scale."""


ALL_JOBS = LublinParameters(
    serial_share=0.244,
    power_of_two_share=0.576,
    log_smallest=0.8,
    medium_below_largest=2.5,
    largest_below_machine=0.0,
    medium_share=0.86,
    run_shape=(4.2, 312.0),
    run_scale=(0.94, 0.03),
    first_share=(-0.0054, 0.78),
    gap_shape=10.2303,
    gap_scale=0.4871,
    gap_shape_factor=1.0225,
    day_shape=8.1737,
    day_scale=3.9631,
)

BATCH_JOBS = LublinParameters(
    serial_share=0.2927,
    power_of_two_share=0.6686,
    log_smallest=1.2,
    medium_below_largest=2.0,
    largest_below_machine=0.0,
    medium_share=0.875,
    run_shape=(6.57, 639.1),
    run_scale=(0.823, 0.0156),
    first_share=(-0.003, 0.6986),
    gap_shape=6.0415,
    gap_scale=0.8531,
    gap_shape_factor=1.0519,
    day_shape=6.1271,
    day_scale=5.2740,
)

INTERACTIVE_JOBS = LublinParameters(
    serial_share=0.1541,
    power_of_two_share=0.625,
    log_smallest=1.0,
    medium_below_largest=2.5,
    largest_below_machine=1.5,
    medium_share=0.705,
    run_shape=(3.8351, 7.073),
    run_scale=(0.6605, 0.6856),
    first_share=(-0.0118, 0.9156),
    gap_shape=6.5510,
    gap_scale=0.6621,
    gap_shape_factor=0.9797,
    day_shape=8.9186,
    day_scale=3.6680,
)


SLOTS = 48
SLOT_S = 1800.0
DAY_S = SLOTS * SLOT_S
_FIRST_SLOT = 11
"""The fitted day begins in its 11th half hour, at 5:00, when fewest jobs arrive."""


class DailyClock:
    """A clock that is fast when many jobs arrive, and slow at night: maps points to seconds.

    A day has 48 points, spread over its half hours by their weight. The weight of a half hour is
    the probability that a gamma distribution gives to it, over a day that begins at 5:00, divided
    by the mean of all 48 (Lublin & Feitelson 2003). A job costs as many points as its gap would
    have half hours in a day without rhythm.
    """

    def __init__(self, shape: float, scale: float) -> None:
        """Fit the clock to a gamma distribution with `shape` and `scale` in half hours."""
        from scipy.special import gammainc

        slot = np.arange(_FIRST_SLOT, _FIRST_SLOT + SLOTS)
        weight = gammainc(shape, (slot + 0.5) / scale) - gammainc(shape, (slot - 0.5) / scale)
        of_day = np.empty(SLOTS)
        of_day[(slot - 1) % SLOTS] = weight / weight.mean()
        self.points_before: Floats = np.concatenate(([0.0], np.cumsum(of_day)))
        """(49,) points from midnight to the start of each half hour; the last is the day's sum."""

    def times(self, points: Floats) -> Floats:
        """Return when each of the points, counted from a midnight at 0 s, is reached."""
        seconds = np.empty_like(points)
        starts = np.arange(SLOTS + 1) * SLOT_S
        for first in range(0, len(points), 65_536):  # bounds the memory of the steps between
            rows = slice(first, first + 65_536)
            days, rest = np.divmod(points[rows], self.points_before[-1])
            seconds[rows] = days * DAY_S + np.interp(rest, self.points_before, starts)
        return seconds

    def points(self, time_s: float) -> float:
        """Return how many points pass until `time_s`; the inverse of `times`."""
        days, rest = divmod(time_s, DAY_S)
        starts = np.arange(SLOTS + 1) * SLOT_S
        return float(days * self.points_before[-1] + np.interp(rest, starts, self.points_before))


LONGEST_LOG_RUN = 12.0
"""Run times above exp(12) s, 45 hours, are drawn again."""
LONGEST_LOG_GAP = 13.0
"""So are gaps above exp(13) s, 5 days."""

_MODELS: Final[dict[str, tuple[LublinParameters, ...]]] = {
    "all": (ALL_JOBS,),
    "batch": (BATCH_JOBS,),
    "interactive": (INTERACTIVE_JOBS,),
    "both": (INTERACTIVE_JOBS, BATCH_JOBS),  # by queue number: SWF keeps 0 for interactive
}


class LublinModel(RigidModel):
    """The model of Lublin and Feitelson (2003), with a daily cycle."""

    has_arrivals: ClassVar[bool] = True
    kind: Literal["all", "batch", "interactive", "both"] = "all"
    """Which of the published parameters; both: batch and interactive jobs mixed."""

    def generate(self, rng: np.random.Generator) -> Trace:
        """Draw sizes, run times, arrivals and users, each from a separate stream.

        The trace's zero is a midnight. Submit and run times are whole seconds, as in the authors'
        program. `offered_load` is the sum of processors times run time over `processors` times the
        last submit time. One factor on all gaps reaches it (but for the rounding to seconds), and
        the daily cycle stays; None keeps the published gaps, and a longer log begins with the
        shorter. With ``kind="both"`` each class has separate arrivals and a queue number
        (0 interactive, 1 batch).
        """
        jobs, load = self.jobs, self.offered_load
        sizes_rng, runs_rng, arrivals_rng, users_rng = rng.spawn(4)
        arrivals = _Arrivals(jobs, _MODELS[self.kind], arrivals_rng)
        sizes = draw_sizes(arrivals.models, arrivals.queue, jobs, self.processors, sizes_rng)
        runs = draw_run_times(arrivals.models, arrivals.queue, sizes, runs_rng)
        if load is not None:
            order = arrivals.fill(float(np.dot(sizes, runs)) / (self.processors * load))
            sizes, runs = sizes[order], runs[order]
        submit = np.floor(arrivals.submit_time_s, out=arrivals.submit_time_s)
        return self.rigid_jobs(submit, runs, sizes, arrivals.queue, users_rng)


class _Arrivals:
    """The first J arrivals of one or two classes of jobs, and the clocks that they follow."""

    def __init__(
        self, jobs: int, models: tuple[LublinParameters, ...], rng: np.random.Generator
    ) -> None:
        self.models = models
        self._clocks = [DailyClock(model.day_shape, model.day_scale) for model in models]
        streams = zip(models, rng.spawn(len(models)), strict=True)
        self._points = [draw_points(model, jobs, stream) for model, stream in streams]
        self.queue: Ints | None = None
        """(J,) the class of each job, where there are two."""
        times = [clock.times(p) for clock, p in zip(self._clocks, self._points, strict=True)]
        self.submit_time_s = times[0]
        if len(models) == 2:
            self._merge(times)

    def _merge(self, times: Sequence[Floats]) -> None:
        """Take the first J of both classes together; keep as many points of each."""
        jobs = len(times[0])
        order = np.argsort(np.concatenate(times), kind="stable")[:jobs]
        self.queue = (order >= jobs).astype(np.int64)
        self.submit_time_s = np.concatenate(times)[order]
        counts = np.bincount(self.queue, minlength=2)
        self._points = [p[:n] for p, n in zip(self._points, counts, strict=True)]

    def fill(self, span_s: float) -> slice | Ints:
        """Stretch or shrink all gaps alike, so that the last job comes at `span_s`.

        Returns the new order of the jobs: two classes follow different clocks, so neighbours may
        swap places.
        """
        classes = [(c, p) for c, p in zip(self._clocks, self._points, strict=True) if len(p)]
        factor = min(clock.points(span_s) / p[-1] for clock, p in classes)
        times = [clock.times(p * factor) for clock, p in classes]
        if self.queue is None or len(classes) == 1:
            self.submit_time_s = times[0]
            return slice(None)
        for number, of_class in enumerate(times):
            self.submit_time_s[self.queue == number] = of_class
        order = np.argsort(self.submit_time_s, kind="stable")
        self.submit_time_s, self.queue = self.submit_time_s[order], self.queue[order]
        return order


def draw_points(model: LublinParameters, jobs: int, rng: np.random.Generator) -> Floats:
    """Return (jobs,) arrivals on the daily clock, in points (half hours of a day without rhythm).

    A gap is the exponential of a gamma variable, in seconds; very long ones are drawn again.
    """
    shape = model.gap_shape * model.gap_shape_factor

    def logarithm() -> Floats:
        return model.gap_scale * rng.standard_gamma(shape, BLOCK)

    def gaps(_rows: slice, _rng: np.random.Generator) -> Floats:
        return np.exp(redraw_above(LONGEST_LOG_GAP, logarithm)) / SLOT_S

    points = draw_column(gaps, jobs, rng)
    return np.cumsum(points, out=points)


def draw_sizes(
    models: Sequence[LublinParameters],
    queue: Ints | None,
    jobs: int,
    processors: int,
    rng: np.random.Generator,
) -> Ints:
    """Return (jobs,) numbers of processors, 1 … `processors`.

    A power of two above the machine's size becomes the largest power of two within it.
    """
    machine = np.log2(processors)
    largest = [max(machine - m.largest_below_machine, 0.0) for m in models]
    smallest = [min(m.log_smallest, top) for m, top in zip(models, largest, strict=True)]
    medium = [
        max(top - m.medium_below_largest, low)
        for m, top, low in zip(models, largest, smallest, strict=True)
    ]

    def block(rows: slice, rng: np.random.Generator) -> Floats:
        kind, stage, place = (rng.random(BLOCK)[: rows.stop - rows.start] for _ in range(3))
        of = 0 if queue is None else queue[rows]
        serial = np.array([m.serial_share for m in models])[of]
        rounded = serial + np.array([m.power_of_two_share for m in models])[of]
        lower = stage <= np.array([m.medium_share for m in models])[of]
        low = np.where(lower, np.array(smallest)[of], np.array(medium)[of])
        high = np.where(lower, np.array(medium)[of], np.array(largest)[of])
        power = low + place * (high - low)
        whole = np.minimum(np.floor(power + 0.5), np.floor(machine))
        power = np.where(kind <= rounded, whole, power)
        return np.where(kind <= serial, 1.0, np.floor(np.exp2(power) + 0.5))

    return draw_column(block, jobs, rng, np.int64)


def draw_run_times(
    models: Sequence[LublinParameters],
    queue: Ints | None,
    sizes: Ints,
    rng: np.random.Generator,
) -> Floats:
    """Return (J,) run times in whole seconds, at least 1, for jobs of the given sizes."""
    slope = np.array([m.first_share[0] for m in models])
    offset = np.array([m.first_share[1] for m in models])
    scale = np.array([m.run_scale for m in models])

    def block(rows: slice, rng: np.random.Generator) -> Floats:
        of = np.zeros(1, np.int64) if queue is None else queue[rows]
        jobs = np.arange(rows.stop - rows.start)
        first_share = slope[of] * sizes[rows] + offset[of]  # beyond [0, 1] it acts as 0 or 1

        def logarithm() -> Floats:
            # All gammas are drawn for all jobs: how far the generator gets depends on no job.
            second = (rng.random(BLOCK)[jobs] > first_share).astype(np.int64)
            gammas = np.array([[rng.standard_gamma(a, BLOCK) for a in m.run_shape] for m in models])
            logarithms: Floats = scale[of, second] * gammas[of, second, jobs]
            return logarithms

        return np.floor(np.exp(redraw_above(LONGEST_LOG_RUN, logarithm)))

    return draw_column(block, len(sizes), rng)
