"""The lock-step environment: thousands of replicas of a slotted model, advanced together.

A decision of all replicas is a few dozen array operations, so that a replica's share is below a
microsecond. Each replica plays the slotted model as the simulation does: `simkit.agent.slotted`
says what is seen, `Lockstep.step` what an action does. Sofia's environment also measures the load.

Arrays of state have the replica as their *last* axis, so that they are dense along it; a view has
it first.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from simkit.agent.observe_slots import SlotFacts
from simkit.agent.slotted import Slotted, SlottedView
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.lockstep.job_sets import NEVER, JobSets
from simkit.learners.lockstep.layouts import Slots
from simkit.learners.lockstep.plan import Plan, Small, small_type
from simkit.learners.lockstep.replicas import Replicas
from simkit.traces.models.synthetic import DrawnSets

Objective = Literal["slowdown", "completion"]


class Lockstep(Replicas[JobSets]):
    """N games of a slotted model; see `Replicas`.

    A game begins at the step in which the set's first job arrives, and is over when all its jobs
    have arrived and none waits or runs; a set without jobs is over at once. In endless play a
    replica is idle before its first game, and between the end of a game and the next `begin`: only
    time passes.
    """

    finish: Ints
    """(N, J) step before which each job has ended; -1: not placed."""
    OF_JOBS: ClassVar = {"start": -1, "finish": -1}
    STATE: ClassVar = {**Replicas.STATE, "_since": None, "_in_system": 0.0, "_last_finish": 0}
    ends_when_placed: ClassVar[bool] = False
    """Whether a game is over once all jobs are placed, before they have ended."""

    def __init__(
        self,
        model: Slotted,
        job_sets: JobSets,
        replicas: int = 1,
        objective: Objective = "slowdown",
        limit: int | None = None,
        *,
        endless: bool = False,
    ) -> None:
        """Begin all games.

        Args:
            model: the dimensions.
            job_sets: S sets that `model` can hold; in endless play those of its first games, or
                empty ones.
            replicas: how many games of each set.
            objective: what the rewards add up to; see `step`.
            limit: decisions after which a game is over, done or not; None: no limit.
            endless: whether games that are over stay; see `begin`.

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
        super().__init__(job_sets, replicas, model.actions, limit, endless=endless)
        self.model, self._objective = model, objective
        self._small = small_type(model.capacity, model.horizon)
        self._weight = self._weights(job_sets.length)
        self.reset()

    def _weights(self, length: Ints) -> Floats:
        """Return the cost a step of a job of each length; padding costs nothing."""
        weight = 1.0 / np.maximum(length, 1) if self._objective == "slowdown" else 1.0
        return np.where(length > 0, weight, 0.0)

    def reset(self) -> None:
        """Begin all games again."""
        model, games = self.model, len(self.sets) * self.replicas
        # A task of length n may start up to step latest_start(n), so none holds a step beyond the
        # one that a task of length 1 may start in.
        usable = model.latest_start(1) + 1
        plan = Plan(model.capacity, model.horizon, games, usable)
        self._begin(self._new_slots(games), plan)
        self._since = np.full(games, model.memory)
        self._in_system = np.zeros(games)  # what a step costs, all jobs in the system together
        self._last_finish = np.zeros(games, np.int64)  # before which everything placed has ended
        self._earliest: Ints | None = None
        if self.endless:
            self._now[self._now == NEVER] = 0
        self._close()
        self._arrive(np.arange(len(self.active)))

    def _new_slots(self, games: int) -> Slots:
        """Return empty slots for `games` games."""
        model, jobs = self.model, self.sets.length.shape[1]
        return Slots(model.slots, model.backlog, model.resources, games, jobs, self._small)

    def begin(self, replicas: Ints, fresh: DrawnSets) -> None:
        """Begin a game in (K,) replicas of endless play, on K sets that fit and are not empty."""
        self._load(replicas, fresh)
        self._arrive(replicas)
        if self._earliest is not None:
            length, size = self._slots.shown(replicas)
            self._earliest[:, replicas] = self._plan.earliest(length, size, replicas)

    def begin_with_next_step(self, replicas: Ints, fresh: DrawnSets) -> None:
        """Begin a game in some replicas with the next `step`, in which they must take action M.

        For them that step ends with the first arrival, and is not counted.
        """
        self._load(replicas, fresh)
        for counter in (self._now, self.decisions, self.steps):
            counter[replicas] -= 1

    def _load(self, replicas: Ints, fresh: DrawnSets) -> None:
        """Put fresh jobs into some replicas; the first of each arrive now."""
        self.restart(replicas, fresh, self._plan.units)
        self._weight[replicas] = self._weights(fresh.length)
        self._since[replicas] = self.model.memory

    # ---- what is seen ---------------------------------------------------------------------------

    def view(self) -> SlottedView:
        """Return what the active replicas see, with A as the leading axis.

        The arrays are the environment's own small integers, good until the next `step`.
        """
        return SlottedView(
            occupied=(self._plan.units - self._plan.free).transpose(2, 0, 1),
            length=self._slots.length[: self.model.slots].T,
            size=self._slots.size[:, : self.model.slots].transpose(2, 1, 0),
            backlog=self._slots.backlog,
            since_arrival=self._since,
        )

    def earliest(self) -> Ints:
        """Return (A, M) how many steps ahead the task in each slot can start; -1: not at all."""
        if self._earliest is None:
            self._earliest = self._plan.earliest(*self._slots.shown())
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

    # ---- what is done ---------------------------------------------------------------------------

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
        self._plan.hold(ahead, length * placed, size)
        self._place(placed.nonzero()[0], chosen, ahead)
        self._pass(~placed)
        self._earliest = None
        self.decisions[self.active] += 1
        self._close()
        return rewards

    def _rewards(self, chosen: Ints, ahead: Ints) -> Floats:
        """Return (A,) rewards of actions that are about to be taken."""
        rewards: Floats = np.where(ahead < 0, -self._in_system, 0.0)
        return rewards

    def _ahead(self, chosen: Ints, length: Small, size: Small) -> Ints:
        """Return (A,) in how many steps the chosen task starts; -1: time goes on."""
        if self._earliest is None:
            return self._plan.earliest(length, size)
        rows = np.arange(len(chosen))
        slot = np.minimum(chosen, self.model.slots - 1)
        return np.where(chosen < self.model.slots, self._earliest[slot, rows], -1)

    def _place(self, rows: Ints, chosen: Ints, ahead: Ints) -> None:
        """Record when the chosen tasks of some replicas start and finish; refill their slots."""
        job, sets, games = self._slots.job[chosen[rows], rows], self._set[rows], self.active[rows]
        start = self._now[rows] + ahead[rows]
        finish = start + self.sets.length[sets, job]
        self.start[games, job] = start
        self.finish[games, job] = finish
        self._plan.note(rows, finish, self._weight[sets, job])
        self._last_finish[rows] = np.maximum(self._last_finish[rows], finish)
        self._refill(rows, chosen[rows])

    def _refill(self, rows: Ints, slots: Ints) -> None:
        """Fill slots that became free with the heads of their backlogs, or empty them."""
        head = self._slots.pop(rows, self.active[rows], slots)
        sets = self._set[rows]
        length = np.where(head >= 0, self.sets.length[sets, head], 0)
        size = np.where(head >= 0, self.sets.size[sets, head].T, 0)
        self._slots.put(rows, slots, head, length, size)

    def _pass(self, moved: Bools) -> None:
        """Let a step pass where no task was placed."""
        rows = moved.nonzero()[0]
        self._now += moved
        self.steps[self.active[rows]] += 1
        np.minimum(self._since + moved, self.model.memory, out=self._since)
        self._plan.shift(moved, self._plan.units)
        self._in_system[rows] -= self._plan.due(rows, self._now[rows])
        self._arrive(rows)
        self._in_system[self._idle()] = 0.0  # exactly 0, without rounding errors

    def _arrived(self, rows: Ints, sets: Ints, job: Ints, admitted: Bools) -> None:
        self._since[rows] = 0
        self._in_system[rows[admitted]] += self._weight[sets, job][admitted]

    def _idle(self, rows: Ints | slice = slice(None)) -> Bools:
        """Return (K,) whether nothing waits or runs in some games."""
        idle: Bools = self._slots.waiting[rows] == 0
        idle &= self._last_finish[rows] <= self._now[rows]
        return idle

    def done(self, rows: Ints | slice = slice(None)) -> Bools:
        """Return (K,) whether all jobs have come and have ended, or were rejected."""
        done: Bools = self._idle(rows) & (self._next_enter[rows] == NEVER)
        return done

    @property
    def now(self) -> Ints:
        """(A,) the step that begins, on the clock of the job sets."""
        now: Ints = self._now
        return now

    @property
    def rejected(self) -> Ints:
        """(A,) jobs that came and were not admitted."""
        steps, decisions = self.steps[self.active], self.decisions[self.active]
        placed = decisions - steps  # a decision either places a job or lets a step pass
        rejected: Ints = self._next - self._slots.waiting - placed
        return rejected


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
