"""Builds the power models of a scenario's machines and its power usage effectiveness.

In a pool the scenario describes one processor; the pool's power is a multiple of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from simkit.errors import ScenarioError, SimkitError, did_you_mean
from simkit.power.machine_model import ConstantPue, Curve, CurvedPue, PowerModel, Pue
from simkit.power.signal import Signal
from simkit.scenario.machine_power import (
    GroupedMachines,
    LinearMachine,
    PueCurve,
    ResourceMachine,
    TableMachine,
)
from simkit.scenario.signals import Signal as SignalSection
from simkit.workload.cluster import Cluster

_PROCESSORS: Final = "processors"
_USUAL: Final = ("cpu", _PROCESSORS)
"""Resources whose use draws power if a scenario names none."""
_DEFAULT: Final = "default"
"""The group of all machines that are in no other."""

Rows = tuple[int, ...]
Machine = LinearMachine | TableMachine | ResourceMachine


def build_models(section: Machine | GroupedMachines, cluster: Cluster) -> tuple[PowerModel, ...]:
    """Return (M,) the model of each machine; machines of one kind share one.

    A machine without a resource of its model draws no power for that resource.

    Raises ScenarioError with all problems: an unknown group, a machine in no group, a resource that
    none of the machines has.
    """
    problems: list[str] = []
    models: dict[int, PowerModel] = {}
    for place, machine, rows in _groups_of(section, cluster, problems):
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


def _groups_of(
    section: Machine | GroupedMachines, cluster: Cluster, problems: list[str]
) -> Iterator[tuple[str, Machine, Rows]]:
    """Yield (dotted place, what a machine draws, rows of these machines)."""
    if not isinstance(section, GroupedMachines):
        yield "power.machines", section, tuple(range(len(cluster.machine_names)))
        return
    rows_of = _rows_by_name(cluster)
    numbered = {name for name in cluster.machine_names if name.rpartition("-")[2].isdecimal()}
    taken: dict[int, str] = {}
    for name, machine in section.groups.items():
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
    if _DEFAULT in section.groups and rest:
        yield f"power.machines.groups.{_DEFAULT}", section.groups[_DEFAULT], rest


def _rows_by_name(cluster: Cluster) -> dict[str, Rows]:
    """Return name → rows of a machine, or of a group whose machines are NAME-0, NAME-1, …."""
    found: dict[str, list[int]] = {}
    for row, name in enumerate(cluster.machine_names):
        found.setdefault(name, []).append(row)
        if match := re.fullmatch(r"(.+)-\d+", name):
            found.setdefault(match[1], []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def _models_of(section: Machine, rows: Rows, cluster: Cluster) -> dict[int, PowerModel]:
    """Return row → model; machines with the same resources share one."""
    model = _model(section, cluster)
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


def _model(section: Machine, cluster: Cluster) -> PowerModel:
    """Return the model of one machine, or of all processors of a pool."""
    facts: dict[str, Any] = {
        "off_w": section.off_w,
        "boot_s": section.boot,
        "boot_w": section.boot_w,
        "shutdown_s": section.shutdown,
    }
    if isinstance(section, ResourceMachine):
        _check_known(section.per_resource, cluster)
        model = PowerModel.per_resource(section.idle_w, section.per_resource, **facts)
    elif isinstance(section, TableMachine):
        model = PowerModel.table(section.table, _resource(section.resource, cluster), **facts)
    else:
        resource = _resource(section.resource, cluster)
        model = PowerModel.linear(section.idle_w, section.full_w, resource, **facts)
    pool = len(cluster.machine_names) == 1 and _PROCESSORS in cluster.resources
    processors = cluster.capacity[0, cluster.resources.index(_PROCESSORS)] if pool else 1.0
    return _times(model, float(processors))


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
    curves = [Curve(c.utilisation, tuple(number * w for w in c.watts)) for c in model.curves]
    return replace(
        model,
        idle_w=number * model.idle_w,
        off_w=number * model.off_w,
        boot_w=None if model.boot_w is None else number * model.boot_w,
        curves=tuple(curves),
    )


def _restricted(model: PowerModel, kept: tuple[bool, ...]) -> PowerModel:
    """Return the model with only the marked ones of its resources."""
    if all(kept):
        return model
    pairs = zip(model.resources, model.curves, kept, strict=True)
    left = [(resource, curve) for resource, curve, keep in pairs if keep]
    return replace(model, resources=tuple(r for r, _ in left), curves=tuple(c for _, c in left))


def build_pue(
    section: PueCurve, full_w: float, temperature: Callable[[SignalSection, str], Signal]
) -> Pue:
    """Return the power usage effectiveness.

    Args:
        section: of the scenario.
        full_w: what all machines draw when busy, in W: load 1 unless the scenario says otherwise.
        temperature: makes a signal of temperature from a section and its dotted place.

    Raises ScenarioError or TraceError if the signal cannot be made.
    """
    if section.by_load is None:
        return ConstantPue(1.0 if section.ratio is None else section.ratio)
    outside = section.temperature
    return CurvedPue(
        full_w if section.rated_w is None else section.rated_w,
        section.by_load,
        None if outside is None else temperature(outside, "power.pue.temperature"),
        section.added_by_temperature or {},
    )
