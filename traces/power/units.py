"""Units of power files: what a declared unit means, and which unit a column's name gives.

One grammar reads both. A text becomes words and each word a letter for its kind: P a power, E an
energy, $ money, M a mass, X CO2, and so on. A unit is a pattern of such letters: ``E`` in
``mean kWh``, ``$/E`` in ``Day-ahead Price [EUR/MWh]``, ``M/E`` in ``CO2 [g/kWh]``, ``P/A`` in
``ghi W/m²``. What a name gives in brackets counts before the rest of it, a quotient before a unit
alone, and a later one before an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from unicodedata import normalize

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
    """An amount for each interval, such as an energy, to be divided by its length in s."""
    offset: float = 0.0
    """Added after the factor, as for degF."""
    per: str = ""
    """The energy below the line, as MWh in price/MWh."""
    money: str = ""
    """The currency that a price is in, EUR or ct; empty if that is not given."""

    def same_quantity(self, other: FileUnit) -> bool:
        """Return whether both measure the same; power and energy for each interval do not."""
        return (self.name, self.per_interval) == (other.name, other.per_interval)

    def same_amount(self, other: FileUnit) -> bool:
        """Return whether a number means the same in both, whatever the currency."""
        if not self.same_quantity(other) or self.offset != other.offset:
            return False
        return abs(self.factor - other.factor) <= 1e-9 * abs(self.factor)


_WATTS: Final = {"W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9, "TW": 1e12}
_JOULES: Final = {
    **{f"{name}h": factor * HOUR_S for name, factor in _WATTS.items()},
    "J": 1.0, "kJ": 1e3, "MJ": 1e6, "GJ": 1e9,
}  # fmt: skip
_GRAMS: Final = {"mg": 1e-3, "g": 1.0, "kg": 1e3, "t": 1e6, "lb": 453.59237}
"""The pound is defined as 0.45359237 kg."""
_SPEEDS: Final = {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704, "kn": 1852 / 3600}
_TEMPERATURES: Final = {
    "degC": FileUnit("degC", 1.0),
    "degF": FileUnit("degC", 5 / 9, offset=-160 / 9),
    "K": FileUnit("degC", 1.0, offset=-273.15),
}


def _price(money: str, energy: str) -> FileUnit:
    share = 0.01 if money in _HUNDREDTHS.values() else 1.0
    kwh = _JOULES[energy] / _JOULES["kWh"]
    return FileUnit(PRICE, share / kwh, per=energy, money=money)


def _carbon(mass: str, energy: str) -> FileUnit:
    return FileUnit(CARBON, _GRAMS[mass] * (_JOULES["kWh"] / _JOULES[energy]), per=energy)


# Words of units: in small letters -> as the unit is written. ------------------------------------


def _spelled(**others: str) -> dict[str, str]:
    """Return each spelling of some units, the unit itself included."""
    return {word: unit for unit, words in others.items() for word in (unit, *words.split())}


_POWER_WORDS: Final = {
    **{unit.casefold(): unit for unit in _WATTS},
    **_spelled(W="watt watts", kW="kilowatt kilowatts", MW="megawatt megawatts", GW="gigawatts"),
}
_ENERGY_WORDS: Final = {unit.casefold() + end: unit for unit in _JOULES for end in ("", "r", "s")}
_MASS_WORDS: Final = _spelled(
    g="gram grams gramme grammes", kg="kgs kilogram kilograms", t="mt ton tons tonne tonnes",
    mg="milligrams", lb="lbs pound pounds",
)  # fmt: skip
_CODES: Final = (
    "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EUR GBP HKD HUF IDR ILS INR ISK JPY KRW MXN "
    "MYR NOK NZD PHP PLN RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR"
)
_CURRENCY_WORDS: Final = {
    **{code.casefold(): code for code in _CODES.split()},
    **{"€": "EUR", "$": "$", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "zł": "PLN"},
    **{"euro": "EUR", "euros": "EUR", "dollar": "$", "dollars": "$", "yen": "JPY", "kr": "kr"},
    "price": "",
}
_HUNDREDTHS: Final = {
    **dict.fromkeys(("ct", "cts", "cent", "cents", "eurocent", "eurocents", "¢", "c"), "ct"),
    **dict.fromkeys(("p", "pence"), "p"),
    **dict.fromkeys(("öre", "øre", "ore"), "öre"),
    **dict.fromkeys(("rp", "rappen"), "Rp"),
}
"""Words for a hundredth of a currency."""
_TEMPERATURE_WORDS: Final = {
    "degc": "degC", "celsius": "degC", "degf": "degF", "fahrenheit": "degF", "kelvin": "K",
    "c": "degC", "f": "degF", "k": "K",
}  # fmt: skip
_SPEED_WORDS: Final = {
    "mps": "m/s", "kmh": "km/h", "kph": "km/h", "mph": "mph", "kn": "kn", "kt": "kn", "kts": "kn",
    "knot": "kn", "knots": "kn",
}  # fmt: skip
_KINDS: Final = {
    **dict.fromkeys(_CURRENCY_WORDS, "$"),
    **dict.fromkeys(_HUNDREDTHS, "$"),
    **dict.fromkeys(_TEMPERATURE_WORDS, "D"),
    **dict.fromkeys(_SPEED_WORDS, "V"),
    **dict.fromkeys(_POWER_WORDS, "P"),
    **dict.fromkeys(_ENERGY_WORDS, "E"),
    **dict.fromkeys(_MASS_WORDS, "M"),
    **dict.fromkeys("gt", "g"),
    **dict.fromkeys(("per", "pro", "je", "par", "por"), ":"),
    **dict.fromkeys(("m2", "sqm", "qm"), "A"),
    **dict.fromkeys(("s", "sec", "second"), "s"),
    **dict.fromkeys(("h", "hr", "hour", "stunde"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "n"),
    **dict.fromkeys(("d", "day", "tag", "jour"), "d"),
    **dict.fromkeys(("interval", "quarter"), "i"),
    **{"m": "m", "km": "k", "mi": "j", "/": "/", "%": "%", "percent": "%"},
    **{"(": "(", "[": "(", "{": "(", ")": ")", "]": ")", "}": ")"},
}
"""Word -> kind; of others, N is a number, X CO2, w a word of prices, x of carbon, . any."""
_LONE: Final = frozenset("wjgtckfpmsh")
"""Letters that are a unit only where they are written like one."""
_BY_WORD: Final = (
    (re.compile(r"co2"), "X"),
    (re.compile(r"\d"), "N"),
    (re.compile(r"pri[cx]|pris|preis|preci|prezz|tarif|cost|spot|lmp|ahead"), "w"),
    (re.compile(r"carbon|emission|moer|ghg|intensi"), "x"),
)
_ABOUT_TEMPERATURE: Final = re.compile(r"temp|t2m|dew|ambient")


class _Word(NamedTuple):
    text: str
    """In small letters."""
    written: str
    kind: str
    glued: str
    """The character before it, empty at the start."""


_REWRITES: Final = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"[\u2010-\u2015\u2212]", "-"),
        (r"(?<=[a-z])(?=(?:kW|[MGT]W)h?(?![A-Za-z]))", " "),  # windkW, priceMWh
        (r"(?<=[a-z]{2})(?=[A-Z][a-z])", " "),  # SolarKw
        (r"\b([kKMGTmg]?[Ww])\s?[·⋅*-]\s?([Hh])\b", r"\1\2"),  # kW·h
        (r"(?i)([kmg]?w)m2\b", r"\1/m2"),
        (r"(?i)\bm\s?(?:\^|\*\*)\s?2\b", "m2"),
        (r"(?i)\bm\s?(?:\^|\*\*)?\s?-2\b", "/m2"),  # W m-2
        (r"(?i)(?<![^\W_])m_?s(?:\s?\^?-1|$)", "m/s"),
        (r"\b(s|h|d|[kMGT]?Wh)\s?(?:\^|\*\*)?\s?-1\b", r"/\1"),  # m s-1, gCO2 kWh-1
        (r"(?i)\b(?:us|au|ca|nz|hk|a|c|s|r)\$|\$us\b", "$"),
        (r"(?i)(?:°|\bdeg(?:rees?)?[ ._])\s?([cfk])\b", r"deg\1"),
        (r"(?i)(?<![^\W_])(mg|k?gs?|grams?|m?t|tons?|tonnes?|lbs?|pounds?)co2", r"\1 co2"),
        (r"(?i)\bco2[-_. ]?(?:equivalents?|equiv|eqv?|e|äq\w*|aeq)(?![^\W_])", "co2"),
        (r"(?i)(?<![^\W_])([a-z]{3})(per|/)?([kmg]wh)(?![^\W_])", r"\1 \2 \3"),  # eurmwh
    )
)
_TOKEN: Final = re.compile(r"co2|m2(?![^\W_])|[^\W\d_]+|\d+(?:[.,]\d+)?|[^\w\s]", re.IGNORECASE)


def _words(text: str) -> list[_Word]:
    """Return the words of a name or a unit; brackets and bars are words, too."""
    text = normalize("NFKC", text)
    for pattern, instead in _REWRITES:
        text = pattern.sub(instead, text)
    words = [
        _Word(found[0].casefold(), found[0], _kind(found[0].casefold()),
              text[max(found.start() - 1, 0) : found.start()])
        for found in _TOKEN.finditer(text)
    ]  # fmt: skip
    words = [word for word in words if word.kind]
    return [word._replace(kind=_kind_there(words, at)) for at, word in enumerate(words)]


def _kind(word: str) -> str:
    """Return the kind of a word by itself; empty for punctuation."""
    if (kind := _KINDS.get(word)) is not None:
        return kind
    if not word[0].isalnum():
        return ""
    return next((kind for pattern, kind in _BY_WORD if pattern.search(word)), ".")


def _kind_there(words: Sequence[_Word], at: int) -> str:
    """Return the kind of a word, of lone letters by what stands around them."""
    text, written, kind, _ = words[at]
    after = "".join(word.kind for word in words[at + 1 : at + 3])
    before = words[at - 1] if at else None
    if text in ("c", "p") and after in ("/E", ":E") and written.islower():
        return "$"
    if text not in _TEMPERATURE_WORDS or len(text) > 1:
        return "." if text in ("c", "p") else kind
    alone = before is None or before.kind == "(" or _ABOUT_TEMPERATURE.search(before.text)
    return "D" if alone and after[:1] in ("", ")") else "."


# What the patterns of words mean. ---------------------------------------------------------------


class NamedUnit(NamedTuple):
    """What a text says about the unit."""

    text: str
    """The unit as a person would write it."""
    readings: tuple[FileUnit, ...] = ()
    """What it may be, the likeliest first; none if it is incomplete (``emissions per kWh``) or not
    a unit of signals (``EUR/MW``)."""
    sure: bool = True
    """Whether it can hardly be no unit at all, as a lone letter or what follows a number can."""
    per: str = ""
    """The energy below the line of an incomplete one."""

    def allows(self, declared: FileUnit) -> bool:
        """Return whether a declared unit is a reading of the name."""
        if not self.readings:
            return bool(self.per) and self.per == declared.per
        return any(unit.same_amount(declared) for unit in self.readings)

    def is_hundredth_of(self, declared: FileUnit) -> bool:
        """Return whether it is a price in cents, and the declared one is not, otherwise equal."""
        first = next(iter(self.readings), None)
        if first is None or first.money not in _HUNDREDTHS.values() or declared.money:
            return False
        return declared.same_amount(_price("", first.per))

    def is_energy_below(self, declared: FileUnit) -> bool:
        """Return whether it is the energy of a declared quotient: ``de_mwh`` of price/MWh."""
        return bool(declared.per) and self.text == declared.per


def _last(words: Sequence[_Word], kinds: str, table: dict[str, str]) -> str:
    return next(table[word.text] for word in reversed(words) if word.kind in kinds)


def _energy(words: Sequence[_Word]) -> str:
    return _last(words, "E", _ENERGY_WORDS)


def _of_price(words: Sequence[_Word]) -> NamedUnit:
    names = _CURRENCY_WORDS | _HUNDREDTHS
    money = next((names[word.text] for word in words if word.kind == "$"), "")
    energy = _energy(words)
    return NamedUnit(f"{money or 'price'}/{energy}", (_price(money, energy),))


def _of_carbon(words: Sequence[_Word]) -> NamedUnit:
    mass, energy = _last(words, "Mg", _MASS_WORDS), _energy(words)
    sure = not any(word.text in ("ton", "tons") for word in words)  # of 1,000 kg or 2,000 lb
    return NamedUnit(f"{mass}CO2/{energy}", (_carbon(mass, energy),), sure)


def _per_energy(words: Sequence[_Word]) -> NamedUnit:
    carbon = words[0].kind in "Xx"
    energy, what = _energy(words), "carbon" if carbon else "something"
    return NamedUnit(f"{what} per {energy}", sure=not carbon, per=energy)


_LENGTHS: Final = {"s": 1.0, "n": 60.0, "h": HOUR_S, "d": 86400.0}
_LENGTH_NAMES: Final = {"s": "s", "n": "min", "h": "h", "d": "d"}
"""Kind of a word → its length in s, and its name."""


def _of_area(words: Sequence[_Word]) -> NamedUnit:
    if words[0].kind == "P":
        power = _last(words, "P", _POWER_WORDS)
        return NamedUnit(f"{power}/m2", (FileUnit("W/m2", _WATTS[power]),))
    unit = f"{_energy(words)}/m2"
    amount = FileUnit("W/m2", _JOULES[_energy(words)], per_interval=True)
    return (
        _per_time(unit, amount, words) if words[-1].kind in _LENGTHS else NamedUnit(unit, (amount,))
    )


def _alone(words: Sequence[_Word]) -> NamedUnit:
    """Return the unit of a power or of an energy for each interval."""
    word = next(word for word in words if word.kind in "PE")
    if word.kind == "E":
        unit = _ENERGY_WORDS[word.text]
        return NamedUnit(unit, (FileUnit(WATT, _JOULES[unit], per_interval=True),), _is_clear(word))
    unit = _POWER_WORDS[word.text]
    return NamedUnit(unit, (FileUnit(WATT, _WATTS[unit]),), _is_clear(word))


def _is_clear(word: _Word) -> bool:
    """Return whether a word alone is a unit: ``power_w`` and ``(W)`` are, ``site W`` is not."""
    milli = word.written[:2] in ("mW", "mJ") and word.written not in _KINDS
    return not milli and (word.text not in _LONE or word.glued in ("", "_", "(", "[", "/", "{"))


def _energy_a_time(words: Sequence[_Word]) -> NamedUnit:
    energy = _energy(words)
    return _per_time(energy, FileUnit(WATT, _JOULES[energy], per_interval=True), words)


def _per_time(unit: str, amount: FileUnit, words: Sequence[_Word]) -> NamedUnit:
    """Return a rate: MWh/d, kWh/15 min; or the amount in each interval, if that is declared."""
    last = words[-1].kind
    number = next((word.written.replace(",", ".") for word in words if word.kind == "N"), "1")
    name = f"{unit}/{number + ' ' if number != '1' else ''}{_LENGTH_NAMES[last]}"
    length_s = float(number) * _LENGTHS[last]
    if length_s == 0:
        return NamedUnit(name, sure=False)
    return NamedUnit(name, (FileUnit(amount.name, amount.factor / length_s), amount))


def _of_speed(words: Sequence[_Word]) -> NamedUnit:
    if words[0].kind == "V":
        word = words[0]
        unit, sure = _SPEED_WORDS[word.text], len(word.text) > 2 or word.glued in "(["
    else:
        unit, sure = {"m": "m/s", "k": "km/h", "j": "mph"}[words[0].kind], True
    return NamedUnit(unit, (FileUnit("m/s", _SPEEDS[unit]),), sure)


def _of_temperature(words: Sequence[_Word]) -> NamedUnit:
    unit = _TEMPERATURE_WORDS[words[0].text]
    return NamedUnit(unit, (_TEMPERATURES[unit],))


def _foreign(words: Sequence[_Word]) -> NamedUnit:
    """Return a quotient that no signal is in: a price of power, a yield, a heat rate."""
    text = "".join(word.written if word.kind != ":" else "/" for word in words)
    return NamedUnit(text, sure=False)


_Meaning = Callable[[Sequence[_Word]], NamedUnit]
_PATTERNS: Final[tuple[tuple[re.Pattern[str], _Meaning], ...]] = tuple(
    (re.compile(pattern), meaning)
    for pattern, meaning in (
        (r"[Mg](?:\.?X)?[/:]E|[Mg]\.?XE|[Xx][Mg]E|ME", _of_carbon),
        (r"\$[/:]?E|w[/:]E", _of_price),
        (r"[Xx][/:]E|\.:E", _per_energy),
        (r"[$w][/:]?P", _foreign),
        (r"E[/:]?A[/:]N?[hnds]|[PE][/:]?A", _of_area),
        (r"E[/:]N?[hnds]", _energy_a_time),
        (r"E[/:]N?i", _alone),
        (r"[PEX][/:][PE.M]", _foreign),
        (r"[mkj][/:][sh]|V", _of_speed),
        (r"D", _of_temperature),
        (r"%", lambda _: NamedUnit("%", (FileUnit("share", 0.01),))),
        (r"[PE]", _alone),
    )
)


def named_unit(column: str) -> NamedUnit | None:
    """Return what a column's name says about its unit, None if nothing.

    ``solar_kw``, ``Day-ahead Price [EUR/MWh]``, ``carbon_g_per_kwh``, ``ghi W/m²``.
    """
    words = _words(column)
    kinds = "".join(word.kind for word in words)
    groups = [found.span(1) for found in re.finditer(r"\(([^()]*)\)", kinds)]
    for start, end in [*reversed(groups), (0, len(words))]:
        if (found := _found(words[start:end])) is not None:
            return _in_context(*found, words)
    return None


def _found(words: Sequence[_Word]) -> tuple[NamedUnit, Sequence[_Word]] | None:
    """Return the unit in some words and the words that give it."""
    kinds = "".join(word.kind for word in words)
    for pattern, meaning in _PATTERNS:
        spans = [found.span() for found in pattern.finditer(kinds)]
        if spans:
            start, end = spans[-1]
            unit = meaning(words[start:end])
            if len(spans) == 1 and kinds[max(start - 1, 0) : start] == "N" and end - start == 1:
                unit = unit._replace(sure=False)  # the size of a plant, or the second of a name
            return unit, words[start:end]
    return None


def _in_context(named: NamedUnit, own: Sequence[_Word], words: Sequence[_Word]) -> NamedUnit:
    """Return a unit in the light of the whole name: ``price_mwh`` is a price for each MWh."""
    about = {word.kind for word in words}
    if not named.readings or len(own) > 1 or own[0].kind not in "PE":
        return named
    if own[0].kind == "E" and about & {"w", "$"}:
        price = _price("", named.text)
        return NamedUnit(f"price/{named.text}", (price, *named.readings), named.sure)
    if own[0].kind == "E" and about & {"X", "x"}:
        return NamedUnit(f"carbon per {named.text}", sure=False, per=named.text)
    return named._replace(sure=named.sure and not about & {"w", "$"})


# Declarations. ----------------------------------------------------------------------------------


def unit_of(name: str, place: str) -> FileUnit:
    """Return a declared unit: one of `UNITS`, or another that the grammar reads whole.

    Raises TraceError, beginning with `place`, if it is unknown.
    """
    unit = UNITS.get(name) or _declared(name)
    if unit is None:
        raise TraceError(f"{place}: unit {name!r} is unknown{near_name(name, UNITS)}")
    return unit


def _declared(name: str) -> FileUnit | None:
    """Return a unit whose every word belongs to it; capitals count, since mW is not MW."""
    words = _words(name)
    kinds = "".join(word.kind for word in words)
    for word in words:
        canonical = _POWER_WORDS.get(word.text) or _ENERGY_WORDS.get(word.text)
        if word.kind in "PE" and word.written != canonical:
            return None
        if word.kind == "D" and len(word.text) == 1 and word.written != "K":
            return None
    if (
        re.fullmatch(
            r"[$Mg]X?[/:]E|[PE][/:]A|E[/:](A[/:])?N?[hnds]|[mkj][/:][sh]|[VD%]|[PE]", kinds
        )
        is None
    ):
        return None
    found = _found(words)
    return None if found is None else next(iter(found[0].readings), None)


UNITS: Final[dict[str, FileUnit]] = {
    **{name: FileUnit(WATT, factor) for name, factor in _WATTS.items()},
    **{f"{name}h": FileUnit(WATT, _JOULES[f"{name}h"], per_interval=True) for name in _WATTS},
    "gCO2/kWh": _carbon("g", "kWh"),
    "kgCO2/MWh": _carbon("kg", "MWh"),
    "tCO2/MWh": _carbon("t", "MWh"),
    "lbCO2/MWh": _carbon("lb", "MWh"),
    "price/kWh": _price("", "kWh"),
    "price/MWh": _price("", "MWh"),
    "m/s": FileUnit("m/s", 1.0),
    "W/m2": FileUnit("W/m2", 1.0),
    "degC": FileUnit("degC", 1.0),
    "share": FileUnit("share", 1.0),
}
"""The usual units -> what they are in simkit. Prices keep their currency."""


def near_name(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name; one that differs only in case comes first."""
    names = list(known)
    for other in names:
        if other.casefold() == name.casefold():
            return f"; did you mean {other!r}?"
    return did_you_mean(name, names)


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
