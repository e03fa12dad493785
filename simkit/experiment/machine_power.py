"""What the machines of a scenario draw: a power model for each, and the power usage effectiveness.

In a pool the scenario tells the power of one processor; the pool draws so many times as much.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from simkit.errors import ScenarioError, SimkitError, did_you_mean
from simkit.power.machine_model import ConstantPue, Curve, CurvedPue, PowerModel, Pue
from simkit.power.signal import Signal
from simkit.scenario.machine_power import (
    GroupedMachines,
    LinearMachine,
    MachineFacts,
    PueCurve,
    ResourceMachine,
    TableMachine,
)
from simkit.scenario.signals import Signal as SignalSection
from simkit.workload.cluster import Cluster

PROCESSORS: Final = "processors"
USUAL: Final = ("cpu", PROCESSORS)
"""Resources whose use draws power where a scenario names none."""
DEFAULT: Final = "default"
"""The group of all machines that are in no other."""

Rows = tuple[int, ...]


def build_models(
    section: LinearMachine | TableMachine | ResourceMachine | GroupedMachines, cluster: Cluster
) -> tuple[PowerModel, ...]:
    """Return (M,) the model of each machine; machines of a kind share one.

    Where a machine has nothing of a resource that its model draws power by, it draws none by that.

    Raises ScenarioError with all that is wrong: a group that does not exist, machines in none, a
    resource that none of the machines has.
    """
    problems: list[str] = []
    models: dict[int, PowerModel] = {}
    for place, machine, rows in _of_rows(section, cluster, problems):
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


def _of_rows(
    section: LinearMachine | TableMachine | ResourceMachine | GroupedMachines,
    cluster: Cluster,
    problems: list[str],
) -> Iterator[tuple[str, LinearMachine | TableMachine | ResourceMachine, Rows]]:
    """Yield (dotted place, what a machine draws, which machines)."""
    if not isinstance(section, GroupedMachines):
        yield "power.machines", section, tuple(range(len(cluster.machine_names)))
        return
    rows_of = _groups(cluster)
    numbered = {name for name in cluster.machine_names if name.rpartition("-")[2].isdecimal()}
    taken: dict[int, str] = {}
    for name, machine in section.groups.items():
        place = f"power.machines.groups.{name}"
        if name == DEFAULT:
            continue
        if name not in rows_of:
            known = did_you_mean(name, [group for group in rows_of if group not in numbered])
            problems.append(f"{place}: no group of machines is called so{known}")
            continue
        rows = tuple(row for row in rows_of[name] if row not in taken)
        taken |= dict.fromkeys(rows, name)
        yield place, machine, rows
    rest = tuple(row for row in range(len(cluster.machine_names)) if row not in taken)
    if DEFAULT in section.groups and rest:
        yield f"power.machines.groups.{DEFAULT}", section.groups[DEFAULT], rest


def _groups(cluster: Cluster) -> dict[str, Rows]:
    """Return name of a machine or of a group, whose machines are NAME-0, NAME-1, … → rows."""
    found: dict[str, list[int]] = {}
    for row, name in enumerate(cluster.machine_names):
        found.setdefault(name, []).append(row)
        if match := re.fullmatch(r"(.+)-\d+", name):
            found.setdefault(match[1], []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def _models_of(
    section: LinearMachine | TableMachine | ResourceMachine, rows: Rows, cluster: Cluster
) -> dict[int, PowerModel]:
    """Return row → model, of machines that draw alike as far as they have the same resources."""
    model = _model(section, cluster)
    columns = [cluster.resources.index(name) for name in model.resources]
    has = cluster.capacity[:, columns] > 0
    lacking = [
        name for r, name in enumerate(model.resources) if not any(has[row, r] for row in rows)
    ]
    if lacking:
        raise ScenarioError(
            f"draws power by {', '.join(map(repr, lacking))}, of which these machines have none; "
            f"they have {', '.join(_resources_of(rows, cluster))}"
        )
    variants: dict[tuple[bool, ...], PowerModel] = {}
    found = {}
    for row in rows:
        kept = tuple(has[row].tolist())
        if kept not in variants:
            variants[kept] = _with(model, kept)
        found[row] = variants[kept]
    return found


def _model(section: LinearMachine | TableMachine | ResourceMachine, cluster: Cluster) -> PowerModel:
    """Return the model of one machine, or of all processors of a pool."""
    facts = _facts(section)
    if isinstance(section, ResourceMachine):
        _known(section.per_resource, cluster)
        model = PowerModel.per_resource(section.idle_w, section.per_resource, **facts)
    elif isinstance(section, TableMachine):
        model = PowerModel.table(section.table, _resource(section.resource, cluster), **facts)
    else:
        resource = _resource(section.resource, cluster)
        model = PowerModel.linear(section.idle_w, section.full_w, resource, **facts)
    return _times(model, _processors(cluster))


def _facts(section: MachineFacts) -> dict[str, Any]:
    return {
        "off_w": section.off_w,
        "boot_s": section.boot,
        "boot_w": section.boot_w,
        "shutdown_s": section.shutdown,
    }


def _resource(name: str | None, cluster: Cluster) -> str:
    """Return the resource whose use draws power."""
    if name is not None:
        _known([name], cluster)
        return name
    usual = [resource for resource in USUAL if resource in cluster.resources]
    if not usual and len(cluster.resources) > 1:
        raise ScenarioError(
            f"resource: the machines have {', '.join(cluster.resources)}; say by the use of which "
            "they draw power"
        )
    return usual[0] if usual else cluster.resources[0]


def _known(names: Mapping[str, float] | list[str], cluster: Cluster) -> None:
    unknown = [name for name in names if name not in cluster.resources]
    if unknown:
        raise ScenarioError(
            f"draws power by {name!r}, which no machine has{did_you_mean(name, cluster.resources)}"
            for name in unknown
        )


def _resources_of(rows: Rows, cluster: Cluster) -> list[str]:
    largest = cluster.capacity[list(rows)].max(axis=0)
    return [n for n, most in zip(cluster.resources, largest.tolist(), strict=True) if most > 0]


def is_pool(cluster: Cluster) -> bool:
    """Tell whether a cluster is a pool: one machine, made of processors without boundaries."""
    return len(cluster.machine_names) == 1 and PROCESSORS in cluster.resources


def _processors(cluster: Cluster) -> float:
    """Return by how much the power of what the scenario describes is multiplied."""
    if not is_pool(cluster):
        return 1.0
    return float(cluster.capacity[0, cluster.resources.index(PROCESSORS)])


def _times(model: PowerModel, number: float) -> PowerModel:
    """Return the model of so many machines together."""
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


def _with(model: PowerModel, kept: tuple[bool, ...]) -> PowerModel:
    """Return the model with the marked ones of its resources."""
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
        section: what the scenario says.
        full_w: what all machines draw when busy, in W: load 1 where the scenario says nothing else.
        temperature: makes a signal of temperature of a section and its dotted place.

    Raises ScenarioError or TraceError if the signal is not there.
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
