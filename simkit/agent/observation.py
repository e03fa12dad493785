"""Observations: a state as an array of numbers, for agents; encoders by name, alone or joined.

    encoder = make_encoder("queue-table", info, arguments={"slots": 20})
    encoder.reset(info)                   # a run begins
    numbers = encoder.encode(state)       # float32, of encoder.schema.shape

Names joined by ``+`` make one vector of several: ``deeprm-compact+resource-time``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simkit.agent.burst_classes import NAMES
from simkit.agent.encoder import Encoder, Numbers, ObservationSchema
from simkit.agent.observe_slots import SLOT_ENCODERS
from simkit.agent.observe_system import (
    FitnessPairs,
    MachineSet,
    PowerForecast,
    QueueSet,
    QueueTable,
    ResourceTime,
)
from simkit.agent.slotted_tracker import SlottedTracker
from simkit.arrays import Ints
from simkit.errors import ScenarioError
from simkit.plugins import find_in_table, instantiate
from simkit.policy import State, SystemInfo

ENCODERS: Mapping[str, type[Encoder]] = {
    **SLOT_ENCODERS,
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
    if name in NAMES.values():
        raise ScenarioError(
            f"observation {name!r} shows burst classes; give the environment actions='classes'"
        )
    maker = find_in_table("an observation", ENCODERS, name)
    what = f"observation {name!r}"
    own = [word for word in ("info", "tracker") if word in arguments]
    if own:
        raise ScenarioError(f"{what}: {own[0]} is given by simkit; leave it out")
    if not getattr(maker, "of_slots", False):
        encoder: Encoder = instantiate(what, maker, arguments, {"info": info})
        return encoder
    if tracker is None:
        raise ScenarioError(
            f"{what} shows numbered slots, which only slotted time has; take queue-table, or add "
            "`scheduling: {step: 1s}` and `admission: {slots: 10}` for one pool of machines"
        )
    of_slots: Encoder = instantiate(what, maker, arguments, {"tracker": tracker})
    return of_slots


class JoinedEncoder:
    """Several encoders side by side: one vector of all their numbers.

    The fields keep their names, behind that of the encoder, and stand one after another; one of an
    image or a set is flattened row by row.
    """

    def __init__(self, parts: Sequence[Encoder]) -> None:
        """Join encoders; raises ScenarioError for none, or for two of one name."""
        self._parts = tuple(parts)
        schemas = [part.schema for part in self._parts]
        self.schema = ObservationSchema(
            "+".join(schema.name for schema in schemas),
            tuple(
                replace(field, name=f"{schema.name}.{field.name}")
                for schema in schemas
                for field in schema.fields
            ),
            {schema.name: dict(schema.parameters) for schema in schemas},
        )
        begins = np.cumsum([0, *(schema.size for schema in schemas)])
        self._order = np.concatenate(
            [begin + _by_field(s) for begin, s in zip(begins, schemas, strict=False)]
        )

    def reset(self, info: SystemInfo) -> None:
        for part in self._parts:
            part.reset(info)

    def encode(self, state: State) -> Numbers:
        parts = [part.encode(state).reshape(-1) for part in self._parts]
        numbers: Numbers = np.concatenate(parts)[self._order]
        return numbers


def _by_field(schema: ObservationSchema) -> Ints:
    """Return (K,) where the numbers of each field, one after another, stand in C order."""
    places = np.arange(schema.size).reshape(schema.shape)
    return np.concatenate([places[..., a:b].reshape(-1) for _, a, b in schema.places()])
