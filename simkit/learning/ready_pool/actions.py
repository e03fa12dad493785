"""The ready pool for agents: numbered actions, and encoders of what they see.

The actions of the dissertation on power-modulated datacenters ("RARE", University of Virginia,
2023, section 3.2.2): schedule a job of the ready pool, suspend a running one, or do nothing; and,
beyond it, reject a job of the ready pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Literal, get_args

import numpy as np

from simkit.errors import PolicyError, ScenarioError
from simkit.learning.actions import Actions, Mask, places_alike
from simkit.learning.encoder import Encoder, Numbers
from simkit.learning.ready_pool.observation import (
    ReadyPool,
    ready_image,
    ready_image_schema,
    ready_set,
    ready_set_schema,
)
from simkit.learning.ready_pool.tracker import ReadyTracker
from simkit.learning.schema import ObservationSchema
from simkit.policy import Action, Reject, State, Suspend, SystemInfo, WakeAt
from simkit.policy.task import Allocation
from simkit.units import instant_on_grid, parse_duration

__all__ = ["READY_ENCODERS", "Advance", "ReadyActions", "ready_pool_of"]

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
        while state.suspended:
            self._tracker.update(state)
            resume = self._tracker.resumable()
            if resume is None:
                return
            yield resume

    def end(self, state: State) -> Iterable[Action]:
        if state.suspended:  # nothing else may happen before what is left of one fits
            self._tracker.update(state)
            due = self._tracker.resumes_at()
            if due <= state.now:  # what the agent has just stopped stays so for a step
                due = state.now + self._tracker.pool.step_s
            if due < inf:
                yield WakeAt(instant_on_grid(due))

    def asks(self, state: State) -> bool:
        """Return whether there is a choice: time goes on by itself where nothing can be done."""
        if self._acted and self._advance == "each":
            return False
        self._tracker.update(state)
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
        waiting: jobs behind the ready pool are shown as a share of so many.
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
