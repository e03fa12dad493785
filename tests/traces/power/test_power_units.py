"""Units in names of columns: read whole, compared with what is declared, and counted if nothing is.

Spellings are generated from parts whose meaning stands beside them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import TraceError
from simkit.traces.power import read_power
from simkit.traces.power.units import UNITS, choose_unit, named_unit, unit_of

WATTS = {"W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9}
KWH = {"Wh": 1e-3, "kWh": 1.0, "MWh": 1e3, "GWh": 1e6}
GRAMS = {"g": 1.0, "kg": 1e3, "t": 1e6, "lb": 453.59237, "lbs": 453.59237, "tonnes": 1e6}
CO2 = ("CO2", "CO₂", "CO2e", "CO2eq", "CO₂eq", "CO2-eq", "CO2 eq", "co2", "CO2-Äq", " CO2", " CO₂e")
MONEY = {"EUR": 1.0, "€": 1.0, "$": 1.0, "USD": 1.0, "£": 1.0, "SEK": 1.0, "ct": 0.01, "¢": 0.01,
         "cents": 0.01, "price": 1.0, "öre": 0.01, "US$": 1.0}  # fmt: skip
PER = ("/", " / ", " per ", "_per_", " je ")

spelled = st.sampled_from
case = spelled([str, str.lower, str.upper])
FRAMES = ("{}", "Value [{}]", "Value ({})", "value_{}", "Value {}", "{} mean",
          "Value at 100m [{}] (old)")  # fmt: skip
frames = spelled(FRAMES)


def reading(name):
    """Return name, factor and whether per interval, of a name that surely gives its unit."""
    found = named_unit(name)
    assert found is not None, name
    assert found.sure, (name, found)
    assert found.readings, (name, found)
    unit = found.readings[0]
    return unit.name, pytest.approx(unit.factor, rel=1e-12), unit.per_interval


@given(spelled([*MONEY]), spelled(PER), spelled([*KWH]), frames)
def test_every_spelling_of_a_price(money, per, energy, frame):
    name = frame.format(f"{money}{per}{energy}")
    assert reading(name) == ("price/kWh", MONEY[money] / KWH[energy], False)


@given(spelled([*GRAMS]), spelled(["", *CO2]), spelled(PER), spelled([*KWH]), frames)
def test_every_spelling_of_a_carbon_intensity(mass, co2, per, energy, frame):
    name = frame.format(f"{mass}{co2}{per}{energy}")
    assert reading(name) == ("gCO2/kWh", GRAMS[mass] / KWH[energy], False)


@given(spelled([*WATTS]), case, frames)
def test_every_spelling_of_a_power(watts, letters, frame):
    name = frame.format(letters(watts))
    if watts == "W" and frame in ("Value {}", "{} mean"):
        return  # a lone letter may be a name: see below
    assert reading(name) == ("W", WATTS[watts], False)


@given(spelled([*KWH]), case, frames, spelled(["", "s", "r"]))
def test_every_spelling_of_an_energy(energy, letters, frame, end):
    name = frame.format(letters(energy) + end)
    assert reading(name) == ("W", KWH[energy] * 3.6e6, True)


@pytest.mark.parametrize(
    ("name", "unit", "factor", "per_interval"),
    [
        # prices
        ("price_eur_mwh", "price/kWh", 1e-3, False),
        ("Preis je kWh", "price/kWh", 1.0, False),
        ("p/kWh", "price/kWh", 0.01, False),
        ("Deutschland/Luxemburg [€/MWh] Originalauflösungen", "price/kWh", 1e-3, False),
        ("priceEurMWh", "price/kWh", 1e-3, False),
        ("EUR MWh-1", "price/kWh", 1e-3, False),
        # carbon
        ("co2_g_kwh", "gCO2/kWh", 1.0, False),
        ("gCO2 kWh-1", "gCO2/kWh", 1.0, False),
        ("kg of CO2 per MWh", "gCO2/kWh", 1.0, False),
        ("mTCO2/MWh", "gCO2/kWh", 1e3, False),
        # power and energy
        ("Leistung / kW", "W", 1e3, False),
        ("windkW", "W", 1e3, False),
        ("MWh/h", "W", 1e6, False),
        ("kWh per 15 min", "W", 4e3, False),
        ("Load [kWh/min]", "W", 6e4, False),
        ("GWh/d", "W", 1e9 / 24, False),
        ("kWh/1.5 h", "W", 1e3 / 1.5, False),
        ("GHI kWh/m2/day", "W/m2", 1e3 / 24, False),
        ("ghi kWh m-2 d-1", "W/m2", 1e3 / 24, False),
        ("kWh per interval", "W", 3.6e6, True),
        ("energy kW·h", "W", 3.6e6, True),
        ("Solar 5 kW (kWh)", "W", 3.6e6, True),
        # weather
        ("GHI [W/m²]", "W/m2", 1.0, False),
        ("ghi W m-2", "W/m2", 1.0, False),
        ("ssrd (J m**-2)", "W/m2", 1.0, True),
        ("wind_speed_m_s", "m/s", 1.0, False),
        ("wind_speed_10m (km/h)", "m/s", 1 / 3.6, False),
        ("wind (mph)", "m/s", 0.44704, False),
        ("temp_c", "degC", 1.0, False),
        ("CFE (%)", "share", 0.01, False),
    ],
)
def test_a_name_gives_its_unit(name, unit, factor, per_interval):
    assert reading(name) == (unit, factor, per_interval)


@pytest.mark.parametrize(
    "name", ["WND", "power", "new wave", "avg_CI", "wind_100m", "t", "Price [EUR]", "DE-LU", "SW"]
)
def test_a_name_without_a_unit(name):
    assert named_unit(name) is None


@pytest.mark.parametrize(
    "name", ["site W", "inverter_2_kW", "5MW farm", "Power (mW)", "price (MW)"]
)
def test_what_may_be_no_unit_is_not_sure(name):
    found = named_unit(name)
    assert found is not None
    assert not found.sure


@given(spelled(sorted(UNITS)))
def test_a_declared_unit_is_known_as_it_is_written(unit):
    assert unit_of(unit, "x") == UNITS[unit]


@pytest.mark.parametrize(
    ("declared", "same_as", "factor"),
    [("EUR/MWh", "price/MWh", 1), ("€/kWh", "price/kWh", 1), ("ct/kWh", "price/kWh", 0.01),
     ("lbs/MWh", "lbCO2/MWh", 1), ("gCO₂eq/kWh", "gCO2/kWh", 1), ("g/kWh", "gCO2/kWh", 1),
     ("W/m²", "W/m2", 1), ("°C", "degC", 1), ("%", "share", 0.01), ("MWh/h", "MW", 1)],
)  # fmt: skip
def test_other_spellings_may_be_declared(declared, same_as, factor):
    unit, known = unit_of(declared, "x"), UNITS[same_as]
    assert unit.name == known.name
    assert unit.factor == pytest.approx(known.factor * factor)


@pytest.mark.parametrize(
    "unit", ["kWx", "kw", "mW", "EUR/mwh", "EUR", "per kWh", "EUR/MW", "", "k"]
)
def test_an_unknown_unit_is_refused(unit):
    with pytest.raises(TraceError, match=r"^x: unit '.*' is unknown"):
        unit_of(unit, "x")


def chosen(*columns, declared=None, usual=None, compare=True):
    return choose_unit(columns, declared, "x.csv", usual, compare=compare)


@pytest.mark.parametrize(
    ("column", "declared", "true"),
    [
        ("Price [EUR/MWh]", "MWh", "declare EUR/MWh"),  # a price as an energy
        ("Price [EUR/MWh]", "MW", "declare EUR/MWh"),
        ("Price [EUR/MWh]", "gCO2/kWh", "declare EUR/MWh"),
        ("Price [EUR/MWh]", "price/kWh", "declare EUR/MWh"),  # a thousand times too dear
        ("solar_kwh", "kW", "declare kWh"),
        ("solar_kw", "kWh", "declare kW"),
        ("solar_kw", "price/kWh", "declare kW"),
        ("spot_kwh", "price/MWh", "declare price/kWh"),
        ("MOER (lbs/MWh)", "gCO2/kWh", "declare lbCO2/MWh"),
        ("value per kWh", "kWh", "declare a unit per kWh"),
        ("wind_speed_10m (km/h)", "m/s", "declare km/h"),
        ("temperature_2m (°F)", "degC", "declare degF"),
        ("CFE (%)", "gCO2/kWh", "declare %"),
        ("ghi W/m2", "W", "declare W/m2"),
    ],
)
def test_another_quantity_or_size_is_refused_with_the_true_one(column, declared, true):
    with pytest.raises(TraceError) as caught:
        chosen(column, declared=declared)
    assert f"column {column!r} names" in str(caught.value)
    assert f"but unit {declared!r} is declared; {true}" in str(caught.value)
    ignored = chosen(column, declared=declared, compare=False)
    assert ignored.unit == unit_of(declared, "x")
    assert not ignored.warnings


@pytest.mark.parametrize(
    ("column", "declared", "what"),
    [
        ("de_mwh", "price/MWh", "names MWh"),  # or a price for each of them
        ("Strompreis ct/kWh", "price/kWh", "so all costs are in ct; declare ct/kWh"),
        ("Price [USD/MWh]", "EUR/MWh", "is it another currency?"),
        ("site W", "kW", "names W"),
        ("inverter_2_kW", "W", "names kW"),
        ("Capacity price EUR/MW", "price/MWh", "names EUR/MW"),
        ("emissions per kWh", "lbCO2/MWh", "names carbon per kWh"),
        ("tons CO2/MWh", "lbCO2/MWh", "names tCO2/MWh"),  # of 1,000 kg, or of 2,000 lb
    ],
)
def test_what_may_mean_something_else_is_a_warning(column, declared, what):
    choice = chosen(column, declared=declared)
    assert choice.unit == unit_of(declared, "x")
    (warning,) = choice.warnings
    assert warning.startswith("warning: x.csv: ")
    assert what in warning
    assert "unit_in_name: ignore" in warning
    assert not chosen(column, declared=declared, compare=False).warnings


@pytest.mark.parametrize(
    ("column", "declared"),
    [("emissions per kWh", "gCO2/kWh"), ("value per kWh", "price/kWh"), ("de_mwh", "MWh"),
     ("spot_mwh", "price/MWh"), ("spot_mwh", "MWh"), ("gCO2/kWh", "kgCO2/MWh"),
     ("Price [EUR/MWh]", "price/MWh"), ("CO2 [g/kWh]", "gCO2/kWh"), ("Strompreis ct/kWh", "ct/kWh")],
)  # fmt: skip
def test_what_agrees_says_nothing(column, declared):
    assert not chosen(column, declared=declared).warnings


def test_a_name_stands_for_a_unit_that_is_not_declared():
    assert chosen("Price [EUR/kWh]", usual="price/MWh").unit.factor == 1.0
    assert chosen("spot", usual="price/MWh") == (UNITS["price/MWh"], "", ())
    assert chosen("spot_mwh", usual="price/MWh").unit.name == "price/kWh"
    assert chosen("solar_kw", "wind_kw").said == "kW, from the name of column 'solar_kw'"
    with pytest.raises(TraceError, match="columns in different units, 'solar_kw' in kW, 'wind_mw'"):
        chosen("solar_kw", "wind_mw", usual="kW")
    with pytest.raises(TraceError, match="'power' does not name its unit; declare unit"):
        chosen("power")
    with pytest.raises(TraceError, match="'site W' names W, which is in doubt; declare unit"):
        chosen("site W")
    with pytest.raises(TraceError, match="names kW, but unit 'price/MWh' is expected"):
        chosen("solar_kw", usual="price/MWh")


def hours(header, *values):
    return (f"time,{header}", *(f"2022-01-01 {n:02d}:00,{row}" for n, row in enumerate(values)))


def test_a_warning_comes_with_the_trace_and_can_be_silenced(table):
    path = table(*hours("de_mwh", 40, 50))
    keys = {"column": "de_mwh", "unit": "price/MWh", "zone": "UTC"}
    (warning,) = read_power(path, **keys).warnings
    assert "column 'de_mwh' names MWh, but unit 'price/MWh' is declared" in warning
    assert not read_power(path, **keys, unit_in_name="ignore").warnings
