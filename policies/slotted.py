"""Slotted heuristics: those that DeepRM is compared with, and further ones, on the slots it sees.

H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (HotNets 2016). Time goes in steps and amounts in units; of the waiting tasks a policy
sees those in numbered slots, and of the future the steps up to a horizon. In each step it places
one task after the other, the best scored first, until none is left that it may place:

    scheduling: {step: 1s}
    admission: {slots: 10, backlog: 60}
    estimates: actual
    policy: {name: slotted-tetris, args: {knob: 0.0005}}

What it may place is said by `reserve`:

| reserve | the next task is the best scored of those that … | it starts |
|---|---|---|
| ``none`` | fit from this step on, for all of their length | now |
| ``best`` | fit from some step within the horizon on | at the earliest such step |
| ``rest`` | fit from this step on; and when there are none, of those that fit later | likewise |

``none`` is what the paper's heuristics do. An agent may place a task into the future as well, and
with ``best`` and ``rest`` so may they: ``best`` withholds what the best scored task will need from
tasks that could start now; ``rest`` withholds nothing from them. A task that is placed stays where
it is. Of equal scores the lowest slot goes first, and a score of 0 is never placed.

A task may begin at a step t only if t + its length is less than the horizon. One that is as long as
the horizon could never start, so it ends the run with a PolicyError.

The shares that the scores are made of count units and steps, as in the original code: the alignment
of a task is Σ over the resources of (units that it asks for) × (units free in this step).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any, Final, Literal, get_args

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.agent.slotted_tracker import SlottedTracker
from simkit.errors import ScenarioError
from simkit.policy import Action, State, SystemInfo
from simkit.units import parse_duration

Reserve = Literal["none", "best", "rest"]
"""Which tasks may be placed into the future."""


@dataclass(eq=False, kw_only=True)
class SlottedPolicy(ABC):
    """Follows the slotted model, with DeepRM's dimensions by default; `choose` picks the slot.

    Args:
        slots: waiting tasks that are seen; those of the scenario's `admission`.
        horizon: steps ahead that are planned.
        step: length of a step, a duration or seconds; that of the scenario's `scheduling`.
        unit: amount of each resource in a unit; None: 1.

    Raises ScenarioError, all problems at once, for arguments outside their ranges; in `reset`, for
    a cluster that is not one pool. In a run: PolicyError for a task as long as the horizon.
    """

    slots: int = 10
    horizon: int = 20
    step: str | float = "1s"
    unit: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ScenarioError(problems)
        # The capacity is that of the cluster, known in `reset`.
        self._model = Slotted(
            slots=self.slots, horizon=self.horizon, max_length=self.horizon,
            step_s=parse_duration(self.step),
        )  # fmt: skip

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong with the arguments, a line each."""
        yield from _wrong_step(self.step)
        yield from _wrong_unit(self.unit)
        yield from _wrong_counts(self, "slotted policy", slots=1, horizon=1)

    def check_scenario(self, scenario: Any) -> list[str]:
        """Return how slots and step of a `Scenario` differ from the policy's, a line each."""
        step_s = scenario.scheduling.step
        stated = {
            "slots": (self.slots, "admission", scenario.admission.slots),
            "step": (self._model.step_s, "scheduling", step_s),
        }
        return [
            f"slotted policy: {name} is {mine:.15g} and {section}.{name} "
            f"{'not set' if theirs is None else format(theirs, '.15g')}; make them equal, with "
            f"`{section}: {{{name}: {mine:.15g}}}`"
            + ("" if theirs is None else f" or `args: {{{name}: {theirs:.15g}}}`")
            for name, (mine, section, theirs) in stated.items()
            if mine != theirs
        ]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why the policy cannot schedule a cluster, a line each."""
        try:
            self._tracker_of(info)
        except ScenarioError as error:
            return list(error.problems)
        return []

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        self.tracker = self._tracker_of(info)
        self._rng = rng

    def _tracker_of(self, info: SystemInfo) -> SlottedTracker:
        """Return a tracker of a run that begins; raises ScenarioError for another cluster."""
        unit = (1.0,) * len(info.resources) if self.unit is None else tuple(self.unit)
        if len(unit) != len(info.resources):
            raise ScenarioError(
                f"slotted policy: unit is {self.unit}; give an amount for each of "
                f"{', '.join(info.resources)}"
            )
        has = info.capacity[0].tolist()
        capacity = tuple([floor(c / u + 1e-6) for c, u in zip(has, unit, strict=True)])
        tracker = SlottedTracker(replace(self._model, capacity=capacity, unit=unit))
        tracker.reset(info)
        return tracker

    def schedule(self, state: State) -> Iterator[Action]:
        tracker = self.tracker
        tracker.update(state)
        tracker.refuse_too_long(
            f"slotted policy: {type(self).__name__}", "give a `horizon` above the longest job"
        )
        while (slot := self.choose()) is not None:
            place = tracker.place(slot)
            if place is None:
                return
            yield place
            tracker.update(state)

    @abstractmethod
    def choose(self) -> int | None:
        """Return the slot to place next.

        Time goes on for None, and for a slot that is empty or whose task does not fit.
        """


def _wrong_step(step: object) -> Iterator[str]:
    try:
        wrong = isinstance(step, bool) or not parse_duration(step) > 0  # type: ignore[arg-type]
    except (ArithmeticError, TypeError, ValueError) as error:
        yield f"slotted policy: step: {error}"
        return
    if wrong:
        yield f"slotted policy: step is {step!r}; it must be a duration above 0, such as 1s"


def _wrong_unit(unit: object) -> Iterator[str]:
    if unit is None:
        return
    if not (isinstance(unit, Sequence) and not isinstance(unit, str) and all(map(_amount, unit))):
        shown = list(unit) if isinstance(unit, tuple) else unit
        yield (
            f"slotted policy: unit is {shown!r}; it must be a list of positive amounts, one for "
            "each resource, such as [1, 4]"
        )


def _amount(value: object) -> bool:
    return _lies(value, 0, _LARGEST) and value != 0


_LARGEST: Final = 1e15
"""Amounts above this are refused."""


def _lies(value: object, least: float, most: float) -> bool:
    """Return whether a value is a number within bounds."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and least <= value <= most  # type: ignore[operator]


def _wrong_counts(policy: object, label: str, **least: int) -> Iterator[str]:
    """Yield the attributes, by name with their least values, that are no whole numbers so large."""
    for name, bound in least.items():
        value = getattr(policy, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < bound:
            yield f"{label}: {name} is {value!r}; it must be a whole number, at least {bound}"


def _wrong_numbers(policy: object, label: str, **most: float) -> Iterator[str]:
    """Yield the attributes, by name with their largest values, that are no numbers from 0 to it."""
    for name, bound in most.items():
        value = getattr(policy, name)
        if not _lies(value, 0, bound):
            yield f"{label}: {name} is {value!r}; it must be a number from 0 to {bound:g}"


@dataclass(eq=False)
class ScoredSlots(SlottedPolicy):
    """The base of those that place the best scored task first.

    Args:
        reserve: which tasks may be placed into the future; see the module.
        slots, horizon, step, unit: as for `SlottedPolicy`.

    Raises ScenarioError for another word, and as `SlottedPolicy` does.
    """

    reserve: Reserve = "none"

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.reserve not in get_args(Reserve):
            yield f"slotted policy: reserve is {self.reserve!r}; it is none, best or rest"

    @abstractmethod
    def score(self, length: int, size: Sequence[int], free: Sequence[int]) -> float:
        """Return a task's score; the greater goes first, and 0 never goes.

        Args:
            length: its steps.
            size: (R,) units that it asks for.
            free: (R,) units free in the step that begins now.
        """

    def choose(self) -> int | None:
        """Return the best scored slot of those that may be placed."""
        starts = [self.tracker.earliest(slot) for slot in range(self.slots)]
        now = [slot for slot, start in enumerate(starts) if start == 0]
        if self.reserve == "none":
            return self._best(now)
        later = [slot for slot, start in enumerate(starts) if start > 0]
        if self.reserve == "best":
            return self._best(sorted([*now, *later]))
        best = self._best(now)
        return self._best(later) if best is None else best

    def _best(self, slots: Iterable[int]) -> int | None:
        """Return the slot of the greatest score above 0; of equals the lowest."""
        best, most = None, 0.0
        view, free = self.tracker.view(), self.tracker.free_now()
        for slot in slots:
            score = self.score(int(view.length[slot]), view.size[slot].tolist(), free)
            if score > most:
                best, most = slot, score
        return best


class SlottedSJF(ScoredSlots):
    """The shortest task first: its score is 1 / length."""

    def score(self, length: int, size: Sequence[int], free: Sequence[int]) -> float:
        return 1.0 / length


class SlottedPacker(ScoredSlots):
    """The best aligned task first: what asks for much of what there is much of.

    The paper says "increasing order of alignment"; its code, and so this, takes the greatest.
    """

    def score(self, length: int, size: Sequence[int], free: Sequence[int]) -> float:
        return float(_alignment(size, free))


@dataclass(eq=False)
class SlottedTetris(ScoredSlots):
    """Alignment and shortness: knob · alignment + (1 − knob) / length.

    The paper does not give its knob. 0.0005 orders by length and settles ties by alignment; it is
    better than SJF, at the lowest loads level with it. From 0.02 on it is worse.

    Args:
        knob: weight of the alignment, 0 to 1.
        reserve: as for `ScoredSlots`.
        slots, horizon, step, unit: as for `SlottedPolicy`.

    Raises ScenarioError for a knob outside [0, 1], and as `ScoredSlots` does.
    """

    knob: float = 0.0005
    reserve: Reserve = field(default="none", kw_only=True)

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        yield from _wrong_numbers(self, "slotted tetris", knob=1)

    def score(self, length: int, size: Sequence[int], free: Sequence[int]) -> float:
        return self.knob * _alignment(size, free) + (1.0 - self.knob) * (1.0 / length)


class SlottedRandom(SlottedPolicy):
    """Any slot, or letting time go on, all with the same probability.

    A task that is drawn begins as early as it fits within the horizon, be it later; a slot that is
    empty or does not fit lets time go on. One number is drawn for every such choice.
    """

    def choose(self) -> int | None:
        """Return a slot at random, or one past the last: none."""
        drawn = int(self._rng.integers(self.slots + 1))
        return drawn if drawn < self.slots else None


@dataclass(eq=False)
class SlottedArea(SlottedPolicy):
    """The task of the least length · units ** `power` + `delay` · (steps until it can start).

    List scheduling for batches that are there at once: each task in turn gets its earliest place
    within the horizon, small and soon ones first. Units are the most that a task asks for of any
    resource. With 0 for both numbers it is the shortest task first, with reservations.

    Args:
        power: how much the size counts, 0 to 10.
        delay: how much a step until the start counts, 0 to 10⁹.
        slots, horizon, step, unit: as for `SlottedPolicy`.

    Raises ScenarioError, all problems at once, for numbers outside their ranges.
    """

    power: float = 0.3
    delay: float = 4.0

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        yield from _wrong_numbers(self, "slotted area", power=10, delay=1e9)

    def choose(self) -> int | None:
        """Return the slot whose task has the least sum; of equals the lowest."""
        view = self.tracker.view()
        starts = [self.tracker.earliest(slot) for slot in range(self.slots)]
        sums = {
            slot: view.length[slot] * float(view.size[slot].max()) ** self.power
            + self.delay * start
            for slot, start in enumerate(starts)
            if start >= 0
        }
        return min(sums, key=sums.__getitem__, default=None)


def _alignment(size: Sequence[int], free: Sequence[int]) -> int:
    return sum([asked * left for asked, left in zip(size, free, strict=True)])


@dataclass(eq=False)
class SlottedHeadroom(SlottedSJF):
    """The shortest task first; a long one only if enough stays free next to it.

    The strategy that DeepRM was seen to learn (Mao et al., "Resource management with deep
    reinforcement learning", 2016, section 4.4) as a rule, to show what an agent finds beyond it.

    A task of `long` steps or more starts only if, in every step that it takes and of each resource,
    at least `headroom` units stay free. After `patience` steps in the system it is treated as a
    short one, so its wait has a limit.

    Args:
        headroom: units of each resource that a long task leaves free.
        long: steps from which on a task is long.
        patience: steps after which a long task is treated as a short one.
        slots, horizon, step, unit: as for `SlottedPolicy`.

    Raises ScenarioError, all problems at once, for numbers outside their ranges.
    """

    headroom: int = 3
    long: int = 4
    patience: int = 50
    reserve: Reserve = field(default="none", init=False)

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        yield from _wrong_counts(self, "slotted headroom", headroom=0, long=1, patience=0)

    def schedule(self, state: State) -> Iterator[Action]:
        self._now = state.now
        return super().schedule(state)

    def choose(self) -> int | None:
        """Return the shortest of the tasks that fit now and leave enough free."""
        slots = range(self.slots)
        return self._best(
            slot for slot in slots if self.tracker.earliest(slot) == 0 and self._leaves_room(slot)
        )

    def _leaves_room(self, slot: int) -> bool:
        view, task, model = self.tracker.view(), self.tracker.task(slot), self.tracker.model
        length = int(view.length[slot])
        if task is None or length < self.long:
            return True
        if self._now - task.submit_time_s >= self.patience * model.step_s:
            return True
        held, asked = view.occupied[:length].max(axis=0).tolist(), view.size[slot].tolist()
        return all(
            before + more + self.headroom <= has
            for before, more, has in zip(held, asked, model.capacity, strict=True)
        )
