"""Sofia's compact observation: units held and requested, step by step.

The state of the public code behind "Resource management with deep reinforcement learning" (Sofia,
2021): for each resource a column of the units that are held in each step ahead, then, for each
slot, a column with the units that its task asks for in as many rows as it takes steps; after all
resources the backlog as ones. There, numbers are units (``sofia-compact``); shares of the capacity
(``sofia-shares``) hold the same information and suit first weights of the usual size.

Functions of a `SlottedView` with any leading axes, so that one simulation and many replicas that
advance together see the same numbers.
"""

from __future__ import annotations

import numpy as np

from simkit.learning.encoder import Numbers, SlotEncoder
from simkit.learning.schema import Field, ObservationSchema
from simkit.learning.slotted import Slotted, SlottedView
from simkit.learning.slotted_tracker import SlottedTracker
from simkit.policy import State

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
    columns = model.backlog_columns
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
    """Return the meaning of the columns of `sofia_compact`."""
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
    parts.append(Field("backlog", (rows, model.backlog_columns), 0, 1, "1", text))
    names = ("capacity", "slots", "horizon", "backlog_shown")
    dimensions = {name: getattr(model, name) for name in names}
    return ObservationSchema(NAMES[shares], tuple(parts), dimensions, rows)


class SofiaCompact(SlotEncoder):
    """The columns of numbered slots, in units; see `sofia_compact`."""

    shares = False

    def __init__(self, tracker: SlottedTracker) -> None:
        super().__init__(tracker)
        self.schema = sofia_schema(tracker.model, shares=self.shares)

    def encode(self, state: State) -> Numbers:
        """Return (H, W) float32."""
        return sofia_compact(self.tracker.view(), self.tracker.model, shares=self.shares)


class SofiaShares(SofiaCompact):
    """The columns of numbered slots, in shares of the capacity; see `sofia_compact`."""

    shares = True
