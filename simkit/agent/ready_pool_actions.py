"""Numbered actions in a ready pool, and the tracker that follows the simulation for them.

    tracker.reset(info)
    for state in simulation.decisions():
        tracker.update(state)
        while (place := tracker.place(position_of_my_choice)) is not None:
            simulation.apply(place)
            tracker.update(state)

The tasks that the policy sees, in order of submission, are the ready pool. A task can be placed at
the earliest step at which it fits next to all that runs, is reserved or is planned, with the power
that is forecast, if it would end within the horizon.

The actions of the dissertation on power-modulated datacenters ("RARE", University of Virginia,
2023, section 3.2.2): schedule a job of the ready pool, suspend a running one, or do nothing; and,
beyond it, reject a job of the ready pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor, inf
from typing import Literal, get_args

import numpy as np

from simkit.agent.actions import Actions, Mask, places_alike
from simkit.agent.encoder import Encoder, Numbers, ObservationSchema
from simkit.agent.ready_pool import (
    ReadyPool,
    ReadyView,
    ready_image,
    ready_image_schema,
    ready_set,
    ready_set_schema,
)
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import PolicyError, ScenarioError
from simkit.policy import Action, Place, Reject, Resume, State, Suspend, SystemInfo, WakeAt
from simkit.policy.task import Allocation, Placement, Task, instances_on
from simkit.units import ENDLESS_S, instant_on_grid, parse_duration

_NOISE = 1e-6  # of a step: rounding errors of a quotient


class ReadyTracker:
    """The ready pool and the plan of what is free ahead, of one simulation.

    Attributes:
        pool: the dimensions.
        tasks: those of the ready pool, in order of submission.
    """

    tasks: tuple[Task, ...]

    def __init__(self, pool: ReadyPool, *, in_time: bool = False) -> None:
        """Make a tracker.

        Args:
            pool: the dimensions.
            in_time: a task is only placed where it can end in time, as where late ones leave.
        """
        self.pool, self._in_time = pool, in_time
        self._capacity: Floats = np.ones(pool.resources)

    def reset(self, info: SystemInfo) -> None:
        """Begin a run; raises ScenarioError for a cluster with other than R resources."""
        if len(info.resources) != self.pool.resources:
            raise ScenarioError(
                f"ready pool: the cluster has the resources {', '.join(info.resources)}, but "
                f"{self.pool.resources} are shown; give it as many"
            )
        self._capacity = np.maximum(info.capacity.sum(axis=0), 1e-12)
        self._left_s: dict[Allocation, float] = {}  # of suspended ones, expected time to run

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after each action."""
        self._state, self._now = state, state.now
        for allocation in state.ended:
            if allocation in state.suspended and allocation not in self._left_s:
                self.suspends(allocation)
        self._profile = state.profile()
        self.tasks = tuple(state.queue.tasks[: self.pool.ready])
        self._found = [self._earliest(task) for task in self.tasks]

    def _earliest(self, task: Task) -> tuple[float, Placement] | None:
        """Return when and where a task may start; only what fits now of a bag."""
        pool, now = self.pool, self._now
        if task.gang:
            found = self._profile.earliest(task)
        else:
            on = self._profile.fit(task, now)
            found = None if on is None else (now, on)
        latest = now + min(
            pool.max_start * pool.step_s, pool.horizon * pool.step_s - task.estimate_s
        )
        if self._in_time:
            latest = min(latest, task.latest_start_s)
        return None if found is None or found[0] > latest else found

    def starts(self) -> Ints:
        """Return (P,) the first step ahead at which each task may start; -1: none."""
        starts = np.full(self.pool.ready, -1)
        for place, found in enumerate(self._found):
            if found is not None:
                starts[place] = self._steps(found[0] - self._now)
        return starts

    def _steps(self, seconds: float) -> int:
        """Return how many steps a time from now is, rounded up; 0 only for now."""
        steps = ceil(min(seconds, ENDLESS_S) / self.pool.step_s - _NOISE)
        return max(steps, int(seconds > 0))

    def place(self, position: int) -> Place | None:
        """Return the placement of a task as early as it may start; None: there is none."""
        found = self._found[position] if position < len(self._found) else None
        if found is None:
            return None
        start, on = found
        return Place(self.tasks[position], on, start if start > self._now else None)

    def suspends(self, allocation: Allocation) -> None:
        """Note how long an allocation would still run that is suspended now."""
        self._left_s[allocation] = max(allocation.expected_end_s - self._now, 0.0)

    def resumable(self) -> Resume | None:
        """Return how the first suspended allocation whose rest fits now goes on."""
        for allocation, rest in self._rests():
            if on := self._profile.fit(rest, self._now):
                return Resume(allocation, on)
        return None

    def resumes_at(self) -> float:
        """Return when the rest of a suspended allocation will first fit, in s; inf: never."""
        found = (self._profile.earliest(rest) for _, rest in self._rests())
        return min((place[0] for place in found if place is not None), default=inf)

    def _rests(self) -> Iterator[tuple[Allocation, Task]]:
        """Yield the suspended allocations, the oldest first, and what is left of each as a task."""
        suspended = self._state.suspended
        self._left_s = {a: left for a, left in self._left_s.items() if a in suspended}
        for allocation in suspended:
            yield allocation, _rest(allocation, self._left_s.get(allocation, 0.0))

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
            length[place] = self._steps(task.estimate_s)
            qos[place] = task.qos
            value[place] = task.value / (pool.worth * self._capacity.sum())
            waited[place] = (self._now - task.submit_time_s) / pool.step_s + _NOISE
            slack[place] = self._slack(task)
        begins = self._now + pool.step_s * np.arange(pool.horizon, dtype=np.float64)
        free = self._profile.total_free_at(begins) / self._capacity
        return ReadyView(
            free=np.clip(free, -1.0, 1.0),
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
        steps = floor((task.latest_start_s - self._now) / self.pool.step_s + _NOISE)
        return min(steps, self.pool.horizon)

    def _powered(self, begins: Floats) -> Floats:
        """Return (H,) the share of the first resource that has power as each step begins."""
        state = self._state
        amount = np.full(len(begins), float(state.capacity[:, 0].sum()))
        for step in state.steps_through(float(begins[-1])):
            amount[begins >= step.time_s] += step.change[0]
        share: Floats = np.clip(amount / self._capacity[0], 0.0, 1.0)
        return share


def _rest(allocation: Allocation, left_s: float) -> Task:
    """Return what is left of a suspended allocation, as a task."""
    task = allocation.task
    machines = task.machines if task.gang else tuple([machine for machine, _ in allocation.on])
    return Task(
        task.index, task.job_index, task.submit_time_s, task.request, allocation.count,
        estimate_s=left_s, machines=machines,
    )  # fmt: skip


Advance = Literal["no-op", "each"]
"""Time goes on when the agent does nothing, or with each of its actions."""
READY_ENCODERS = ("ready-set", "ready-image")


class ReadyActions(Actions):
    """Actions on a ready pool of P jobs.

    Action m below P places its m-th job as early as it fits, reserved if that is later. If there
    are rejections, the next P numbers reject a job of the ready pool. If there are suspensions, the
    next S numbers suspend the allocations that began last, the youngest first; their work is kept,
    and they go on as soon as they fit, before the agent is asked. The last number does nothing, and
    time goes on.

    Args:
        tracker: the ready pool.
        suspend: S, allocations to choose from.
        reject: whether jobs may be rejected.
        advance: when time goes on; `each` is the dissertation's algorithm 2.
    """

    def __init__(
        self, tracker: ReadyTracker, suspend: int = 0, reject: bool = False,
        advance: Advance = "no-op",
    ) -> None:  # fmt: skip
        self._tracker, self._suspend, self._rejects = tracker, suspend, reject
        self._advance, self._acted = advance, False
        self._ready = ready = tracker.pool.ready
        self._placing = ready + (ready if reject else 0)  # and rejecting
        self.count = self._placing + suspend + 1

    def reset(self, info: SystemInfo) -> None:
        self._tracker.reset(info)

    def update(self, state: State) -> None:
        self._tracker.update(state)

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
        if not 0 <= number < self.count:
            raise PolicyError(
                f"action {number} is not one of 0 … {self.count - 1}: {self._ready} to place a "
                f"job, {self._placing - self._ready} to reject one, {self._suspend} to suspend "
                f"one, and {self.count - 1} to do nothing"
            )
        meant: Action | None = None
        if number < self._ready:
            meant = self._tracker.place(number)
        elif number < self._placing:
            chosen, tasks = number - self._ready, self._tracker.tasks
            if chosen < len(tasks) and state.rejectable(tasks[chosen]):
                meant = Reject(tasks[chosen])
        elif number < self.count - 1:
            chosen, youngest = number - self._placing, self._youngest(state)
            if chosen < len(youngest):
                self._tracker.suspends(youngest[chosen])
                meant = Suspend(youngest[chosen])
        self._acted = meant is not None
        return meant

    def number_of(self, state: State, action: Action) -> int | None:
        """Return the number of a placement, a suspension that keeps the work, or a rejection."""
        tracker, tasks = self._tracker, self._tracker.tasks
        if isinstance(action, Suspend) and action.keep_work:
            youngest = self._youngest(state)
            chosen = action.allocation
            return self._placing + youngest.index(chosen) if chosen in youngest else None
        if isinstance(action, Reject):
            can = self._rejects and action.task in tasks and state.rejectable(action.task)
            return self._ready + tasks.index(action.task) if can else None
        places = range(len(tasks))
        alike = (m for m in places if places_alike(tracker.place(m), action, state.now))
        return next(alike, None)

    def shown(self, state: State) -> Sequence[Task | None]:
        return self._tracker.tasks

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


def ready_pool_of(
    observation: str | None,
    info: SystemInfo,
    in_time: bool,
    ready: int,
    waiting: int,
    horizon: int = 48,
    max_start: int | None = None,
    longest: int = 30,
    worth: float = 0.5,
    step: str | float = "1h",
    suspend: int = 0,
    reject: bool = False,
    advance: Advance = "no-op",
) -> tuple[ReadyActions, ReadyEncoder]:
    """Return actions and encoder that share a tracker.

    Args:
        observation: ``ready-set`` or ``ready-image``; None: the set.
        info: the system.
        in_time: see `ReadyTracker`.
        ready: see `ReadyPool`, as for the next five.
        waiting: jobs behind the ready pool are shown as a share of this number.
        horizon: steps ahead that are planned.
        max_start: the last step ahead in which a job may start; None: any within the horizon.
        longest: steps of the longest job.
        worth: what a unit of a resource is worth for a step.
        step: length of a step, a duration or seconds.
        suspend: see `ReadyActions`, as for the next two.
        reject: whether jobs may be rejected.
        advance: when time goes on.

    Raises ScenarioError, all problems at once, for arguments that are out of their range.
    """
    name, problems = observation or "ready-set", []
    if name not in READY_ENCODERS:
        problems.append(
            f"observation {name!r} does not show a ready pool; take {' or '.join(READY_ENCODERS)}"
        )
    whole = {
        "ready": (ready, 1), "waiting": (waiting, 1), "horizon": (horizon, 1),
        "longest": (longest, 1), "suspend": (suspend, 0),
    }  # fmt: skip
    problems += [
        f"action_arguments: {key} is {value!r}; it must be a whole number, at least {least}"
        for key, (value, least) in whole.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < least
    ]
    if not problems:
        last = horizon - 1 if max_start is None else max_start
        if isinstance(last, bool) or not isinstance(last, int) or not 0 <= last < horizon:
            problems.append(
                f"action_arguments: max_start is {last!r}; it must be a whole number from 0 to "
                f"{horizon - 1}, within the horizon"
            )
    if isinstance(worth, bool) or not isinstance(worth, (int, float)) or not 0 < worth < inf:
        problems.append(f"action_arguments: worth is {worth!r}; it must be a number above 0")
    if advance not in get_args(Advance):
        problems.append(f"action_arguments: advance is {advance!r}; it must be no-op or each")
    if not isinstance(reject, bool):
        problems.append(f"action_arguments: reject is {reject!r}; it must be true or false")
    step_s = 1.0
    try:
        step_s = parse_duration(step)
        if not 0 < step_s < inf:
            raise ValueError(f"is {step!r}; it must be above 0")
    except (TypeError, ValueError) as error:
        problems.append(f"action_arguments: step: {error}")
    if problems:
        raise ScenarioError(problems)
    pool = ReadyPool(len(info.resources), ready, waiting, horizon, last, longest, worth, step_s)
    tracker = ReadyTracker(pool, in_time=in_time)
    units = tuple(round(float(amount)) for amount in info.capacity.sum(axis=0))
    encoder = ReadyEncoder(tracker, units if name == "ready-image" else None)
    return ReadyActions(tracker, suspend, reject, advance), encoder
