"""Numbered actions of an agent: one for each slot or waiting task, and the void action.

An action is a slot of the slotted model, whose task may be placed into the future; or a position in
the queue, whose task may start now, or becomes the head around which others backfill. The last
action, the void one, lets time go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats, Ints
from simkit.errors import PolicyError, ScenarioError
from simkit.plugins import find, find_in_table, instantiate
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import Claims, HeadPlace, head_place
from simkit.policy.lane import make_lanes
from simkit.policy.ordered import resumptions
from simkit.policy.task import Placement, Task
from simkit.units import ENDLESS_S

Mask = npt.NDArray[np.int8]
Starts = Literal["now", "ahead"]
"""Which tasks may be placed: those that fit now, where time may go on although some do; or all that
fit later as well, each as early as possible, where time goes on only if none fits."""


SlotMask = Literal["none", "possible", "now", "ahead"]
"""Which slots may be chosen: all; those whose task fits within the horizon, or fits now; or, as
`ahead`, those that fit within the horizon, where time goes on only if none does."""


class Actions(Protocol):
    """Numbered actions; the last is the void one.

    At a decision `begin` comes first. While it then `asks`, the agent acts, until an action places
    nothing and time `goes_on`. Last comes `end`. An `update` comes before each of them, and after
    each action that is carried out.
    """

    count: int
    """How many actions there are, including the void one."""

    def reset(self, info: SystemInfo) -> None:
        """Begin a run."""

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after each action."""

    def begin(self, state: State) -> Iterable[Action]:
        """Yield what starts by itself as a decision begins."""
        return ()

    def asks(self, state: State) -> bool:
        """Return whether there is anything that the agent may choose now."""
        return True

    def action_of(self, state: State, number: int) -> Action | None:
        """Return what a number means, mostly a placement; None: nothing is done.

        Raises PolicyError for a number that is not an action.
        """

    def number_of(self, state: State, action: Action) -> int | None:
        """Return the number that means what a policy does; None: there is none.

        The inverse of `action_of`, without effect. Nobody but recorders of datasets needs it.
        """
        return None

    def goes_on(self, state: State) -> bool:
        """Return whether time goes on, after a number that did nothing."""
        return True

    def end(self, state: State) -> Iterable[Action]:
        """Yield what starts by itself before time goes on."""
        return ()

    def shown(self, state: State) -> Sequence[Task | None]:
        """Return the waiting task that each of the first numbers starts; None: there is none."""
        return ()

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for actions that the agent may take.

        These are the void action and those that place something; see `NextHead` and `Pick`.
        """


def places_alike(meant: Action | None, action: Action, now: float) -> bool:
    """Return whether two actions place the same task on the same machines at the same time."""
    if not isinstance(meant, Place) or not isinstance(action, Place):
        return False
    starts = [now if one.start is None else max(one.start, now) for one in (meant, action)]
    return meant.task is action.task and meant.on == action.on and starts[0] == starts[1]


class Tracker(Protocol):
    """Follows a simulation and shows waiting tasks, each of which it can place at one time."""

    @property
    def tasks(self) -> Sequence[Task | None]:
        """The tasks that can be chosen; None: there is none at this place."""

    def reset(self, info: SystemInfo) -> None:
        """Begin a run; raises ScenarioError for a cluster that cannot be shown."""

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after each action."""

    def place(self, number: int, /) -> Place | None:
        """Return the placement of a task as early as it fits; None: there is none."""


class TrackerActions(Actions):
    """Action m places task m of a tracker, as early as it fits."""

    def __init__(self, tracker: Tracker, count: int, means: str) -> None:
        """Take a tracker and the number of actions; `means` says in words what they mean."""
        self._follows, self.count, self._means = tracker, count, means

    def reset(self, info: SystemInfo) -> None:
        self._follows.reset(info)

    def update(self, state: State) -> None:
        self._follows.update(state)

    def shown(self, state: State) -> Sequence[Task | None]:
        return self._follows.tasks

    def placed(self, number: int) -> Place | None:
        """Return the placement that a number means; None: there is none."""
        return self._follows.place(number) if number < len(self._follows.tasks) else None

    def number_of(self, state: State, action: Action) -> int | None:
        places = range(len(self._follows.tasks))
        alike = (m for m in places if places_alike(self.placed(m), action, state.now))
        return next(alike, None)

    def check(self, number: int) -> None:
        """Raise PolicyError for a number that is not an action."""
        if not 0 <= number < self.count:
            raise PolicyError(f"action {number} is not one of 0 … {self.count - 1}: {self._means}")


NOISE = 1e-6  # of a step: rounding errors of a quotient


class EarliestPlaces:
    """When and where tasks can start next to all that runs, is reserved or is planned.

    Attributes:
        tasks: those of the last `find`; None: there is none at this place.
    """

    def __init__(self, resources: int, step_s: float) -> None:
        self._step_s = step_s
        self._capacity: Floats = np.ones(resources)
        self.tasks: Sequence[Task | None] = ()
        self._found: list[tuple[float, Placement] | None] = []

    def reset(self, info: SystemInfo) -> None:
        """Begin a run."""
        self._capacity = np.maximum(info.capacity.sum(axis=0), 1e-12)

    def follow(self, state: State) -> None:
        """Begin to plan with what is free now and ahead."""
        self._state, self._now, self._profile = state, state.now, state.profile()

    def find(self, tasks: Sequence[Task | None]) -> None:
        """Find the earliest places of tasks."""
        self.tasks = tasks
        self._found = [None if task is None else self.earliest(task) for task in tasks]

    def earliest(self, task: Task) -> tuple[float, Placement] | None:
        """Return when and where a task can start; a bag only now, as far as it fits."""
        if task.gang:
            return self._profile.earliest(task)
        on = self._profile.fit(task, self._now)  # a place ahead is kept for whole tasks alone
        return None if on is None else (self._now, on)

    def starts(self) -> Ints:
        """Return (M,) the first step ahead at which each task can start; 0: now; -1: none."""
        ahead = [-1 if found is None else self.steps(found[0] - self._now) for found in self._found]
        return np.array(ahead)

    def steps(self, seconds: float) -> int:
        """Return how many steps a time from now is, rounded up; 0 only for now."""
        steps = ceil(min(seconds, ENDLESS_S) / self._step_s - NOISE)
        return max(steps, int(seconds > 0))

    def place(self, number: int) -> Place | None:
        """Return the placement of a task as early as it can start; None: there is none."""
        found = self._found[number] if number < len(self._found) else None
        task = None if found is None else self.tasks[number]
        if found is None or task is None:
            return None
        start, on = found
        return Place(task, on, start if start > self._now else None)

    def free(self, begins: Floats) -> Floats:
        """Return (H, R) the share of each resource that is free at (H,) times; may be below 0."""
        share: Floats = self._profile.total_free_at(begins) / self._capacity
        return share


class QueueActions(Actions):
    """Action m starts waiting task m of the queue now, in order of submission from 0.

    As many instances of a bag start as there is room for. The void action lets time go on. What
    was suspended for want of power is resumed by itself.
    """

    def __init__(self, slots: int) -> None:
        """Choose from the first `slots` waiting tasks; raises ScenarioError for less than 1."""
        if slots < 1:
            raise ScenarioError(f"actions: slots is {slots}; it must be at least 1")
        self._slots = slots
        self.count = slots + 1

    def reset(self, info: SystemInfo) -> None:
        pass

    def update(self, state: State) -> None:
        pass

    def begin(self, state: State) -> Iterable[Action]:
        return resumptions(state) if state.suspended else ()

    def action_of(self, state: State, number: int) -> Place | None:
        task = self._chosen(state, number)
        on = None if task is None else state.fit(task)
        return None if task is None or on is None else Place(task, on)

    def number_of(self, state: State, action: Action) -> int | None:
        waiting = state.queue.tasks[: self._slots]
        if not isinstance(action, Place) or action.task not in waiting:
            return None
        on = self._start_on(state, action.task)
        alike = on is not None and places_alike(Place(action.task, on), action, state.now)
        return waiting.index(action.task) if alike else None

    def shown(self, state: State) -> Sequence[Task | None]:
        return state.queue.tasks[: self._slots]

    def _start_on(self, state: State, task: Task) -> Placement | None:
        """Return where a waiting task starts if its action is taken; None: it does not."""
        return state.fit(task)

    def _chosen(self, state: State, action: int) -> Task | None:
        """Return the waiting task of an action; None: there is none, or it is the void one."""
        if not 0 <= action < self.count:
            raise PolicyError(
                f"action {action} is not one of 0 … {self._slots}: one for each waiting task, and "
                f"{self._slots} to let time go on"
            )
        waiting = state.queue.tasks
        return waiting[action] if action < min(self._slots, len(waiting)) else None

    def mask(self, state: State) -> Mask:
        fits = [state.fit(task) is not None for task in state.queue.tasks[: self._slots]]
        return np.array([*fits, *[False] * (self._slots - len(fits)), True], np.int8)


class _AroundHead(QueueActions):
    """Actions on a queue with at most one head at a time: a task whose place is kept.

    Args:
        slots: M, the waiting tasks to choose from.
        info: the system; its partitions must have one priority.
        hold: whether the void action is offered while tasks wait and there is no head.
        wrong: what is wrong with other arguments.
    """

    def __init__(self, slots: int, info: SystemInfo, hold: bool, wrong: Sequence[str] = ()) -> None:
        super().__init__(slots)
        problems = [*wrong, *_unless_truth_value("hold", hold)]
        if len({partition.priority for partition in info.partitions}) > 1:
            problems.append(
                "partitions have different priorities, which come before the agent's choice; give "
                "them one, or take the actions 'start'"
            )
        if problems:
            raise ScenarioError(problems)
        self._hold = hold
        self.head: Task | None = None
        """The task that was chosen and does not fit yet."""

    def _taken(self, state: State, action: int) -> Task | None:
        """Return the task of an action; without one, the first, unless holding is allowed."""
        task = self._chosen(state, action)
        if task is None and not self._hold and state.queue.tasks:
            return state.queue.tasks[0]
        return task

    def _fit(self, state: State, task: Task) -> Placement | None:
        """Return where a task may start now, next to what is known ahead and to claims."""
        on = state.fit(task)
        if on is not None and (state.constrained or state.suspended):
            profile = state.profile()
            Claims(state).hold(profile, task.priority)
            on = profile.fit(task, state.now)
        return on

    def _start_on(self, state: State, task: Task) -> Placement | None:
        return self._fit(state, task)

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for each waiting task, and for the void action if it may be."""
        waiting = min(len(state.queue.tasks), self._slots)
        mask = np.zeros(self.count, np.int8)
        mask[:waiting] = 1
        mask[-1] = self._hold or not waiting
        return mask


class NextHead(_AroundHead):
    """Action m makes waiting task m the head of the queue, in order of submission from 0.

    A head that fits starts, and the agent chooses the next. For one that does not fit, EASY keeps
    the earliest place by expected ends, and others start that do not delay it: they end by then, or
    fit next to it. Time goes on to the next decision at which a task waits, where the agent chooses
    anew, unless `keep` is set. What fits of a bag starts; the rest waits like any other task.

    Args:
        slots: M, the waiting tasks to choose from; all others are tried for backfilling as well.
        info: the system; its partitions must have one priority.
        backfill_order: others are tried by submission (``"queue"``) or shortest first (``"sjf"``).
        keep: a head that does not fit stays the head until it has started, and nothing is asked
            meanwhile.
        hold: whether the void action, which starts nothing and lets time go on, is offered while
            tasks wait. An agent that may hold tasks back can let large ones starve. If it is not
            offered, an action without a task takes the first waiting task.
    """

    def __init__(
        self,
        slots: int,
        info: SystemInfo,
        backfill_order: Literal["queue", "sjf"] = "queue",
        keep: bool = False,
        hold: bool = False,
    ) -> None:
        wrong = _unless_truth_value("keep", keep)
        if backfill_order not in ("queue", "sjf"):
            wrong.append(
                f"action_arguments: backfill_order must be queue or sjf, not {backfill_order!r}"
            )
        super().__init__(slots, info, hold, wrong)
        self._rule = find("simkit.policies", "backfill.easy")(backfill_order)
        self._keep = keep
        self.reset(info)

    def reset(self, info: SystemInfo) -> None:
        (self._lane,) = make_lanes(_HeadFirst(self), None, [range(len(info.partitions))])
        self._lane.alone = True
        self._rule.reset(info, np.random.default_rng(0))  # it draws nothing
        self._info = info
        self.head = None

    def begin(self, state: State) -> Iterator[Action]:
        yield from super().begin(state)
        head, self.head = self.head, None
        if not self._keep or head is None or not head.waiting:
            return
        if (on := self._fit(state, head)) is not None:
            yield Place(head, on)
        if head.waiting:
            self.head = head

    def asks(self, state: State) -> bool:
        return self.head is None and bool(state.queue.tasks)

    def action_of(self, state: State, number: int) -> Place | None:
        task = self._taken(state, number)
        if task is None:
            return None
        on = self._fit(state, task)
        if on is None:
            self.head = task
            return None
        return Place(task, on)

    def end(self, state: State) -> Iterator[Place]:
        """Yield what starts around the head, also of what admission lets in for it."""
        if self.head is None:  # tasks are held back, so the rule has not tried them
            self._rule.reset(self._info, np.random.default_rng(0))
            return
        known = -1
        while known < len(state.arrived):
            known = len(state.arrived)
            self._lane.profile = None
            self._lane.update(state)
            if len(self._lane) > 1:
                yield from self._rule.fill(state, self._lane)


class _HeadFirst:
    """The order of a queue: the chosen head, then all others by submission."""

    def __init__(self, actions: NextHead) -> None:
        self._actions = actions

    def keys(self, state: State) -> Floats:
        head = self._actions.head
        return np.array([float(task is not head) for task in state.queue.tasks])


class Pick(_AroundHead):
    """Action m picks waiting task m, in order of submission from 0; one that fits starts.

    The first picked task that does not fit is the *head* while time stands still. EASY keeps the
    earliest place by expected ends for it. From then on the agent picks what is backfilled: a task
    that does not delay the head, because it ends by then or fits next to it; or it lets time go on.
    At the next decision at which a task waits it picks a head anew. Nothing is asked while none of
    the tasks to choose from may start. What fits of a bag starts; the rest waits like any other
    task.

    Args:
        slots: M, the waiting tasks to choose from; no other task starts.
        info: the system; its partitions must have one priority.
        hold: whether the void action, which lets time go on, is offered before there is a head,
            too. An agent that may hold tasks back can let large ones starve. If it is not offered,
            an action without a task takes the first waiting task. Behind a head the void action is
            always offered, and an action that the mask forbids is the void one.
    """

    def __init__(self, slots: int, info: SystemInfo, hold: bool = False) -> None:
        super().__init__(slots, info, hold)
        self.reset(info)

    def reset(self, info: SystemInfo) -> None:
        self._begin()

    def begin(self, state: State) -> Iterable[Action]:
        self._begin()
        return super().begin(state)

    def _begin(self) -> None:
        self.head = None
        self._place: HeadPlace | None = None  # of the head
        self._admitted: list[bool] | None = None  # tasks behind the head, once it is known
        self._over = False  # whether the agent lets time go on

    def asks(self, state: State) -> bool:
        if self._over:
            return False
        if self._place is not None:
            return any(self._behind_head(state, self._place))
        waiting = state.queue.tasks[: self._slots]
        return any(self._fit(state, task) is not None for task in waiting)

    def goes_on(self, state: State) -> bool:
        return not self.asks(state)

    def _behind_head(self, state: State, place: HeadPlace) -> list[bool]:
        """Return which of the tasks to choose from may start while the head waits."""
        if self._admitted is None:
            self._admitted = [
                task is not self.head and place.fit(task) is not None
                for task in state.queue.tasks[: self._slots]
            ]
        return self._admitted

    def action_of(self, state: State, number: int) -> Place | None:
        if self._place is None:
            return self._before_head(state, number)
        task, self._admitted = self._chosen(state, number), None
        on = None if task is None or task is self.head else self._place.fit(task)
        if task is None or on is None:
            self._over = True
            return None
        self._place.hold(task, on)
        return Place(task, on)

    def _start_on(self, state: State, task: Task) -> Placement | None:
        if self._place is None:
            return super()._start_on(state, task)
        return None if task is self.head else self._place.fit(task)

    def _before_head(self, state: State, action: int) -> Place | None:
        task = self._taken(state, action)
        if task is None:
            self._over = True
            return None
        if (on := self._fit(state, task)) is not None:
            return Place(task, on)
        self.head, self._place = task, head_place(state, task)
        return None

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for each task that may be picked, and for the void action.

        Before there is a head, that is each waiting task, and the void action if it may be.
        """
        if self._place is None:
            return super().mask(state)
        admitted = self._behind_head(state, self._place)
        return np.array([*admitted, *[False] * (self._slots - len(admitted)), True], np.int8)


def _unless_truth_value(name: str, value: object) -> list[str]:
    """Return what is wrong with an argument that must be true or false, in one line or none."""
    if isinstance(value, bool):
        return []
    return [f"action_arguments: {name} is {value!r}; it must be true or false"]


ACTIONS: Mapping[str, type[QueueActions]] = {
    "start": QueueActions,
    "next-head": NextHead,
    "pick": Pick,
}
"""Actions outside of slotted time, by name."""


def make_actions(
    name: str, slots: int, info: SystemInfo, arguments: Mapping[str, Any] | None = None
) -> QueueActions:
    """Return the actions on waiting tasks that a name stands for.

    Args:
        name: one of `ACTIONS`, or ``module:attribute``.
        slots: M, the waiting tasks to choose from.
        info: the system.
        arguments: those of `NextHead` or `Pick`; the actions ``start`` take none.

    Raises PluginError for an unknown name, ScenarioError for arguments that are not taken.
    """
    maker = find_in_table("actions", ACTIONS, name)
    given: dict[str, Any] = {"slots": slots} | ({} if maker is QueueActions else {"info": info})
    what, given_twice = f"actions {name!r}", [key for key in arguments or {} if key in given]
    if given_twice:
        raise ScenarioError(f"{what}: {given_twice[0]} is given by simkit; leave it out")
    if maker is QueueActions and arguments:
        raise ScenarioError(f"{what} take no action_arguments; leave out {', '.join(arguments)}")
    made: QueueActions = instantiate(what, maker, arguments or {}, given)
    return made
