"""Numbered actions of an agent: one for each slot or waiting task, and the void action.

An action is a slot of the slotted model, whose task may be placed into the future; or a position in
the queue, whose task may start now, or becomes the head around which others backfill. The last
action, the void one, lets time go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from simkit.agent.slotted_tracker import SlottedTracker
from simkit.arrays import Floats
from simkit.errors import PolicyError, ScenarioError
from simkit.plugins import find, find_in_table, instantiate
from simkit.policy import Action, Place, State, SystemInfo
from simkit.policy.claims import Claims
from simkit.policy.head_place import HeadPlace, head_place
from simkit.policy.lane import make_lane
from simkit.policy.ordered import resumptions
from simkit.policy.task import Placement, Task

Mask = npt.NDArray[np.int8]
Starts = Literal["now", "ahead"]
"""Which tasks may be placed: those that fit now, where time may go on although some do; or all that
fit later as well, each as early as possible, where time goes on only if none fits."""


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


SlotMask = Literal["none", "possible", "now", "ahead"]
"""Which slots may be chosen: all; those whose task fits within the horizon, or fits now; or, as
`ahead`, those that fit within the horizon, where time goes on only if none does."""


class SlotActions(Actions):
    """Action m places the task in slot m at its earliest start within the horizon.

    Nothing is placed if the slot is empty or if its task does not fit within the horizon.

    Args:
        tracker: the slots.
        mask: which of them may be chosen.
        patience: after so many steps in which a task fits but none is placed, the one that can
            begin soonest is placed anyway, and a task that never fits is refused, so that a run
            ends; None: neither.
    """

    def __init__(
        self, tracker: SlottedTracker, mask: SlotMask = "possible", patience: int | None = None
    ) -> None:
        if mask not in get_args(SlotMask):
            raise ScenarioError(
                f"action_arguments: mask is {mask!r}; it must be none, possible, now or ahead"
            )
        if patience is not None and (
            isinstance(patience, bool) or not isinstance(patience, int) or patience < 1
        ):
            raise ScenarioError(
                f"action_arguments: patience is {patience!r}; it must be a number of steps, at "
                "least 1"
            )
        self._tracker, self._masked, self._patience = tracker, mask, patience
        self.count = tracker.model.slots + 1
        self._begin()

    def _begin(self) -> None:
        self._placed, self._idle_since = False, inf

    def reset(self, info: SystemInfo) -> None:
        self._tracker.reset(info)
        self._begin()

    def update(self, state: State) -> None:
        self._tracker.update(state)

    def begin(self, state: State) -> Iterable[Action]:
        self._placed = False
        if self._patience is not None:
            self._tracker.refuse_too_long("an agent of slots", "train one with a longer horizon")
        return ()

    def action_of(self, state: State, number: int) -> Place | None:
        void = self.count - 1
        if not 0 <= number <= void:
            raise PolicyError(
                f"action {number} is not one of 0 … {void}: one for each slot, and {void} to let "
                "time go on"
            )
        place = None if number == void else self._tracker.place(number)
        self._placed = self._placed or place is not None
        return place

    def number_of(self, state: State, action: Action) -> int | None:
        slots = range(self.count - 1)
        alike = (m for m in slots if places_alike(self._tracker.place(m), action, state.now))
        return next(alike, None)

    def end(self, state: State) -> Iterable[Action]:
        if self._patience is None:
            return
        starts = [(self._tracker.earliest(slot), slot) for slot in range(self.count - 1)]
        fitting = [(start, slot) for start, slot in starts if start >= 0]
        if self._placed or not fitting:
            self._idle_since = inf
            return
        self._idle_since = min(self._idle_since, state.now)
        if state.now - self._idle_since >= self._patience * self._tracker.model.step_s:
            self._idle_since = inf
            if (place := self._tracker.place(min(fitting)[1])) is not None:
                yield place

    def shown(self, state: State) -> Sequence[Task | None]:
        return self._tracker.tasks

    def mask(self, state: State) -> Mask:
        """Return (M + 1,), fresh: 1 for slots that may be chosen, and for the void action."""
        if self._masked == "none":
            return np.ones(self.count, np.int8)
        if self._masked == "now":
            slots = range(self.count - 1)
            return np.array([*(self._tracker.fits_now(slot) for slot in slots), True], np.int8)
        mask = self._tracker.possible()
        if self._masked == "ahead":
            mask[-1] = not mask[:-1].any()
        return mask


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
        self._lane = make_lane(_HeadFirst(self), None, range(len(info.partitions)))
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
