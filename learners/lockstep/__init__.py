"""The lock-step environment: thousands of replicas of a slotted model, advanced together.

Think of an arcade with a game in every cabinet: all games wait for their player, all take one
action, and a cabinet whose game is over is switched off. A decision of all replicas is a few dozen
array operations, so that a replica's share is below a microsecond. Each replica plays the slotted
model as the simulation does: `simkit.agent.slotted` says what is seen, `Lockstep.step` what an
action does. Sofia's environment also measures the load.

Arrays of state have the replica as their *last* axis, so that they are dense along it; a view has
it first.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from simkit.agent.observe_slots import SlotFacts
from simkit.agent.slotted import Slotted, SlottedView
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import PolicyError, ScenarioError
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.replicas import ReplicaGrid, ReplicaSlots, Small

Objective = Literal["slowdown", "completion"]

NEVER = np.iinfo(np.int64).max
"""The step of an arrival that never comes."""


class Lockstep:
    """N = S * replicas games of a slotted model; replica n plays job set n // replicas.

    A game begins at the step in which the set's first job arrives, and is over when all its jobs
    have arrived and none waits or runs; a set without jobs is over at once. The results are in
    `start`, `finish`, `decisions` and `steps`, whatever the state of the game.
    """

    active: Ints
    """(A,) replicas whose game goes on, ascending."""
    start: Ints
    """(N, J) start step of each job, possibly in the future; -1: not placed."""
    finish: Ints
    """(N, J) step before which it has ended; -1: not placed."""
    decisions: Ints
    """(N,) actions taken so far."""
    steps: Ints
    """(N,) steps that have passed so far."""
    ends_when_placed: ClassVar[bool] = False
    """Whether a game is over once all jobs are placed, before they have ended."""

    def __init__(
        self,
        model: Slotted,
        job_sets: JobSets,
        replicas: int = 1,
        objective: Objective = "slowdown",
        limit: int | None = None,
    ) -> None:
        """Begin all games.

        Args:
            model: the dimensions.
            job_sets: S sets that `model` can hold.
            replicas: how many games of each set.
            objective: what the rewards add up to; see `step`.
            limit: decisions after which a game is over, done or not; None: no limit.

        Raises ScenarioError if a job could never be placed, or an argument is out of its range.
        """
        if objective not in get_args(Objective):
            raise ScenarioError(
                f"lock-step: objective is {objective!r}; it is one of {get_args(Objective)}"
            )
        if replicas < 1 or (limit is not None and limit < 1):
            raise ScenarioError(
                f"lock-step: replicas is {replicas}, limit is {limit}; they must be at least 1"
            )
        job_sets.check_fit(model)
        self.model, self.job_sets, self.replicas, self.limit = model, job_sets, replicas, limit
        self._jobs_a_set = job_sets.length.shape[1]
        never = np.full((len(job_sets), 1), NEVER)
        enter = np.where(job_sets.there, job_sets.enter, NEVER)
        self._enter: Ints = np.concatenate((enter, never), axis=1)
        self._objective = objective
        self._weight = self._weights(job_sets.length)
        self.reset()

    def _weights(self, length: Ints) -> Floats:
        """Return the cost a step of a job of each length; padding costs nothing."""
        weight = 1.0 / np.maximum(length, 1) if self._objective == "slowdown" else 1.0
        return np.where(length > 0, weight, 0.0)

    def reset(self) -> None:
        """Begin all games again."""
        games = len(self.job_sets) * self.replicas
        self.active = np.arange(games)
        self.start = np.full((games, self._jobs_a_set), -1)
        self.finish = self.start.copy()
        self.decisions = np.zeros(games, np.int64)
        self.steps = np.zeros(games, np.int64)
        self.cut = np.zeros(games, np.bool_)
        self._set = self.active // self.replicas
        self._next = np.zeros(games, np.int64)  # the job that arrives next
        self._now = self._enter[self._set, 0]
        self._next_enter = self._now.copy()
        self._since = np.full(games, self.model.memory)
        self._in_system = np.zeros(games)  # what a step costs, all jobs in the system together
        self._grid = ReplicaGrid(self.model, games)
        self._slots = self._new_slots(games)
        self._earliest: Ints | None = None
        self._close(self._next_enter == NEVER)
        self._arrive()

    def _new_slots(self, games: int) -> ReplicaSlots:
        """Return empty slots for `games` games."""
        return ReplicaSlots(self.model, games, self._jobs_a_set)

    def waiting(self) -> Ints:
        """Return (A,) how many jobs wait, shown or not."""
        return self._slots.waiting

    def view(self) -> SlottedView:
        """Return what the active replicas see, with A as the leading axis.

        The arrays are the environment's own small integers, good until the next `step`.
        """
        return SlottedView(
            occupied=self._grid.occupied.transpose(2, 0, 1),
            length=self._slots.length[: self.model.slots].T,
            size=self._slots.size[:, : self.model.slots].transpose(2, 1, 0),
            backlog=self._slots.backlog,
            since_arrival=self._since,
        )

    def earliest(self) -> Ints:
        """Return (A, M) how many steps ahead the task in each slot can start; -1: not at all."""
        if self._earliest is None:
            self._earliest = self._grid.earliest(*self._slots.shown())
        return self._earliest.T

    def mask(self) -> Bools:
        """Return (A, M + 1) which actions do something: slots whose task fits, and void always."""
        mask = np.ones((len(self.active), self.model.actions), np.bool_)
        mask[:, :-1] = self.earliest() >= 0
        return mask

    def jobs_in_slots(self) -> Ints:
        """Return (A, M) which job of its set is in each slot; -1: none."""
        return self._slots.job[: self.model.slots].T.astype(np.int64)

    def waited(self) -> Ints:
        """Return (A, M) steps since the job in each slot came; 0 if the slot is empty."""
        job = self.jobs_in_slots()
        came = self._enter[self._set[:, None], job]  # of job -1, any number
        return np.where(job >= 0, self._now[:, None] - came, 0)

    def slot_facts(self) -> SlotFacts:
        """Return what the observation slot-set shows besides `view`, with A as the leading axis."""
        return SlotFacts(self.earliest(), self.waited(), self._next, self.steps[self.active])

    def fits_now(self) -> Bools:
        """Return (A, M) whether the task in each slot could start at once.

        If a step passes although one could, the agent is not work-conserving.
        """
        now: Bools = self.earliest() == 0
        return now

    def step(self, actions: npt.ArrayLike) -> Floats:
        """Take one action in every active replica; return (A,) rewards, in the order of `active`.

        Action a < M: if slot a holds a task that fits within the horizon, it is placed as early
        as possible, time stands still and the head of the backlog moves into the slot. Otherwise,
        and with action M, a step passes, and the reward is minus the sum, over the jobs in the
        system during it, of 1 / length (objective slowdown) or of 1 (completion). So the rewards
        of a game add up to minus its sum of slowdowns, or of turnaround times in steps, of the
        jobs that were admitted. `active` is shorter afterwards where games are over.

        Args:
            actions: (A,) whole numbers from 0 to M.

        Raises PolicyError if actions are not of this shape, or out of their range.
        """
        chosen = self.checked(actions)
        length, size = self._slots.of(chosen)
        ahead = self._ahead(chosen, length, size)
        placed: Bools = ahead >= 0
        rewards = self._rewards(chosen, ahead)
        self._grid.hold(ahead, np.where(placed, length, 0).astype(length.dtype), size)
        self._place(placed.nonzero()[0], chosen, ahead)
        moved = ~placed
        self._pass(moved)
        self._earliest = None
        self.decisions[self.active] += 1
        self._end(moved)
        return rewards

    def _rewards(self, chosen: Ints, ahead: Ints) -> Floats:
        """Return (A,) rewards of actions that are about to be taken."""
        rewards: Floats = np.where(ahead < 0, -self._in_system, 0.0)
        return rewards

    def checked(self, actions: npt.ArrayLike, ignored: Bools | None = None) -> Ints:
        """Return (A,) actions that `step` takes, without taking them.

        Args:
            actions: (A,) whole numbers from 0 to M.
            ignored: (A,) replicas whose number is replaced by M, whatever it is; None: nobody's.

        Raises PolicyError if actions are not of this shape, or out of their range.
        """
        chosen = _whole_numbers(actions, len(self.active))
        some = chosen if ignored is None else chosen[~ignored]
        if some.size and not 0 <= some.min() <= some.max() <= self.model.slots:
            raise PolicyError(
                f"lock-step: actions range from {some.min()} to {some.max()}; they are slots "
                f"0 to {self.model.slots - 1}, and {self.model.slots} lets a step pass"
            )
        numbers: Ints = chosen.astype(np.int64, copy=False)
        return numbers if ignored is None else np.where(ignored, self.model.slots, numbers)

    def _ahead(self, chosen: Ints, length: Small, size: Small) -> Ints:
        """Return (A,) in how many steps the chosen task starts; -1: time goes on."""
        if self._earliest is None:
            return self._grid.earliest(length, size)
        rows = np.arange(len(chosen))
        slot = np.minimum(chosen, self.model.slots - 1)
        return np.where(chosen < self.model.slots, self._earliest[slot, rows], -1)

    def _place(self, rows: Ints, chosen: Ints, ahead: Ints) -> None:
        """Record when the chosen tasks of some replicas start and finish; refill their slots."""
        job, sets, games = self._slots.job[chosen[rows], rows], self._set[rows], self.active[rows]
        start = self._now[rows] + ahead[rows]
        finish = start + self.job_sets.length[sets, job]
        self.start[games, job] = start
        self.finish[games, job] = finish
        self._grid.leave_at(rows, finish, self._weight[sets, job])
        self._refill(rows, chosen[rows])

    def _refill(self, rows: Ints, slots: Ints) -> None:
        """Fill slots that became free with the heads of their backlogs, or empty them."""
        head = self._slots.pop(rows, self.active[rows], slots)
        sets = self._set[rows]
        length = np.where(head >= 0, self.job_sets.length[sets, head], 0)
        size = np.where(head >= 0, self.job_sets.size[sets, head].T, 0)
        self._slots.put(rows, slots, head, length, size)

    def _pass(self, moved: Bools) -> None:
        """Let a step pass where no task was placed."""
        rows = moved.nonzero()[0]
        self._now += moved
        self.steps[self.active[rows]] += 1
        np.minimum(self._since + moved, self.model.memory, out=self._since)
        self._grid.shift(moved)
        self._in_system[rows] -= self._grid.leaving(rows, self._now[rows])
        self._arrive()

    def _arrive(self) -> None:
        """Admit the jobs that arrive now: to the lowest free slot, the backlog, or not at all."""
        rows = (self._next_enter == self._now).nonzero()[0]
        while len(rows):
            sets, job = self._set[rows], self._next[rows]
            self._since[rows] = 0
            self._next[rows] += 1
            self._next_enter[rows] = self._enter[sets, self._next[rows]]
            length, size = self.job_sets.length[sets, job], self.job_sets.size[sets, job].T
            admitted = self._slots.admit(rows, self.active[rows], job, length, size)
            self._in_system[rows[admitted]] += self._weight[sets, job][admitted]
            rows = rows[self._next_enter[rows] == self._now[rows]]  # whose next job comes as well

    def _end(self, moved: Bools) -> None:
        """Switch off the replicas whose game is over."""
        idle = moved & (self._slots.waiting == 0) & (self._grid.last_finish <= self._now)
        self._in_system[idle] = 0.0  # exactly 0, without rounding errors
        self._end_or_cut(idle & (self._next_enter == NEVER))

    def _end_or_cut(self, over: Bools) -> None:
        """Switch off the replicas whose game is over, (A,), or is cut off at the limit."""
        if self.limit is not None:
            cut = ~over & (self.decisions[self.active] >= self.limit)
            self.cut[self.active[cut]] = True
            over = over | cut
        if over.any():
            self._close(over)

    def _close(self, over: Bools) -> None:
        """Switch off (A,) replicas whose game is over."""
        self._keep(~over)

    def _keep(self, kept: Bools) -> None:
        """Keep only the state of some replicas."""
        for name in ("active", "_set", "_next", "_now", "_next_enter", "_since", "_in_system"):
            setattr(self, name, getattr(self, name)[kept])
        self._grid.keep(kept)
        self._slots.keep(kept)


def _whole_numbers(actions: npt.ArrayLike, count: int) -> npt.NDArray[Any]:
    """Return actions as `count` whole numbers of any width; raises PolicyError for others."""
    try:
        chosen = np.asarray(actions)
    except ValueError as error:
        raise PolicyError(
            f"lock-step: actions are {actions!r}, which is no array; give one whole number for "
            f"each of the {count} active replicas"
        ) from error
    if chosen.shape != (count,) or chosen.dtype.kind not in "iu":
        raise PolicyError(
            f"lock-step: actions are {chosen.dtype} of shape {chosen.shape}; give one whole "
            f"number for each of the {count} active replicas"
        )
    return chosen


def load(view: SlottedView, capacity: npt.ArrayLike) -> Floats:
    """Return L = Q + M, (…): the share of slots with a task, plus the share of the grid in use.

    Sofia, "Resource management with deep reinforcement learning" (2021), section 4: M is the mean
    over the resources of the units that are held in the steps ahead, over all that there are. So
    L is at most 2; tasks behind the slots are not part of it.

    Args:
        view: with any leading axes.
        capacity: (R,) units of each resource.
    """
    held: Floats = view.occupied.mean(axis=-2) / np.asarray(capacity)  # (…, R)
    result: Floats = (view.length > 0).mean(axis=-1) + held.mean(axis=-1)
    return result


class MeteredLockstep(Lockstep):
    """A `Lockstep` that measures the loads of its games and the reward of one step.

    Call `meter` before the first decision. Games that are over before that step count as 0.
    """

    last_step: int | None = None
    """The number of the step, from 1, whose load and reward are kept."""

    def meter(self, last_step: int) -> None:
        """Begin to measure: sums over all steps, and the values of step `last_step`."""
        games = len(self.decisions)
        self.last_step = last_step
        self.load_sum = np.zeros(games)
        """(N,) the loads of all steps, just before they pass, summed."""
        self.last_load = np.zeros(games)
        """(N,) the load just before the last step passes."""
        self.last_reward = np.zeros(games)
        """(N,) the reward of the last step."""

    def step(self, actions: npt.ArrayLike) -> Floats:
        if self.last_step is None:
            return super().step(actions)
        games, loads = self.active, load(self.view(), self.model.capacity)
        before = self.steps[games]
        rewards = super().step(actions)
        passed = self.steps[games] > before
        self.load_sum[games] += np.where(passed, loads, 0)
        last = passed & (before == self.last_step - 1)
        self.last_load[games[last]] = loads[last]
        self.last_reward[games[last]] = rewards[last]
        return rewards

    def measured(self) -> dict[str, float]:
        """Return the measured numbers.

        Returns:
            ``load``: mean over all steps of all games; ``last_load`` and ``last_reward``: means
            over all games, those that are over counting as 0.
        """
        return {
            "load": float(self.load_sum.sum() / max(self.steps.sum(), 1)),
            "last_load": float(self.last_load.mean()),
            "last_reward": float(self.last_reward.mean()),
        }
