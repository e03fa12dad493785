"""Observations: a state as an array of numbers, for agents; encoders by name, alone or joined.

    encoder = make_encoder("queue-table", info, arguments={"slots": 20})
    encoder.reset(info)                   # a run begins
    numbers = encoder.encode(state)       # float32, of encoder.schema.shape

Names joined by ``+`` make one vector of several: ``deeprm-compact+resource-time``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.learning.schema import Field, ObservationSchema
from simkit.learning.slotted import Slotted, SlottedView
from simkit.plugins import find_in_table, instantiate
from simkit.policy import State, SystemInfo

Numbers = npt.NDArray[np.float32]

__all__ = [
    "ENCODERS",
    "Encoder",
    "Field",
    "JoinedEncoder",
    "Numbers",
    "ObservationSchema",
    "SlotsSeen",
    "make_encoder",
]


class Encoder(Protocol):
    """Turns states into arrays of one shape."""

    schema: ObservationSchema
    """What the numbers mean; known before a run begins, and the same in every run."""

    def reset(self, info: SystemInfo) -> None:
        """Begin a run on a system with the same resources.

        Raises ScenarioError if the observations would not be those of the schema.
        """

    def encode(self, state: State) -> Numbers:
        """Return a fresh array of `schema.shape`, every number in its field's range."""


class SlotsSeen(Protocol):
    """Follows a state in numbered slots; `SlottedTracker` is one.

    Its owner updates it at every decision and after every action, before anything reads it.
    """

    @property
    def model(self) -> Slotted:
        """The dimensions."""

    def view(self) -> SlottedView:
        """Return what is seen now, without leading axes."""


ENCODERS: Mapping[str, str] = {
    "deeprm-image": "simkit.learning.observe_deeprm:DeeprmImage",
    "deeprm-compact": "simkit.learning.observe_deeprm:DeeprmCompact",
    "sofia-compact": "simkit.learning.observe_sofia:SofiaCompact",
    "sofia-shares": "simkit.learning.observe_sofia:SofiaShares",
    "queue-table": "simkit.learning.observe_queue:QueueTable",
    "fitness-pairs": "simkit.learning.observe_pairs:FitnessPairs",
    "resource-time": "simkit.learning.observe_queue:ResourceTime",
}
"""Where each encoder is; its module is loaded when it is asked for."""


def make_encoder(
    name: str,
    info: SystemInfo,
    tracker: SlotsSeen | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Encoder:
    """Return the encoder that a name stands for.

    Args:
        name: one of `ENCODERS`, ``module:attribute``, or several joined by ``+``.
        info: the system it will look at.
        tracker: the slots it will look at, for those of a slotted model.
        arguments: what the encoder takes beside these; of several, a mapping for each name.

    Raises ScenarioError or PluginError for an unknown name, arguments that it does not take, and
    for an encoder of slots where there are none.
    """
    names, given = name.split("+"), dict(arguments or {})
    if len(names) == 1:
        return _make_one(name, info, tracker, given)
    for other in given:
        if other not in names or not isinstance(given[other], Mapping):
            raise ScenarioError(
                f"observation {name}: arguments of {other!r} belong to none of its parts; "
                f"write {{{names[0]}: {{…}}}}"
            )
    return JoinedEncoder([_make_one(one, info, tracker, given.get(one, {})) for one in names])


def _make_one(
    name: str, info: SystemInfo, tracker: SlotsSeen | None, arguments: Mapping[str, Any]
) -> Encoder:
    maker = find_in_table("an observation", ENCODERS, name)
    what = f"observation {name!r}"
    own = [word for word in ("info", "tracker") if word in arguments]
    if own:
        raise ScenarioError(f"{what}: {own[0]} is not given by hand; leave it out")
    if not getattr(maker, "of_slots", False):
        encoder: Encoder = instantiate(what, maker, {"info": info, **arguments})
        return encoder
    if tracker is None:
        raise ScenarioError(f"{what} shows numbered slots; give a slotted model")
    of_slots: Encoder = instantiate(what, maker, {"tracker": tracker, **arguments})
    return of_slots


class JoinedEncoder:
    """Several encoders side by side: one vector of all their numbers."""

    def __init__(self, parts: Sequence[Encoder]) -> None:
        """Join encoders of different names.

        Raises ScenarioError for none, or for two of one name.
        """
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
    """Return the fields of a schema's numbers in C order; an image is one: its rows mix fields."""
    if schema.rows is None:
        return schema.fields
    low, high = min(f.low for f in schema.fields), max(f.high for f in schema.fields)
    columns = "; ".join(f"{f.name} {begin}–{end - 1}" for f, begin, end in schema.places())
    unit = schema.fields[0].unit
    return (Field("image", schema.shape, low, high, unit, f"row by row; columns: {columns}"),)


# MERGED Scaling: amounts, times and counts as numbers between 0 and 1.


def squashed(number: float, scale: float) -> float:
    """Return number / (number + scale): 0 for 0 and less, 1/2 for the scale, below 1 for all."""
    return number / (number + scale) if number > 0 else 0.0


def squashed_column(numbers: Floats, scale: float) -> Floats:
    """Return the same for an array."""
    above = np.maximum(numbers, 0.0)
    column: Floats = above / (above + scale)
    return column


def reciprocal(capacity: Floats) -> Floats:
    """Return 1 / capacity, which turns amounts into shares; 0 where there is no capacity."""
    parts: Floats = np.divide(1.0, capacity, out=np.zeros(capacity.shape), where=capacity > 0)
    return parts


def check_numbers(name: str, whole: Mapping[str, int], scales: Mapping[str, float]) -> None:
    """Raise ScenarioError, all problems at once, for arguments of an encoder that make no sense.

    Args:
        name: of the encoder.
        whole: argument → a count that must be a whole number from 1 on.
        scales: argument → a time or scale that must be finite and above 0.
    """
    problems = [
        f"observation {name!r}: {argument} is {value!r}; it must be a whole number from 1 on"
        for argument, value in whole.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < 1
    ]
    problems += [
        f"observation {name!r}: {argument} is {value!r}; it must be a finite number above 0"
        for argument, value in scales.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < inf
    ]
    if problems:
        raise ScenarioError(problems)


def check_resources(name: str, trained: tuple[str, ...], info: SystemInfo) -> None:
    """Raise ScenarioError if a system's resources are not those of an encoder."""
    if info.resources != trained:
        raise ScenarioError(
            f"observation {name!r} shows the resources {', '.join(trained)}, the cluster has "
            f"{', '.join(info.resources)}; make the encoder for this cluster"
        )
