"""A ready pool for an agent: what it sees, how a simulation is followed, numbered actions.

The dissertation on power-modulated datacenters ("RARE", University of Virginia, 2023, section 3.2)
shows an image of the resources over the steps ahead, and seven facts of each job (`ready_image`). A
set of jobs (``ready-set``) shows what each job's rectangle would do to the plan, in shares of the
pool, so that a network can look at every job with the same weights, in pools of any size.

Observations are functions of arrays with any leading axes, so that one simulation and many replicas
that advance together see the same numbers.

The actions are the dissertation's (section 3.2.2): schedule a job of the ready pool, suspend a
running one, or do nothing; and, beyond it, reject a job of the ready pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field as Limits
from pydantic import model_validator

from simkit.agent.actions import NOISE, EarliestPlaces, Mask, TrackerActions
from simkit.agent.encoder import Encoder, Field, Numbers, ObservationSchema
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.policy import Action, Reject, Resume, State, Suspend, SystemInfo, WakeAt
from simkit.policy.claims import rest_of
from simkit.policy.task import Allocation, Placement, Task, instances_on
from simkit.sections import BrokenRulesError, Count, Facts, Positive, PositiveDuration
from simkit.units import instant_on_grid


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


class ReadyTracker(EarliestPlaces):
    """The ready pool and the plan of what is free ahead, of one simulation.

    The tasks that the policy sees, in order of submission, are the ready pool. A task can be placed
    at the earliest step at which it fits next to all that runs, is reserved or is planned, with the
    power that is forecast, if it would end within the horizon.

    Attributes:
        pool: the dimensions.
        tasks: those of the ready pool, in order of submission.
    """

    tasks: Sequence[Task]

    def __init__(self, pool: ReadyPool, *, in_time: bool = False) -> None:
        """Make a tracker.

        Args:
            pool: the dimensions.
            in_time: a task is only placed where it can end in time, as where late ones leave.
        """
        super().__init__(pool.resources, pool.step_s)
        self.pool, self._in_time = pool, in_time

    def reset(self, info: SystemInfo) -> None:
        """Begin a run; raises ScenarioError for a cluster with other than R resources."""
        if len(info.resources) != self.pool.resources:
            raise ScenarioError(
                f"ready pool: the cluster has the resources {', '.join(info.resources)}, but "
                f"{self.pool.resources} are shown; give it as many"
            )
        super().reset(info)

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after each action."""
        self.follow(state)
        self.find(tuple(state.queue.tasks[: self.pool.ready]))

    def earliest(self, task: Task) -> tuple[float, Placement] | None:
        pool, found = self.pool, super().earliest(task)
        latest = self._now + min(
            pool.max_start * pool.step_s, pool.horizon * pool.step_s - task.estimate_s
        )
        if self._in_time:
            latest = min(latest, task.latest_start_s)
        return None if found is None or found[0] > latest else found

    def starts(self) -> Ints:
        """Return (P,) the first step ahead at which each task may start; -1: none."""
        starts = np.full(self.pool.ready, -1)
        starts[: len(self.tasks)] = super().starts()
        return starts

    def resumable(self) -> Resume | None:
        """Return how the first suspended allocation whose rest fits now goes on, oldest first."""
        for allocation in self._state.suspended:
            if on := self._profile.fit(rest_of(allocation), self._now):
                return Resume(allocation, on)
        return None

    def resumes_at(self) -> float:
        """Return when the rest of a suspended allocation will first fit, in s; inf: never."""
        found = (self._profile.earliest(rest_of(each)) for each in self._state.suspended)
        return min((place[0] for place in found if place is not None), default=inf)

    def there(self) -> Bools:
        """Return (P,) places of the ready pool that hold a task."""
        return np.arange(self.pool.ready) < len(self.tasks)

    def view(self) -> ReadyView:
        """Return what is seen now."""
        pool = self.pool
        size, qos, value = np.zeros((pool.ready, pool.resources)), *np.zeros((2, pool.ready))
        length, waited, slack = np.zeros((3, pool.ready), np.int64)
        for place, task in enumerate(self.tasks):
            found = self._found[place]
            count = task.remaining if found is None else instances_on(found[1])
            asked = np.array(task.request) * count / self._capacity
            size[place] = np.minimum(asked, 1.0)  # a bag may ask for more than there is
            length[place] = self.steps(task.estimate_s)
            qos[place] = task.qos
            value[place] = task.value / (pool.worth * self._capacity.sum())
            waited[place] = (self._now - task.submit_time_s) / pool.step_s + NOISE
            slack[place] = self._slack(task)
        begins = self._now + pool.step_s * np.arange(pool.horizon, dtype=np.float64)
        return ReadyView(
            free=np.clip(self.free(begins), -1.0, 1.0),
            capacity=self._powered(begins),
            there=self.there(),
            size=size,
            length=length,
            qos=qos,
            value=value,
            waited=waited,
            slack=slack,
            start=self.starts(),
            waiting=np.array(self._state.backlog + max(len(self._state.queue) - pool.ready, 0)),
            suspended=np.array(len(self._state.suspended)),
        )

    def _slack(self, task: Task) -> int:
        """Return in how many steps a task can no longer start in time; at most the horizon."""
        if task.latest_start_s == inf:
            return self.pool.horizon
        steps = floor((task.latest_start_s - self._now) / self.pool.step_s + NOISE)
        return min(steps, self.pool.horizon)

    def _powered(self, begins: Floats) -> Floats:
        """Return (H,) the share of the first resource that has power as each step begins."""
        state = self._state
        amount = np.full(len(begins), float(state.capacity[:, 0].sum()))
        for step in state.steps_through(float(begins[-1])):
            amount[begins >= step.time_s] += step.change[0]
        share: Floats = np.clip(amount / self._capacity[0], 0.0, 1.0)
        return share


Advance = Literal["no-op", "each"]
"""Time goes on when the agent does nothing, or with each of its actions."""


class ReadyArguments(Facts):
    """Arguments of the actions on a ready pool."""

    noun: ClassVar = "action_arguments"
    waiting: Count
    """Jobs behind the ready pool are shown as a share of this number."""
    horizon: Count = 48
    """Steps ahead that are planned."""
    max_start: Annotated[int, Limits(ge=0)] | None = None
    """The last step ahead in which a job may start; null: any within the horizon."""
    longest: Count = 30
    """Steps of the longest job; longer ones are shown as this long."""
    worth: Positive = 0.5
    """What a unit of a resource is worth for a step."""
    step: PositiveDuration = 3600.0
    """Length of a step."""
    suspend: Annotated[int, Limits(ge=0)] = 0
    """S, running allocations to choose from, which the agent may suspend."""
    reject: bool = False
    """Whether jobs may be rejected."""
    advance: Advance = "no-op"
    """When time goes on; `each` is the dissertation's algorithm 2."""

    @model_validator(mode="after")
    def _starts_within_the_horizon(self) -> Self:
        if self.max_start is not None and self.max_start >= self.horizon:
            text = f"is {self.max_start}; it must be below the horizon, {self.horizon}"
            raise BrokenRulesError([(("max_start",), text)])
        return self


class ReadyActions(TrackerActions):
    """Actions on a ready pool of P jobs.

    Action m below P places its m-th job as early as it fits, reserved if that is later. If there
    are rejections, the next P numbers reject a job of the ready pool. If there are suspensions, the
    next S numbers suspend the allocations that began last, the youngest first; their work is kept,
    and they go on as soon as they fit, before the agent is asked. The last number does nothing, and
    time goes on.

    Args:
        tracker: the ready pool.
        suspend: see `ReadyArguments`, as for the next two.
        reject: whether jobs may be rejected.
        advance: when time goes on.
    """

    def __init__(
        self, tracker: ReadyTracker, suspend: int = 0, reject: bool = False,
        advance: Advance = "no-op",
    ) -> None:  # fmt: skip
        self._tracker, self._suspend, self._rejects = tracker, suspend, reject
        self._advance, self._acted = advance, False
        self._ready = ready = tracker.pool.ready
        self._placing = ready + (ready if reject else 0)  # and rejecting
        void = self._placing + suspend
        super().__init__(
            tracker, void + 1, f"{ready} to place a job, {self._placing - ready} to reject one, "
            f"{suspend} to suspend one, and {void} to do nothing",
        )  # fmt: skip

    def begin(self, state: State) -> Iterable[Action]:
        self._acted = False
        while state.suspended and (resume := self._tracker.resumable()) is not None:
            yield resume

    def end(self, state: State) -> Iterable[Action]:
        if state.suspended:  # nothing else may happen before what is left of one fits
            due = self._tracker.resumes_at()
            if due <= state.now:  # what the agent has just stopped stays so for a step
                due = state.now + self._tracker.pool.step_s
            if due < inf:
                yield WakeAt(instant_on_grid(due))

    def asks(self, state: State) -> bool:
        """Return whether there is a choice: time goes on by itself where nothing can be done."""
        if self._acted and self._advance == "each":
            return False
        return bool(self.mask(state)[:-1].any())

    def action_of(self, state: State, number: int) -> Action | None:
        self.check(number)
        meant: Action | None = None
        if number < self._ready:
            meant = self.placed(number)
        elif number < self._placing:
            chosen, tasks = number - self._ready, self._tracker.tasks
            if chosen < len(tasks) and state.rejectable(tasks[chosen]):
                meant = Reject(tasks[chosen])
        elif number < self.count - 1:
            chosen, youngest = number - self._placing, self._youngest(state)
            if chosen < len(youngest):
                meant = Suspend(youngest[chosen])
        self._acted = meant is not None
        return meant

    def number_of(self, state: State, action: Action) -> int | None:
        """Return the number of a placement, a suspension that keeps the work, or a rejection."""
        tasks = self._tracker.tasks
        if isinstance(action, Suspend) and action.keep_work:
            youngest = self._youngest(state)
            chosen = action.allocation
            return self._placing + youngest.index(chosen) if chosen in youngest else None
        if isinstance(action, Reject):
            can = self._rejects and action.task in tasks and state.rejectable(action.task)
            return self._ready + tasks.index(action.task) if can else None
        return super().number_of(state, action)

    def _youngest(self, state: State) -> list[Allocation]:
        return list(reversed(state.running))[: self._suspend]

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for what can be done, and for doing nothing."""
        mask = np.zeros(self.count, np.int8)
        mask[: self._ready] = self._tracker.starts() >= 0
        if self._rejects:
            can = [state.rejectable(task) for task in self._tracker.tasks]
            mask[self._ready : self._ready + len(can)] = can
        if self._suspend:
            mask[self._placing : self._placing + len(self._youngest(state))] = 1
        mask[-1] = 1
        return mask


class ReadyEncoder(Encoder):
    """Shows a tracker, which its owner updates, as a set of jobs or as an image."""

    schema: ObservationSchema

    def __init__(self, tracker: ReadyTracker, units: tuple[int, ...] | None) -> None:
        """Show an image of (R,) `units`; None: a set."""
        self._tracker, self._units, pool = tracker, units, tracker.pool
        self.schema = ready_set_schema(pool) if units is None else ready_image_schema(pool, units)

    def reset(self, info: SystemInfo) -> None:
        """Do nothing: the tracker's owner resets it."""

    def encode(self, state: State) -> Numbers:
        """Return (K,) float32."""
        view, pool = self._tracker.view(), self._tracker.pool
        return (
            ready_set(view, pool) if self._units is None else ready_image(view, pool, self._units)
        )


READY_ENCODERS = ("ready-set", "ready-image")


def ready_pool_of(
    observation: str | None, info: SystemInfo, in_time: bool, ready: int,
    arguments: Mapping[str, Any],
) -> tuple[ReadyActions, ReadyEncoder]:  # fmt: skip
    """Return actions and encoder that share a tracker.

    Args:
        observation: one of `READY_ENCODERS`; None: the set.
        info: the system.
        in_time: see `ReadyTracker`.
        ready: P.
        arguments: see `ReadyArguments`.

    Raises ScenarioError, all problems at once, for another observation or wrong arguments.
    """
    name, chosen = observation or "ready-set", ReadyArguments(**arguments)
    if name not in READY_ENCODERS:
        raise ScenarioError(
            f"observation {name!r} does not show a ready pool; take {' or '.join(READY_ENCODERS)}"
        )
    last = chosen.horizon - 1 if chosen.max_start is None else chosen.max_start
    pool = ReadyPool(
        len(info.resources), ready, chosen.waiting, chosen.horizon, last, chosen.longest,
        chosen.worth, chosen.step,
    )  # fmt: skip
    tracker = ReadyTracker(pool, in_time=in_time)
    units = tuple(round(float(amount)) for amount in info.capacity.sum(axis=0))
    encoder = ReadyEncoder(tracker, units if name == "ready-image" else None)
    return ReadyActions(tracker, chosen.suspend, chosen.reject, chosen.advance), encoder
