"""The power profile: what machines may still draw over future time, to plan in."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, inf

from simkit.arrays import Floats
from simkit.errors import PolicyError
from simkit.policy import State
from simkit.policy.power_view import PowerState
from simkit.policy.profile import PoolProfile, Profile
from simkit.policy.room import PlacementRule
from simkit.policy.task import Placement, Task
from simkit.units import TIME_GRID

_ALL: Placement = ((0, 1),)
_GRID_W = 2.0**-10
_MOST_W = 2.0**40
_MOMENT_S = 1.0


def site_power(state: State, policy: str) -> PowerState:
    """Return the site's power.

    Raises PolicyError if the scenario has none.
    """
    if state.power is None:
        raise PolicyError(
            f"{policy}: it decides by the site's power, and the scenario has none; "
            "add a section power:, or take another policy"
        )
    return state.power


class PowerProfile:
    """Watts of machines below a cap, from now on: what runs gives its own back when it ends.

    All powers are those of machines, without PUE and critical load. They lie on a grid of about a
    milliwatt. The power of a task is rounded down when it takes it and up when it gives it back,
    so that what fits exactly fits in spite of rounding.

    Args:
        state: the system now.
        power: the site's power.
        cap_w: what machines may draw, in W; where that is foreseen to change, in the first step.
        later_w: (K,) the same in each step of the forecast; None: it stays as it is.
    """

    def __init__(
        self, state: State, power: PowerState, cap_w: float, later_w: Floats | None = None
    ) -> None:
        self._power = power
        self._watts: dict[Task, float] = {}
        now, soon = state.now, state.now + TIME_GRID
        self._below = PoolProfile(now, [_on_grid(cap_w - power.machines_w)])
        for end, _, allocation in state.expected_ends:
            if end == inf:
                break
            back = self.watts_of(allocation.task, allocation.count)
            self._add(max(end, soon), ceil(back / _GRID_W) * _GRID_W)
        before = cap_w
        for k, cap in enumerate([] if later_w is None else later_w.tolist()):
            if k:  # the first step is now
                self._add(now + k * power.step_s, cap - before)
                before = cap

    def _add(self, start: float, watts: float) -> None:
        self._below.give(_ALL, (_on_grid(watts),), start, inf)

    def watts_of(self, task: Task, count: int | None = None) -> float:
        """Return what so many instances of a task add to the machines' power, in W; None: all."""
        if task not in self._watts:
            self._watts[task] = self._power.machine_power_of(task)
        watts = self._watts[task]
        return watts if count is None else watts * (count / task.instances)

    def take(self, task: Task, count: int, start: float, left_s: float | None = None) -> None:
        """Take the power of so many instances of a task from a time on, until they end.

        They run for `left_s`; None: for the task's estimate.
        """
        watts = _rounded_down(self.watts_of(task, count))
        left_s = task.estimate_s if left_s is None else left_s
        self._below.take(_ALL, (watts,), start, start + left_s)

    def most(self, task: Task, start: float) -> int:
        """Return how many waiting instances have power through ``[start, start + estimate)``."""
        each = self.watts_of(task) / task.instances
        if each <= 0:
            return task.remaining
        found = self._below.fit(_need(task, each, task.remaining, gang=False), start)
        count = 0 if found is None else found[0][1]
        return count if not task.gang or count >= task.instances else 0

    def earliest(self, task: Task, after: float) -> float | None:
        """Return the first time from which a task has power: all of a gang, one of a bag."""
        count = task.instances if task.gang else 1
        watts = self.watts_of(task, count)
        found = self._below.earliest(_need(task, watts, 1, gang=True), None, after)
        return None if found is None else found[0]


def earliest_with_power(
    profile: Profile, watts: PowerProfile, task: Task, rule: PlacementRule | None
) -> tuple[float, Placement] | None:
    """Return the first instant from which a task has both room and power, and where; or None."""
    after: float | None = None
    while True:
        found = profile.earliest(task, rule, after)
        if found is None:
            return None
        start = watts.earliest(task, found[0])
        if start is None:
            return None
        if start == found[0]:
            return start, found[1]
        after = start


def _need(task: Task, watts: float, instances: int, *, gang: bool) -> Task:
    """Return a stand-in that asks for power where tasks ask for resources."""
    return Task(
        task.index, task.job_index, task.submit_time_s, (_rounded_down(watts),), instances, gang,
        estimate_s=task.estimate_s,
    )  # fmt: skip


def _on_grid(watts: float) -> float:
    """Return watts on the grid. No power is more than `_MOST_W`: sums with infinity are NaN."""
    return round(min(watts, _MOST_W) / _GRID_W) * _GRID_W


def _rounded_down(watts: float) -> float:
    return floor(min(watts, _MOST_W) / _GRID_W) * _GRID_W


def next_start(state: State, starts: Iterable[float]) -> float:
    """Return the first of some planned starts that is worth a wake-up, in s; inf: none.

    While a task runs past its estimate, it is expected to end any moment. What is planned for
    that moment starts when it does end, which causes a decision anyway; to ask again a tick
    later, and again, would not make it earlier.
    """
    ends = state.expected_ends
    overdue = bool(ends) and ends[0][0] <= state.now
    least = state.now + (_MOMENT_S if overdue else 0.0)
    return min([start for start in starts if start > least], default=inf)
