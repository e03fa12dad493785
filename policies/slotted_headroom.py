"""A slotted rule that withholds: long tasks start only where they leave room for short ones.

The strategy that DeepRM was seen to learn (Mao et al., "Resource management with deep reinforcement
learning", 2016, section 4.4), written down as a rule, so that one may tell what an agent finds
beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simkit.errors import ScenarioError
from simkit.policy import Action, State

from .slotted import SlottedSJF
from .slotted_base import HORIZON, SLOTS, STEP


class SlottedHeadroom(SlottedSJF):
    """The shortest task first; a long one only if enough stays free beside it.

    A task of `long` steps or more starts only if, in every step that it takes and of each resource,
    at least `headroom` units stay free. It does not wait for ever: after `patience` steps in the
    system it is treated as a short one.

    Args:
        headroom: units of each resource that a long task leaves free.
        long: steps from which on a task is long.
        patience: steps after which a long task is treated as a short one.
        slots, horizon, step, unit: as for `SlottedPolicy`.

    Raises ScenarioError, all problems at once, for numbers that are none.
    """

    def __init__(
        self,
        headroom: int = 3,
        long: int = 4,
        patience: int = 50,
        *,
        slots: int = SLOTS,
        horizon: int = HORIZON,
        step: str | float = STEP,
        unit: Sequence[float] | None = None,
    ) -> None:
        super().__init__(slots=slots, horizon=horizon, step=step, unit=unit)
        limits = (("headroom", headroom, 0), ("long", long, 1), ("patience", patience, 0))
        wrong = [
            f"slotted headroom: {name} is {value!r}; it is a whole number, at least {least}"
            for name, value, least in limits
            if isinstance(value, bool) or not isinstance(value, int) or value < least
        ]
        if wrong:
            raise ScenarioError(wrong)
        self.headroom, self.long, self.patience = headroom, long, patience
        self._now = 0.0

    def schedule(self, state: State) -> Iterator[Action]:
        """See `Policy.schedule`."""
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
