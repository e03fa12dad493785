"""The unit that columns are read in: the declared one, checked against what their names say.

A name that surely gives another quantity, or another size of it, refuses the declaration; one that
may mean something else is a warning. Without a declaration a name that gives its unit whole counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from simkit.errors import TraceError
from simkit.traces.power.units import FileUnit, NamedUnit, named_unit, unit_of

IGNORE: Final = "unit_in_name: ignore"


class UnitChoice(NamedTuple):
    """The unit that columns are read in."""

    unit: FileUnit
    said: str = ""
    """Which unit a name gave, if none was declared; empty if it did not."""
    warnings: tuple[str, ...] = ()
    """How names contradict the unit."""


def choose_unit(
    columns: Sequence[str], declared: str | None, place: str, usual: str | None, *, compare: bool
) -> UnitChoice:
    """Return the unit of columns: the declared one, else that of their names, else the usual one.

    Args:
        columns: names of columns of one unit.
        declared: the unit; None: not declared.
        place: file, for messages.
        usual: the unit if neither is given; None: there is none.
        compare: whether names count.

    Raises TraceError if the unit is unknown or not given, or if a name surely gives another.
    """
    named = {name: unit for name in columns if compare and (unit := named_unit(name))}
    if declared is None and (choice := _from_names(named, usual, place)):
        return choice
    chosen = declared or usual
    if chosen is None:
        raise TraceError(f"{place}: column {columns[0]!r} {_open(named.get(columns[0]))}")
    known, how = unit_of(chosen, place), "declared" if declared else "expected"
    warnings = [_compared(name, found, known, chosen, how, place) for name, found in named.items()]
    return UnitChoice(known, warnings=tuple(filter(None, warnings)))


def _from_names(named: dict[str, NamedUnit], usual: str | None, place: str) -> UnitChoice | None:
    """Return the unit that all names with a unit give, of the quantity of the usual one."""
    wanted = None if usual is None else unit_of(usual, place).name
    readings: dict[str, FileUnit] = {}
    for name, found in named.items():
        fitting = [unit for unit in found.readings if wanted in (None, unit.name)]
        if found.sure and len(fitting) == 1:
            readings[name] = fitting[0]
    if len(set(readings.values())) > 1:
        said = ", ".join(f"{name!r} in {named[name].text}" for name in readings)
        raise TraceError(f"{place}: columns in different units, {said}; read them one by one")
    for name, unit in readings.items():
        return UnitChoice(unit, f"{named[name].text}, from the name of column {name!r}")
    return None


def _open(named: NamedUnit | None) -> str:
    """Return why a name does not give the unit, and the remedy."""
    said = "does not name its unit" if named is None else f"names {named.text}, which is in doubt"
    return f"{said}; declare unit, such as kW, kWh, price/MWh or gCO2/kWh"


def _compared(
    column: str, named: NamedUnit, unit: FileUnit, chosen: str, how: str, place: str
) -> str | None:
    """Return a warning if a name may give another unit; raises TraceError if it surely does."""
    begin = f"{place}: column {column!r} names {named.text}, but unit {chosen!r} is {how}"
    money = next((reading.money for reading in named.readings if reading.money), "")
    if named.allows(unit):
        if unit.money in ("", money) or not money:
            return None
        return f"warning: {begin}; is it another currency? {IGNORE} silences this"
    if named.is_hundredth_of(unit):
        return (
            f"warning: {begin}, so all costs are in {money}; declare {named.text} for the currency "
            f"itself, or {IGNORE}"
        )
    if not named.sure or named.is_energy_below(unit):
        return f"warning: {begin}, which counts; {IGNORE} silences this"
    true = named.text if named.readings else f"a unit {named.text.partition(' ')[2]}"
    raise TraceError(
        f"{begin}; declare {true}, or read the column that is in {chosen}; if the name is wrong, "
        f"set {IGNORE}"
    )
