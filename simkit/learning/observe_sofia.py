"""Sofia's compact observation: what is held and asked for, written down step by step.

The state of the public code behind "Resource management with deep reinforcement learning" (Sofia,
2021): for each resource a column of the units that are held in each step ahead, then, for each
slot, a column with the units that its task asks for in as many rows as it takes steps; after all
resources the backlog as ones. There, numbers are units (``sofia-compact``); as shares of the
capacity (``sofia-shares``) they say the same, and first weights of the usual size suit them.

Functions of a `SlottedView` with any leading axes, so that one simulation and many replicas that
advance together see the same numbers.
"""

from __future__ import annotations

import numpy as np

from simkit.learning.observation import Numbers, SlotsSeen
from simkit.learning.schema import Field, ObservationSchema
from simkit.learning.slotted import Slotted, SlottedView
from simkit.policy import State, SystemInfo

NAMES = {False: "sofia-compact", True: "sofia-shares"}
"""Whether numbers are shares -> the observation's name."""


def sofia_compact(view: SlottedView, model: Slotted, *, shares: bool = False) -> Numbers:
    """Return (…, H, W) float32, W = R * (1 + M) + backlog columns; 60 x 23 with Sofia's model.

    From the left, for each resource: the units held in each of the steps ahead, and for each slot
    the units asked for in its first ``length`` rows. Then the backlog, ones filled in row by row,
    in as many columns as ``backlog_shown`` needs.

    Args:
        view: with any leading axes.
        model: its dimensions.
        shares: whether units are divided by the capacity.
    """
    rows, wide = np.arange(model.horizon), 1 + model.slots
    columns = _backlog_columns(model)
    width = model.resources * wide + columns
    table = np.empty((*view.backlog.shape, model.horizon, width), np.float32)
    running = rows[:, None] < view.length[..., None, :]  # (…, H, M)
    for r, capacity in enumerate(model.capacity):
        begin, scale = r * wide, np.float32(1 / capacity if shares else 1)
        table[..., begin] = view.occupied[..., r]
        np.multiply(
            running, view.size[..., None, :, r], out=table[..., begin + 1 : begin + wide],
            casting="unsafe",
        )  # fmt: skip
        if shares:
            table[..., begin : begin + wide] *= scale
    numbers = rows[:, None] * columns + np.arange(columns)
    waiting = np.minimum(view.backlog, model.backlog_shown)
    table[..., -columns:] = numbers < waiting[..., None, None]
    return table


def sofia_schema(model: Slotted, *, shares: bool = False) -> ObservationSchema:
    """Return what stands in which column of `sofia_compact`."""
    parts, rows = [], model.horizon
    for r, capacity in enumerate(model.capacity):
        high, unit, amount = (1, "1", "share") if shares else (capacity, "unit", "units")
        text = f"row t: {amount} of resource {r} held t steps ahead"
        parts.append(Field(f"occupied.{r}", (rows, 1), 0, high, unit, text))
        parts += [
            Field(
                f"slot.{slot}.{r}", (rows, 1), 0, high, unit,
                f"{amount} of resource {r} that the task in slot {slot} asks for, in as many rows "
                "as it takes steps; zeros: empty",
            )
            for slot in range(model.slots)
        ]  # fmt: skip
    text = "ones, row by row: tasks behind the slots"
    parts.append(Field("backlog", (rows, _backlog_columns(model)), 0, 1, "1", text))
    return ObservationSchema(NAMES[shares], tuple(parts), _dimensions(model), rows)


class SofiaCompact:
    """The columns of numbered slots, in units; see `sofia_compact`."""

    of_slots = True
    shares = False

    def __init__(self, tracker: SlotsSeen) -> None:
        """Look at slots that their owner keeps up to date."""
        self._tracker = tracker
        self.schema = sofia_schema(tracker.model, shares=self.shares)

    def reset(self, info: SystemInfo) -> None:
        """Do nothing: what is seen is the tracker's."""

    def encode(self, state: State) -> Numbers:
        """Return (H, W) float32."""
        return sofia_compact(self._tracker.view(), self._tracker.model, shares=self.shares)


class SofiaShares(SofiaCompact):
    """The columns of numbered slots, in shares of the capacity; see `sofia_compact`."""

    shares = True


def _backlog_columns(model: Slotted) -> int:
    return -(-model.backlog_shown // model.horizon)


def _dimensions(model: Slotted) -> dict[str, object]:
    """Return all that shapes and scales depend on."""
    names = ("capacity", "slots", "horizon", "backlog_shown")
    return {name: getattr(model, name) for name in names}
