"""What a run folder must hold to be read: types in run.json, types and numbers of its tables.

A run folder may come from a stranger, or have been edited. Whoever reads a run that passed these
checks may count on what `simkit.records` says of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args

import polars as pl

from simkit.files import check_texts
from simkit.results.metric import CUSTOM, Better, entries
from simkit.sections import shown
from simkit.text import printable
from simkit.units import ENDLESS_S

LARGEST: Final = 1e100
"""Numbers of a run are below, so that sums and squares of them are finite."""


STATUSES: Final = ("complete", "incomplete", "interrupted", "failed", "stopped")


_NUMBER: Final = (int, float)
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "name": str, "status": str, "error": (str, NoneType), "digest": (str, NoneType),
    "seed": int, "jobs": int, "decisions": int,
    "epoch_s": (*_NUMBER, NoneType), "time_zone": (str, NoneType),
    "versions": dict, "warnings": list, "trace": dict, "trace.read": int, "trace.accepted": int,
    "trace.repaired": dict, "trace.repaired.*": int, "trace.dropped": dict, "trace.dropped.*": int,
    "inputs": list, "inputs.*": dict, "inputs.*.path": str, "inputs.*.sha256": str,
    "cluster": dict, "cluster.resources": list, "cluster.resources.*": str,
    "cluster.machines": list, "cluster.machines.*": dict, "cluster.machines.*.id": int,
    "cluster.machines.*.capacity": dict, "cluster.machines.*.capacity.*": _NUMBER,
    "estimates": (dict, NoneType), "estimates.name": str,
    "power": dict, "power.epoch_s": (*_NUMBER, NoneType), "power.zone": (str, NoneType),
    "scenario": dict, "scenario.name": str, "scenario.policy": (dict, str, NoneType),
    "scenario.policy.agent": str, "scenario.policy.model": str, "scenario.policy.lookahead": list,
    "scenario.policy.lookahead.*": dict, "scenario.policy.lookahead.*.agent": str,
    "scenario.policy.lookahead.*.model": str, "scenario.policy.recorded": dict,
    "scenario.policy.start": (dict, str), "scenario.policy.switch": list,
    "scenario.policy.switch.*": dict, "scenario.policy.switch.*.to": (dict, str),
    "scenario.policy.switch.*.at": (*_NUMBER, str), "recorded": dict,
    "scenario.metrics": (dict, NoneType), "scenario.metrics.custom": list,
    "scenario.metrics.custom.*": str,
    "scenario.workload": (dict, NoneType), "scenario.workload.path": (str, NoneType),
    "scenario.cluster": (dict, NoneType), "scenario.cluster.maintenance": (list, NoneType),
    "scenario.cluster.maintenance.*": dict,
    "scenario.power": (dict, NoneType), "scenario.power.supply": (dict, NoneType),
    "scenario.power.battery": (dict, NoneType), "scenario.power.battery.capacity_kwh": _NUMBER,
    "scenario.power.battery.charge_efficiency": _NUMBER,
    "scenario.power.battery.discharge_efficiency": _NUMBER,
    "scenario.power.battery.initial_soc": _NUMBER, "scenario.power.battery.floor": _NUMBER,
    "scenario.power.battery.ceiling": _NUMBER,
}  # fmt: skip
"""What is read of run.json, by dotted key → its type; ``*`` is any row of a list or any key."""
_NEEDED: Final = {
    "cluster": ("resources", "machines"),
    "cluster.machines.*": ("id", "capacity"),
    "inputs.*": ("path", "sha256"),
    "scenario.power.battery": (
        "capacity_kwh", "charge_efficiency", "discharge_efficiency", "initial_soc", "floor",
        "ceiling",
    ),
}  # fmt: skip
"""Keys that a section has if it is there."""
_NAMES: Final[dict[type, str]] = {
    str: "text", int: "a whole number", float: "a number", dict: "an object", list: "a list",
    NoneType: "null",
}  # fmt: skip
_LIMITS: Final = ("requested_time_s", "estimate_s", "corrected_estimate_s", "deadline_s")
"""Columns of times that are infinite where there is no limit."""


def _kind_of(kind: pl.DataType) -> str:
    """Return the name of a type as the records have it; all numbers may be read as Float64."""
    if kind.is_integer():
        return "Int64"
    return "Float64" if kind.is_numeric() else str(kind)


def wrong_columns(path: Path, meanings: Mapping[str, str]) -> str:
    """Return what is wrong with the types or values of a table; empty if nothing is."""
    frame = pl.scan_parquet(path, glob=False)
    schema = frame.collect_schema()
    for name, kind in schema.items():
        wanted = meanings.get(name, "")
        ids = name in ("job_id", "task_id") or (name in meanings and not wanted)
        allowed = [t for t in ("Float64", "Int64", "String", "Boolean") if t in wanted]
        allowed = ["Int64", "String"] if ids else allowed
        allowed += ["Int64"] if "Float64" in allowed else []
        if allowed and kind != pl.Null and _kind_of(kind) not in allowed:
            return f"column {name} is {kind}, it must be {' or '.join(allowed)}"
    numbers = [name for name, kind in schema.items() if kind.is_float()]
    texts = [name for name, kind in schema.items() if kind == pl.String]
    found = frame.select(
        *(pl.col(n).is_nan().any().alias(f"nan {n}") for n in numbers),
        *(pl.col(n).abs().max().alias(f"max {n}") for n in numbers),
        pl.lit(0),
    ).collect()
    facts = found.row(0, named=True)
    for name in numbers:
        most = facts[f"max {name}"]
        if facts[f"nan {name}"]:
            return f"column {printable(name)} holds NaN, which is no number"
        bound = ENDLESS_S if name.endswith("_s") else LARGEST
        endless = most == math.inf and name in _LIMITS
        if most is not None and most > bound and not endless:
            return f"column {printable(name)} holds {most:g}, which is beyond any run's"
    if texts:
        check_texts(path)
    return ""


MOST_WRONG: Final = 20
"""Wrong types that are reported at once."""


def wrong_types(info: Mapping[str, Any]) -> Iterator[str]:
    """Yield which values of run.json have another type than simkit gives them, a line each."""
    for pattern, kinds in _TYPES.items():
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        for key, value in _entries(info, pattern.split(".")):
            too_large = type(value) is int and value.bit_length() > 63
            if type(value) not in allowed or too_large:
                names = " or ".join(dict.fromkeys(_NAMES[kind] for kind in allowed))
                where = printable(key)
                yield f"{where} is {shown(value)}, it must be {names}; run the scenario again"
    for pattern, keys in _NEEDED.items():
        for key, value in _entries(info, pattern.split(".")):
            if isinstance(value, dict) and (missing := [k for k in keys if k not in value]):
                yield f"{printable(key)} has no {', '.join(missing)}; run the scenario again"
    if isinstance(status := info.get("status", STATUSES[0]), str) and status not in STATUSES:
        yield f"status is {shown(status)}, it must be one of {', '.join(STATUSES)}"
    if isinstance(cluster := info.get("cluster"), dict) and cluster.get("resources") == []:
        yield "cluster.resources is [], it must name a resource; run the scenario again"


def _entries(value: Any, steps: list[str], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of what stands at the steps, if anything does."""
    if not steps:
        yield above.removeprefix("."), value
        return
    first, *rest = steps
    if isinstance(value, list) and first == "*":
        parts: Any = enumerate(value)
    elif isinstance(value, dict):
        parts = value.items() if first == "*" else [(first, value[first])] if first in value else ()
    else:
        parts = ()  # reported as of the wrong type itself
    for key, part in parts:
        yield from _entries(part, rest, f"{above}.{key}")


def wrong_metric(metrics: Mapping[str, Any]) -> str:
    """Return what is wrong with the metrics of a run; empty if nothing is."""
    custom = metrics.get(CUSTOM, {})
    if not isinstance(custom, dict):
        return f"{CUSTOM} is {shown(custom)}, it must be metrics by name"
    for name, metric in entries(metrics).items():
        if not isinstance(metric, dict):
            return f"{printable(name)} is {shown(metric)}, it must be numbers with their unit"
        for key, value in metric.items():
            if not isinstance(value, str if key in _WORDS else (int, float, NoneType)):
                kind = "text" if key in _WORDS else "a number"
                return f"{printable(name)}.{printable(key)} is {shown(value)}, it must be {kind}"
        if metric.get("better", "high") not in get_args(Better):
            return f"{printable(name)}.better is {shown(metric['better'])}, it must be high or low"
    return ""


_WORDS: Final = ("unit", "formula", "window", "better", "source", "sha256", "error")
"""Keys of a metric that are text."""
