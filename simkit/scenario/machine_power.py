"""The scenario's `power.machines` and `power.pue`: what machines draw, and what is added to it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, nan
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from simkit.scenario.signals import Signal
from simkit.sections import (
    AtLeastZero,
    BrokenRulesError,
    Finite,
    Many,
    Positive,
    Section,
    SectionName,
    TimeSpent,
)


class MachineFacts(Section):
    """Keys of every machine; they describe one machine, in a pool one processor."""

    off_w: AtLeastZero = 0.0
    """Power when switched off."""
    boot: TimeSpent = 0.0
    """Time from switching on to being ready."""
    boot_w: AtLeastZero | None = None
    """Power while booting; null: idle power."""
    shutdown: TimeSpent = 0.0
    """Time from switching off to being off, at idle power."""


class LinearMachine(MachineFacts):
    """Power that rises in a straight line with the use of one resource."""

    idle_w: AtLeastZero
    """Power when on and empty."""
    full_w: AtLeastZero
    """Power when all of the resource is in use."""
    resource: str | None = None
    """The resource; null: cpu or processors, whichever the machines have."""

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.full_w < self.idle_w:
            text = f"must be at least idle_w, {self.idle_w:g}, not {self.full_w:g}"
            raise BrokenRulesError([(("full_w",), text)])
        return self


class TableMachine(MachineFacts):
    """Power measured at equal steps of utilisation, as in results of SPECpower."""

    table: Many[AtLeastZero]
    """W at 0, 10, …, 100 % utilisation; any number of equal steps."""
    resource: str | None = None
    """The resource; null: cpu or processors, whichever the machines have."""

    @model_validator(mode="after")
    def _idle_is_least(self) -> Self:
        if len(self.table) < 2:
            text = "needs at least two numbers; give W at 0, 10, …, 100 %"
            raise BrokenRulesError([(("table",), text)])
        if (least := min(self.table)) < self.table[0]:
            text = f"has {least:g} W in use, below the {self.table[0]:g} W when idle"
            raise BrokenRulesError([(("table",), f"{text}; begin with the idle power")])
        return self


class ResourceMachine(MachineFacts):
    """Power to which each resource adds when it is used."""

    idle_w: AtLeastZero
    """Power when on and empty."""
    per_resource: dict[str, AtLeastZero]
    """Resource → W that it adds when all of it is in use: {cpu: 150, gpu: 300}."""


LINEAR = "{idle_w, full_w}"
TABLE = "{table}"
PER_RESOURCE = "{idle_w, per_resource}"
GROUPED = "{groups}"


def _form(value: object) -> str:
    """Return the form of a machine from its keys or its model."""
    keys = type(value).model_fields if isinstance(value, Section) else value
    forms = {"groups": GROUPED, "table": TABLE, "per_resource": PER_RESOURCE}
    known = keys if isinstance(keys, Mapping) else ()
    return next((form for key, form in forms.items() if key in known), LINEAR)


_OneKind = (
    Annotated[LinearMachine, Tag(LINEAR)]
    | Annotated[TableMachine, Tag(TABLE)]
    | Annotated[ResourceMachine, Tag(PER_RESOURCE)]
)
Machine = Annotated[_OneKind, Discriminator(_form)]
"""What one kind of machine draws."""


class GroupedMachines(Section):
    """Machines of several kinds."""

    groups: dict[SectionName, Machine]
    """Name of a group of machines, or of one machine → what each draws; default: the rest."""


Machines = Annotated[_OneKind | Annotated[GroupedMachines, Tag(GROUPED)], Discriminator(_form)]
"""One kind of machine, or several by group."""


def _points(value: object) -> object:
    """Return number → number from a mapping whose keys are text in YAML."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"must be points such as {{0: 1.6, 1: 1.2}}, not {value!r}")
    problems: list[tuple[tuple[str | int, ...], str]] = []
    found: dict[float, Any] = {}
    for key, number in value.items():
        try:
            place = float(key)
        except (TypeError, ValueError):
            place = nan
        if isfinite(place):
            found[place] = number
        else:
            problems.append(((str(key),), "must be a finite number"))
    if problems:
        raise BrokenRulesError(problems)
    return found


_POINTS_SCHEMA = {"type": "object", "additionalProperties": {"type": "number"}}
Points = Annotated[dict[float, Finite], BeforeValidator(_points), WithJsonSchema(_POINTS_SCHEMA)]
"""Number → number; straight lines between the points."""


LARGEST_PUE = 1000.0
"""No site's; beyond it the energy of machines would vanish in the rounding of the site's."""


class PueCurve(Section):
    """Power usage effectiveness: power of the site over that of its machines."""

    ratio: Annotated[float, Field(ge=1, le=LARGEST_PUE)] | None = None
    """A constant ratio; or give `by_load`."""
    by_load: Points | None = None
    """Load of the machines, 0..1 of `rated_w` → ratio: {0: 1.6, 1: 1.2}."""
    rated_w: Positive | None = None
    """Power of the machines at load 1; null: what all draw when busy."""
    temperature: Signal | None = None
    """Outside temperature in degC."""
    added_by_temperature: Points | None = None
    """Temperature in degC → what is added to the ratio: {20: 0, 35: 0.1}."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {"ratio": value} if number else value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if (self.ratio is None) == (self.by_load is None):
            problems.append(((), "needs either a ratio or by_load; give one of the two"))
        ratios, added = (self.by_load or {}).values(), (self.added_by_temperature or {}).values()
        if not all(ratio >= 1 for ratio in ratios):
            problems.append(
                (("by_load",), "has a ratio below 1; a site draws what its machines do")
            )
        if not all(ratio <= LARGEST_PUE for ratio in ratios):
            problems.append((("by_load",), f"has a ratio above {LARGEST_PUE:g}"))
        if not all(0 <= more <= LARGEST_PUE for more in added):
            text = f"must be at least 0 and at most {LARGEST_PUE:g} everywhere"
            problems.append((("added_by_temperature",), text))
        if (self.temperature is None) != (not self.added_by_temperature):
            problems.append(((), "needs both temperature and added_by_temperature, or neither"))
        if self.temperature is not None and self.by_load is None:
            problems.append((("temperature",), "goes with by_load; write by_load: {0: 1.3}"))
        if problems:
            raise BrokenRulesError(problems)
        return self
