"""Units of power files: conversion to simkit's units, and the unit that a column name contains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from simkit.errors import TraceError, did_you_mean
from simkit.power.signal import CARBON, PRICE, WATT

HOUR_S: Final = 3600.0


@dataclass(frozen=True)
class FileUnit:
    """A unit of a file."""

    name: str
    """The unit of simkit that it is converted to."""
    factor: float
    """Factor of the conversion."""
    per_interval: bool = False
    """An energy for each interval, to be divided by its length in s."""


_POWER: Final = {"W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9}
UNITS: Final[dict[str, FileUnit]] = {
    **{name: FileUnit(WATT, factor) for name, factor in _POWER.items()},
    **{
        f"{name}h": FileUnit(WATT, factor * HOUR_S, per_interval=True)
        for name, factor in _POWER.items()
    },
    "gCO2/kWh": FileUnit(CARBON, 1.0),
    "kgCO2/MWh": FileUnit(CARBON, 1.0),
    "tCO2/MWh": FileUnit(CARBON, 1000.0),
    "lbCO2/MWh": FileUnit(CARBON, 0.45359237),  # the pound is defined as 0.45359237 kg
    "price/kWh": FileUnit(PRICE, 1.0),
    "price/MWh": FileUnit(PRICE, 1e-3),
    "m/s": FileUnit("m/s", 1.0),
    "W/m2": FileUnit("W/m2", 1.0),
    "degC": FileUnit("degC", 1.0),
    "share": FileUnit("share", 1.0),
}
"""Declared unit -> unit of simkit. Prices keep their currency."""

_BY_FOLDED_NAME = {name.casefold(): name for name in UNITS}
_FOLDED_NAME = re.compile(
    r"(?<![a-z0-9])(?:g|kg|t|lb)co2(?:eq)?/[km]wh(?![a-z0-9])|(?<![a-z0-9])[kmg]?wh?(?![a-z0-9/])"
)


def unit_of(name: str, place: str) -> FileUnit:
    """Return a declared unit. Raises TraceError, beginning with `place`, if it is unknown."""
    try:
        return UNITS[name]
    except KeyError:
        raise TraceError(f"{place}: unit {name!r} is unknown{near_name(name, UNITS)}") from None


def near_name(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name; one that differs only in case comes first."""
    names = list(known)
    for other in names:
        if other.casefold() == name.casefold():
            return f"; did you mean {other!r}?"
    return did_you_mean(name, names)


def named_unit(column: str) -> str | None:
    """Return the last unit in a column's name, such as kW in ``solar_kw``."""
    folded = column.casefold().replace("₂", "2").replace("_", " ")
    found = _FOLDED_NAME.findall(folded)
    return _BY_FOLDED_NAME.get(found[-1].replace("eq", "")) if found else None


def check_declared(column: str, unit: str, place: str) -> None:
    """Raise TraceError if a column's name contains another unit than the declared one."""
    said = named_unit(column)
    if said is not None and UNITS[said] != unit_of(unit, place):
        raise TraceError(
            f"{place}: column {column!r} names {said}, but unit {unit!r} is declared; declare "
            f"{said}, or read the column that is in {unit}"
        )
