"""Observations: a state as an array of numbers, for agents; encoders by name, alone or joined.

    encoder = make_encoder("queue-table", info, arguments={"slots": 20})
    encoder.reset(info)                   # a run begins
    numbers = encoder.encode(state)       # float32, of encoder.schema.shape

Names joined by ``+`` make one vector of several: ``deeprm-compact+resource-time``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simkit.errors import ScenarioError
from simkit.learning.encoder import Encoder, Numbers
from simkit.learning.observe_deeprm import DeeprmCompact, DeeprmImage
from simkit.learning.observe_pairs import FitnessPairs
from simkit.learning.observe_power import PowerForecast
from simkit.learning.observe_queue import MachineSet, QueueSet, QueueTable, ResourceTime
from simkit.learning.observe_slots import SlotSet
from simkit.learning.observe_sofia import SofiaCompact, SofiaShares
from simkit.learning.schema import Field, ObservationSchema
from simkit.learning.slotted_tracker import SlottedTracker
from simkit.plugins import find_in_table, instantiate
from simkit.policy import State, SystemInfo

__all__ = ["ENCODERS", "Encoder", "JoinedEncoder", "ObservationSchema", "make_encoder"]

ENCODERS: Mapping[str, type[Encoder]] = {
    "deeprm-image": DeeprmImage,
    "deeprm-compact": DeeprmCompact,
    "slot-set": SlotSet,
    "sofia-compact": SofiaCompact,
    "sofia-shares": SofiaShares,
    "queue-table": QueueTable,
    "queue-set": QueueSet,
    "machine-set": MachineSet,
    "fitness-pairs": FitnessPairs,
    "resource-time": ResourceTime,
    "power-forecast": PowerForecast,
}
"""Encoders by name."""


def make_encoder(
    name: str,
    info: SystemInfo,
    tracker: SlottedTracker | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Encoder:
    """Return the encoder that a name stands for.

    Args:
        name: one of `ENCODERS`, ``module:attribute``, or several joined by ``+``.
        info: the system to observe.
        tracker: the slots to observe, for encoders of a slotted model.
        arguments: the encoder's other arguments; for several, a mapping for each name.

    Raises ScenarioError or PluginError for an unknown name, for arguments that the encoder does not
    take, and for an encoder of slots without a tracker.
    """
    names, given = name.split("+"), dict(arguments or {})
    if len(names) == 1:
        return _make_one(name, info, tracker, given)
    for other in given:
        if other not in names or not isinstance(given[other], Mapping):
            raise ScenarioError(
                f"observation {name}: arguments are given for {other!r}, which is not a part; "
                f"write {{{names[0]}: {{…}}}}"
            )
    return JoinedEncoder([_make_one(one, info, tracker, given.get(one, {})) for one in names])


def _make_one(
    name: str, info: SystemInfo, tracker: SlottedTracker | None, arguments: Mapping[str, Any]
) -> Encoder:
    maker = find_in_table("an observation", ENCODERS, name)
    what = f"observation {name!r}"
    own = [word for word in ("info", "tracker") if word in arguments]
    if own:
        raise ScenarioError(f"{what}: {own[0]} is given by simkit; leave it out")
    if not getattr(maker, "of_slots", False):
        encoder: Encoder = instantiate(what, maker, {"info": info, **arguments})
        return encoder
    if tracker is None:
        raise ScenarioError(
            f"{what} shows numbered slots, which only slotted time has; take queue-table, or add "
            "`scheduling: {step: 1s}` and `admission: {slots: 10}` for one pool of machines"
        )
    of_slots: Encoder = instantiate(what, maker, {"tracker": tracker, **arguments})
    return of_slots


class JoinedEncoder:
    """Several encoders side by side: one vector of all their numbers."""

    def __init__(self, parts: Sequence[Encoder]) -> None:
        """Join encoders; raises ScenarioError for none, or for two of one name."""
        self._parts = tuple(parts)
        names = [part.schema.name for part in self._parts]
        self.schema = ObservationSchema(
            "+".join(names),
            tuple(
                Field(f"{part.schema.name}.{f.name}", f.shape, f.low, f.high, f.unit, f.text)
                for part in self._parts
                for f in _as_flattened(part.schema)
            ),
            {part.schema.name: dict(part.schema.parameters) for part in self._parts},
        )

    def reset(self, info: SystemInfo) -> None:
        for part in self._parts:
            part.reset(info)

    def encode(self, state: State) -> Numbers:
        return np.concatenate([part.encode(state).reshape(-1) for part in self._parts])


def _as_flattened(schema: ObservationSchema) -> tuple[Field, ...]:
    """Return a schema's fields in C order; an image is one field, because its rows mix fields."""
    if schema.rows is None:
        return schema.fields
    low, high = min(f.low for f in schema.fields), max(f.high for f in schema.fields)
    columns = "; ".join(f"{f.name} {begin}–{end - 1}" for f, begin, end in schema.places())
    unit = schema.fields[0].unit
    return (Field("image", schema.shape, low, high, unit, f"row by row; columns: {columns}"),)
