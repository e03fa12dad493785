"""Units of files of power, prices and carbon: what a number means in W, price/kWh, gCO2/kWh."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from unicodedata import normalize

from simkit.verify.site.course import NotRecomputedError

WATT, PRICE, CARBON, TEMPERATURE = "W", "price/kWh", "gCO2/kWh", "degC"


class Unit(NamedTuple):
    """How numbers of a file become those of the ledger."""

    name: str
    factor: float = 1.0
    offset: float = 0.0
    """Added after the factor."""
    per_interval: bool = False
    """Whether a number is an energy in J after the factor, to be divided by the interval's s."""


_WATTS = {"w": 1.0, "kw": 1e3, "mw": 1e6, "gw": 1e9, "tw": 1e12}
_JOULES = {f"{name}h": 3600.0 * watts for name, watts in _WATTS.items()}
_JOULES |= {"j": 1.0, "kj": 1e3, "mj": 1e6, "gj": 1e9}
_GRAMS = {"mg": 1e-3, "g": 1.0, "kg": 1e3, "t": 1e6, "lb": 453.59237}
_MONEY = (
    "price eur usd gbp aud cad chf dkk nok sek pln czk huf ron bgn jpy cny inr krw brl euro dollar"
)
_CENTS = "ct cent cents eurocent"
_DECLARED = {
    **{"W": Unit(WATT), "kW": Unit(WATT, 1e3), "MW": Unit(WATT, 1e6), "GW": Unit(WATT, 1e9)},
    **{"TW": Unit(WATT, 1e12), "degC": Unit(TEMPERATURE)},
    **{"degF": Unit(TEMPERATURE, 5 / 9, -160 / 9), "K": Unit(TEMPERATURE, 1.0, -273.15)},
    **{name: Unit(WATT, _JOULES[name.lower()], 0.0, True)
       for name in ("Wh", "kWh", "MWh", "GWh", "TWh", "J", "kJ", "MJ", "GJ")},
}  # fmt: skip
_ENERGY = rf"(?P<energy>{'|'.join(_JOULES)})"
_QUOTIENTS = (
    (PRICE, re.compile(rf"(?P<over>{_MONEY.replace(' ', '|')}|[$€£]) ?(?:per )?{_ENERGY}")),
    (PRICE, re.compile(rf"(?P<cents>{_CENTS.replace(' ', '|')}) ?(?:per )?{_ENERGY}")),
    (CARBON, re.compile(rf"(?P<mass>{'|'.join(_GRAMS)}) ?(?:co2(?:e|eq)? )?(?:per )?{_ENERGY}")),
)
_OF_QUOTIENTS = re.compile(
    r"pri[cx]|pris|preis|preci|tarif|cost|spot|lmp|ahead|co2|carbon|emiss|intens"
)
"""Names of prices and carbon: an energy in them is what is paid for."""
_TALKS_OF_UNITS = frozenset(
    (*_WATTS, *_JOULES, *_GRAMS, *_MONEY.split(), *_CENTS.split(), "$", "€", "£", "per", "kwp",
     "watt", "watts", "kilowatt", "kilowatts", "megawatt", "megawatts", "ton", "tons", "tonne",
     "tonnes", "gram", "grams", "pound", "pounds", "mt", "c", "k", "f", "percent", "%")
)  # fmt: skip
"""Words of a column's name after which its unit is not simply the usual one."""


def declared_unit(text: str) -> Unit:
    """Return a declared unit; raises NotRecomputedError for one that is not known here."""
    if found := _DECLARED.get(text):
        return found
    if found := _quotient(_words(text)):
        return found
    raise NotRecomputedError(f"the unit {text!r} is not known here")


def unit_of(
    columns: Sequence[str], declared: str | None, usual: str | None, *, names_count: bool
) -> Unit:
    """Return the unit of columns: as declared, else as their names say, else the usual one.

    Raises NotRecomputedError where that is not certain.
    """
    if declared is not None:
        return declared_unit(declared)
    named = {_named(name) for name in columns if names_count} - {None}
    if not named and usual is not None:
        return declared_unit(usual)
    unit = next(iter(named), None)
    of_usual = usual is None or (unit is not None and unit.name == declared_unit(usual).name)
    if len(named) != 1 or unit is None or not of_usual:
        raise NotRecomputedError(f"the unit of column {columns[0]!r} is not certain")
    return unit


def _words(text: str) -> str:
    """Return the words of a name, in small letters with single spaces between them."""
    plain = normalize("NFKC", text).lower().replace("co₂", "co2")
    plain = re.sub(r"(?<=[a-z])co2", " co2", plain)
    return " ".join(re.findall(r"co2(?:eq?)?|[a-z]+\d*|[$€£%]", plain))


def _quotient(words: str) -> Unit | None:
    """Return the unit of a price or a carbon intensity; None if the words are none."""
    for name, pattern in _QUOTIENTS:
        if match := pattern.fullmatch(words):
            parts = match.groupdict()
            kwh = _JOULES[parts["energy"]] / _JOULES["kwh"]
            mass = _GRAMS.get(parts.get("mass") or "", 1.0)
            return Unit(name, mass * (0.01 if parts.get("cents") else 1.0) / kwh)
    return None


def _named(column: str) -> Unit | None:
    """Return the unit that a column's name ends in, or has in brackets; None if it has none.

    Raises NotRecomputedError if it may have one that is not known here.
    """
    inside = re.search(r"[\[(]([^\[\]()]*)[\])]\s*$", column)
    outside = column[: inside.start()] if inside else ""
    if inside and not set(_words(inside[1]).split()) & _TALKS_OF_UNITS:
        return _named(outside)  # brackets about something else
    words = _words(inside[1] if inside else column).split()
    for start in range(len(words)):
        others = {*words[:start], *_words(outside).split()} & _TALKS_OF_UNITS - {"price"}
        if not others and (unit := _quotient(" ".join(words[start:]))) is not None:
            return unit
    said = {*words, *_words(outside).split()}
    last, alone = words[-1] if words else "", len(said & _TALKS_OF_UNITS) == 1
    if alone and last in _WATTS and (inside or column.lower().endswith(f"_{last}")):
        return Unit(WATT, _WATTS[last])
    if alone and last in _JOULES and last[-1] == "h" and not _OF_QUOTIENTS.search(column.lower()):
        return Unit(WATT, _JOULES[last], 0.0, True)
    if said & _TALKS_OF_UNITS - {"price"}:
        raise NotRecomputedError(f"the unit in the name of column {column!r} is not certain")
    return None
