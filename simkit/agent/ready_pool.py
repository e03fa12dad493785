"""What an agent sees of a ready pool: waiting jobs, and what is free in the hours ahead.

The dissertation on power-modulated datacenters ("RARE", University of Virginia, 2023, section 3.2)
shows an image of the resources over the steps ahead, and seven facts of each job (`ready_image`). A
set of jobs (``ready-set``) shows what each job's rectangle would do to the plan, in shares of the
pool, so that a network can look at every job with the same weights, in pools of any size.

Functions of arrays with any leading axes, so that one simulation and many replicas that advance
together see the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.agent.encoder import Field, Numbers, ObservationSchema
from simkit.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class ReadyPool:
    """The dimensions of a ready pool, and how far it plans."""

    resources: int = 2
    """R."""
    ready: int = 5
    """P: jobs that the agent may choose from."""
    waiting: int = 144
    """Jobs that wait behind them are shown as a share of this number."""
    horizon: int = 48
    """H: steps ahead that are planned; a job is placed only if it ends within them."""
    max_start: int = 47
    """The last step ahead in which a job may start; 0: only now."""
    longest: int = 30
    """Steps of the longest job; longer ones are shown as this long."""
    worth: float = 0.5
    """What a unit of a resource is worth for a step at a quality of service of 1."""
    step_s: float = 3600.0
    """Seconds of a step."""


@dataclass(frozen=True)
class ReadyView:
    """What an agent sees of a ready pool; every array may have leading axes."""

    free: Floats
    """(…, H, R) share of each resource that is free in each step ahead."""
    capacity: Floats
    """(…, H) share of the pool that has power in each step ahead, as is forecast."""
    there: Bools
    """(…, P) places of the ready pool that hold a job."""
    size: Floats
    """(…, P, R) share of each resource that the job asks for."""
    length: Ints
    """(…, P) steps that it takes, rounded up."""
    qos: Floats
    """(…, P) its quality of service."""
    value: Floats
    """(…, P) its value, as a multiple of what the whole pool is worth in a step."""
    waited: Ints
    """(…, P) steps since it was submitted."""
    slack: Ints
    """(…, P) steps after which it can no longer start in time; below 0: it is late."""
    start: Ints
    """(…, P) first step ahead at which it may start; -1: none."""
    waiting: Ints
    """(…,) jobs behind those of the ready pool."""
    suspended: Ints
    """(…,) jobs that are suspended."""


def ready_set(view: ReadyView, pool: ReadyPool) -> Numbers:
    """Return (…, K) float32: H · (R + 1) + 3 numbers of the whole, then 11 + 5 R of each job."""
    lead, whole, each = view.waiting.shape, ready_context_size(pool), ready_size(pool)
    numbers = np.zeros((*lead, whole + pool.ready * each), np.float32)
    ahead = pool.horizon * pool.resources
    numbers[..., :ahead] = view.free.reshape(*lead, ahead)
    numbers[..., ahead : ahead + pool.horizon] = view.capacity
    numbers[..., whole - 3] = view.there.mean(axis=-1)
    numbers[..., whole - 2] = np.minimum(view.waiting / pool.waiting, 1.0)
    numbers[..., whole - 1] = np.minimum(view.suspended / pool.waiting, 1.0)
    jobs = numbers[..., whole:].reshape(*lead, pool.ready, each)
    _describe(jobs, view, pool)
    _place(jobs[..., 11:], view, pool)
    jobs *= view.there[..., None]
    return numbers


def _describe(jobs: Numbers, view: ReadyView, pool: ReadyPool) -> None:
    """Write what does not depend on the rectangle: 11 numbers of each job."""
    fits, longest = view.start >= 0, pool.longest
    jobs[..., 0] = 1.0
    jobs[..., 1] = np.minimum(view.length / longest, 1.0)
    jobs[..., 2] = view.qos
    jobs[..., 3] = view.value / (view.value + 3.0)  # the mean job takes about 10 steps of 0.3
    jobs[..., 4] = fits
    jobs[..., 5] = view.start == 0
    jobs[..., 6] = np.where(fits, view.start / pool.horizon, 1.0)
    jobs[..., 7] = view.waited / (view.waited + longest)
    jobs[..., 8] = np.clip(view.slack / longest, -1.0, 1.0)
    jobs[..., 9] = fits & (view.start <= view.slack)
    jobs[..., 10] = view.size.sum(axis=-1) / pool.resources * view.qos


def _place(jobs: Numbers, view: ReadyView, pool: ReadyPool) -> None:
    """Write what each job asks for, and what its rectangle leaves over: 5 R numbers of each job."""
    count, fits = pool.resources, view.start >= 0
    begin = np.where(fits, view.start, 0)
    end = np.minimum(begin + view.length, pool.horizon)
    steps = np.maximum(end - begin, 1)
    zero = np.zeros((*view.free.shape[:-2], 1, count))
    sums = np.concatenate((zero, view.free.cumsum(axis=-2)), axis=-2)
    edges = np.concatenate((zero, view.free, zero), axis=-2)  # of the steps -1 … H
    inside = (_at(sums, end) - _at(sums, begin)) / steps[..., None]
    jobs[..., :count] = view.size
    rest = jobs[..., count:]
    rest[..., :count] = inside - view.size
    rest[..., count : 2 * count] = _at(edges, begin + 1) - view.size
    rest[..., 2 * count : 3 * count] = _at(edges, begin)
    rest[..., 3 * count :] = _at(edges, end + 1)
    rest *= fits[..., None]


def _at(steps: Floats, place: Ints) -> Floats:
    """Return (…, P, R) the rows of (…, T, R) at (…, P) places."""
    found: Floats = np.take_along_axis(steps, place[..., None], axis=-2)
    return found


def ready_context_size(pool: ReadyPool) -> int:
    """Return how many numbers of `ready_set` describe the whole: H · (R + 1) + 3."""
    return pool.horizon * (pool.resources + 1) + 3


def ready_size(pool: ReadyPool) -> int:
    """Return how many numbers of `ready_set` describe a job: 11 + 5 R."""
    return 11 + 5 * pool.resources


def ready_set_schema(pool: ReadyPool) -> ObservationSchema:
    """Return the meaning of the numbers of `ready_set`."""
    steps, count, longest = pool.horizon, pool.resources, pool.longest
    parts = (
        Field("free", (steps, count), -1, 1, "1", "share free in each step ahead"),
        Field("capacity", (steps,), 0, 1, "1", "share of the pool with power in each step ahead"),
        Field(
            "pools", (3,), 0, 1, "1",
            f"jobs in the ready pool / {pool.ready}; behind it and suspended, each / "
            f"{pool.waiting}",
        ),
        Field(
            "jobs", (pool.ready, ready_size(pool)), -1, 1, "1",
            f"of each job: 1 if there is one; steps / {longest}; quality of service; V / (V + 3) "
            "of its value V in steps of the whole pool; 1 if it may be placed; 1 if it may start "
            f"now; steps until it starts / {steps}; W / (W + {longest}) of the W steps since it "
            f"was submitted; steps until it is late / {longest}; 1 if it would be in time; its "
            "mean request times its quality; then for each resource: its request; what is left "
            "over beside it, in the mean and at its start; what is free in the step before it and "
            "in the step after it",
        ),
    )  # fmt: skip
    return ObservationSchema("ready-set", parts, _parameters(pool))


def ready_image(view: ReadyView, pool: ReadyPool, units: tuple[int, ...]) -> Numbers:
    """Return (…, K) float32: H rows with a cell for each unit, then 6 + R facts of each job.

    A cell is 1 if its unit is held, -1 if it has no power, and 0 if it is free.

    Args:
        view: what is seen.
        pool: the dimensions.
        units: (R,) units of each resource; the image grows with them.
    """
    lead = view.waiting.shape
    cells = []
    for resource, count in enumerate(units):
        powered = np.rint(view.capacity * count)
        held = powered - np.rint(view.free[..., resource] * count)
        unit = np.arange(count)
        shown = (unit < held[..., None]).astype(np.float32)
        shown[unit >= powered[..., None]] = -1.0
        cells.append(shown)
    image = np.concatenate(cells, axis=-1)
    longest = pool.longest
    facts = (
        view.value / (view.value + 3.0),
        view.qos,
        np.clip((view.slack + view.length) / longest, -1.0, 1.0),
        view.waited / (view.waited + longest),
        np.where(view.start >= 0, (view.start + view.length) / pool.horizon, 1.0),
        np.minimum(view.length / longest, 1.0),
        *np.moveaxis(view.size, -1, 0),
    )
    jobs = np.stack(facts, axis=-1) * view.there[..., None]
    parts = (image.reshape(*lead, -1), jobs.reshape(*lead, -1))
    return np.concatenate(parts, axis=-1, dtype=np.float32)


def ready_image_schema(pool: ReadyPool, units: tuple[int, ...]) -> ObservationSchema:
    """Return the meaning of the numbers of `ready_image`."""
    longest, steps = pool.longest, pool.horizon
    parts = (
        Field(
            "image", (steps, sum(units)), -1, 1, "1",
            "of each step ahead and unit: 1 held, -1 without power, 0 free",
        ),
        Field(
            "jobs", (pool.ready, 6 + pool.resources), -1, 1, "1",
            "of each job: V / (V + 3) of its value V in steps of the whole pool; quality of "
            f"service; steps until its quality is violated / {longest}; W / (W + {longest}) of "
            f"the W steps since it was submitted; steps until it would end / {steps}; steps / "
            f"{longest}; its requests",
        ),
    )  # fmt: skip
    return ObservationSchema("ready-image", parts, _parameters(pool) | {"units": units})


def _parameters(pool: ReadyPool) -> dict[str, object]:
    names = ("resources", "ready", "waiting", "horizon", "longest", "worth")
    return {name: getattr(pool, name) for name in names}
