"""The scenario's `power.machines` and `power.pue`: what machines draw, and what is added to it.

In a pool the scenario describes one processor; the pool's power is a multiple of it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite, nan
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from simkit.errors import ScenarioError, SimkitError, did_you_mean
from simkit.power.facts import TEMPERATURE, Switching
from simkit.scenario.signals import Signal, SignalContext
from simkit.sections import (
    AtLeastZero,
    BrokenRulesError,
    Finite,
    KeyProblem,
    Many,
    Positive,
    Section,
    SectionName,
)

if TYPE_CHECKING:
    from simkit.power.machine_model import PowerModel, Pue
    from simkit.workload.cluster import Cluster

Rows = tuple[int, ...]
Part = tuple[str, "MachineFacts", Rows]
"""Dotted place, what a machine draws, rows of these machines."""


class MachineFacts(Switching, ABC):
    """Keys of every machine; they describe one machine, in a pool one processor."""

    @abstractmethod
    def model(self, cluster: Cluster) -> PowerModel:
        """Return the model of one machine; raises ScenarioError for what no machine has."""

    @property
    def _standing(self) -> dict[str, Any]:
        """What every model takes."""
        return {key: getattr(self, key) for key in Switching.model_fields}

    def build(self, cluster: Cluster) -> tuple[PowerModel, ...]:
        """Return (M,) the model of each machine, as `_built` does."""
        rows = tuple(range(len(cluster.machine_names)))
        return _built([("power.machines", self, rows)], cluster, [])


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

    def model(self, cluster: Cluster) -> PowerModel:
        from simkit.power.machine_model import PowerModel

        resource = _resource(self.resource, cluster)
        return PowerModel.linear(self.idle_w, self.full_w, resource, **self._standing)


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

    def model(self, cluster: Cluster) -> PowerModel:
        from simkit.power.machine_model import PowerModel

        return PowerModel.table(self.table, _resource(self.resource, cluster), **self._standing)


class ResourceMachine(MachineFacts):
    """Power to which each resource adds when it is used."""

    idle_w: AtLeastZero
    """Power when on and empty."""
    per_resource: dict[str, AtLeastZero]
    """Resource → W that it adds when all of it is in use: {cpu: 150, gpu: 300}."""

    def model(self, cluster: Cluster) -> PowerModel:
        from simkit.power.machine_model import PowerModel

        _check_known(self.per_resource, cluster)
        return PowerModel.per_resource(self.idle_w, self.per_resource, **self._standing)


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

    def build(self, cluster: Cluster) -> tuple[PowerModel, ...]:
        """Return (M,) the model of each machine, as `_built` does."""
        problems: list[str] = []
        return _built(self._parts(cluster, problems), cluster, problems)

    def _parts(self, cluster: Cluster, problems: list[str]) -> Iterator[Part]:
        rows_of = _rows_by_name(cluster)
        numbered = {name for name in cluster.machine_names if name.rpartition("-")[2].isdecimal()}
        taken: dict[int, str] = {}
        for name, machine in self.groups.items():
            place = f"power.machines.groups.{name}"
            if name == _DEFAULT:
                continue
            if name not in rows_of:
                known = did_you_mean(name, [group for group in rows_of if group not in numbered])
                problems.append(f"{place}: there is no such group of machines{known}")
                continue
            rows = tuple(row for row in rows_of[name] if row not in taken)
            taken |= dict.fromkeys(rows, name)
            yield place, machine, rows
        rest = tuple(row for row in range(len(cluster.machine_names)) if row not in taken)
        if _DEFAULT in self.groups and rest:
            yield f"power.machines.groups.{_DEFAULT}", self.groups[_DEFAULT], rest


Machines = Annotated[_OneKind | Annotated[GroupedMachines, Tag(GROUPED)], Discriminator(_form)]
"""One kind of machine, or several by group."""


def _points(value: object) -> object:
    """Return number → number from a mapping whose keys are text in YAML."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"must be points such as {{0: 1.6, 1: 1.2}}, not {value!r}")
    problems: list[KeyProblem] = []
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
        problems: list[KeyProblem] = []
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

    def build(self, full_w: float, context: SignalContext) -> Pue:
        """Return the power usage effectiveness; machines draw `full_w` W when all are busy.

        Raises ScenarioError or TraceError if the signal of the temperature cannot be made.
        """
        from simkit.power.machine_model import ConstantPue, CurvedPue

        if self.by_load is None:
            return ConstantPue(1.0 if self.ratio is None else self.ratio)
        outside = None
        if self.temperature is not None:
            context = replace(context, ahead_s=0.0)
            outside = context.covered(self.temperature, "power.pue.temperature", TEMPERATURE)
        rated_w = full_w if self.rated_w is None else self.rated_w
        return CurvedPue(rated_w, self.by_load, outside, self.added_by_temperature or {})


# --- models of machines ---------------------------------------------------------------------------

_PROCESSORS: Final = "processors"
_USUAL: Final = ("cpu", _PROCESSORS)
"""Resources whose use draws power if a scenario names none."""
_DEFAULT: Final = "default"
"""The group of all machines that are in no other."""


def _built(parts: Iterable[Part], cluster: Cluster, problems: list[str]) -> tuple[PowerModel, ...]:
    """Return (M,) the model of each machine; machines of one kind share one.

    A machine without a resource of its model draws no power for that resource.

    Raises ScenarioError with all problems, also those given: an unknown group, a machine in no
    group, a resource that none of the machines has.
    """
    models: dict[int, PowerModel] = {}
    for place, machine, rows in parts:
        try:
            models |= _models_of(machine, rows, cluster)
        except SimkitError as error:
            problems += [f"{place}: {line}" for line in str(error).splitlines()]
    missing = [n for row, n in enumerate(cluster.machine_names) if row not in models]
    if missing and not problems:
        problems.append(
            f"power.machines.groups: no group has machine {missing[0]!r}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + "; add a group default"
        )
    if problems:
        raise ScenarioError(problems)
    return tuple(models[row] for row in range(len(cluster.machine_names)))


def _rows_by_name(cluster: Cluster) -> dict[str, Rows]:
    """Return name → rows of a machine, or of a group whose machines are NAME-0, NAME-1, …."""
    found: dict[str, list[int]] = {}
    for row, name in enumerate(cluster.machine_names):
        found.setdefault(name, []).append(row)
        if match := re.fullmatch(r"(.+)-\d+", name):
            found.setdefault(match[1], []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def _models_of(section: MachineFacts, rows: Rows, cluster: Cluster) -> dict[int, PowerModel]:
    """Return row → model; machines with the same resources share one."""
    pool = len(cluster.machine_names) == 1 and _PROCESSORS in cluster.resources
    processors = cluster.capacity[0, cluster.resources.index(_PROCESSORS)] if pool else 1.0
    model = _times(section.model(cluster), float(processors))
    columns = [cluster.resources.index(name) for name in model.resources]
    has = cluster.capacity[:, columns] > 0
    lacking = [
        name for r, name in enumerate(model.resources) if not any(has[row, r] for row in rows)
    ]
    if lacking:
        largest = cluster.capacity[list(rows)].max(axis=0).tolist()
        present = [n for n, most in zip(cluster.resources, largest, strict=True) if most > 0]
        raise ScenarioError(
            f"draws power for {', '.join(map(repr, lacking))}, which these machines lack; "
            f"they have {', '.join(present)}"
        )
    variants: dict[tuple[bool, ...], PowerModel] = {}
    found = {}
    for row in rows:
        kept = tuple(has[row].tolist())
        if kept not in variants:
            variants[kept] = _restricted(model, kept)
        found[row] = variants[kept]
    return found


def _resource(name: str | None, cluster: Cluster) -> str:
    """Return the resource whose use draws power."""
    if name is not None:
        _check_known([name], cluster)
        return name
    usual = [resource for resource in _USUAL if resource in cluster.resources]
    if not usual and len(cluster.resources) > 1:
        raise ScenarioError(
            f"resource: the machines have {', '.join(cluster.resources)}; name the one whose use "
            "draws power"
        )
    return usual[0] if usual else cluster.resources[0]


def _check_known(names: Iterable[str], cluster: Cluster) -> None:
    unknown = [name for name in names if name not in cluster.resources]
    if unknown:
        raise ScenarioError(
            f"draws power for {name!r}, which no machine has{did_you_mean(name, cluster.resources)}"
            for name in unknown
        )


def _times(model: PowerModel, number: float) -> PowerModel:
    """Return the model of several machines together."""
    if number == 1.0:
        return model
    curves = [replace(c, watts=tuple(number * w for w in c.watts)) for c in model.curves]
    return replace(
        model,
        idle_w=number * model.idle_w,
        switching=model.switching.scaled(number),
        curves=tuple(curves),
    )


def _restricted(model: PowerModel, kept: tuple[bool, ...]) -> PowerModel:
    """Return the model with only the marked ones of its resources."""
    if all(kept):
        return model
    pairs = zip(model.resources, model.curves, kept, strict=True)
    left = [(resource, curve) for resource, curve, keep in pairs if keep]
    return replace(model, resources=tuple(r for r, _ in left), curves=tuple(c for _, c in left))
