"""Power from weather: sun through tilted modules, wind through the curve of a turbine.

The sun's place, the light on the modules and their warmth are pvlib's, as in the run; what is done
with them is written again from the reference. Powers are rounded to millionths of the rated power,
and may differ by a step or two from processor to processor.
"""

from __future__ import annotations

import gzip
import re
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.verify.numbers import Floats
from simkit.verify.site.course import NotRecomputedError
from simkit.verify.site.record import Record
from simkit.verify.site.tables import kept_rows, refuse_typical_years
from simkit.verify.site.units import WATT
from simkit.verify.task_inputs.text_table import read_table

_DATE = ("Year", "Month", "Day", "Hour", "Minute")
_SUN = ("GHI", "DNI", "DHI", "Temperature", "Wind Speed")
_STEPS = 1e6
"""Steps of a computed power in the rated power."""


def record_of_weather(section: Mapping[str, Any], path: Path, curves: Path | None) -> Record:
    """Return the record of power that a signal of the scenario computes from weather.

    Args:
        section: with all keys of its type.
        path: its file of weather.
        curves: its table of power curves.

    Raises NotRecomputedError for what is not computed again.
    """
    if section["type"] == "nsrdb":
        return _of_sun(section, path)
    if section["type"] == "wind-toolkit":
        return _of_wind(section, path, curves)
    raise NotRecomputedError(f"signals of type {section['type']} are not computed again")


def _of_sun(section: Mapping[str, Any], path: Path) -> Record:
    names, facts = _head(path, 2)
    place = dict(zip(names, facts, strict=False))
    columns = _columns(path, 3, _SUN)
    unix = _unix(columns, float(place["Time Zone"]))
    refuse_typical_years(unix, section)
    rows = kept_rows(unix, np.sum([columns[name] for name in _SUN], axis=0))
    light = {name: columns[name][rows] for name in _SUN}
    power = _modules(section, unix[rows], light, place)
    rated = float(section["rated_w"])
    zone = _zone(float(place["Local Time Zone"]))
    return Record(
        unix[rows], _rounded(power, rated), WATT, zone, instant=True, slack=2.5 * rated / _STEPS
    )


def _of_wind(section: Mapping[str, Any], path: Path, curves: Path | None) -> Record:
    facts, names = _head(path, 2)
    place = dict(zip(facts[::2], facts[1::2], strict=False))
    speeds = (re.fullmatch(r"wind speed at (\d+)m \(m/s\)", name) for name in names)
    column = next(match for match in speeds if match)
    columns = _columns(path, 2, (column[0],))
    unix = _unix(columns, float(place["Data Timezone"]))
    rows = kept_rows(unix, columns[column[0]])
    height = float(column[1])
    hub = section.get("hub_height_m") or height
    speed = columns[column[0]][rows] * (hub / height) ** float(section["shear_exponent"])
    at, watts = _curve(section, curves)
    rated, number = float(watts.max()), int(section["turbines"])
    power = number * _rounded(np.interp(speed, at, watts, left=0.0, right=0.0), rated)
    zone = _zone(float(place["Site Timezone"]))
    slack = 2.5 * number * rated / _STEPS
    return Record(unix[rows], power, WATT, zone, instant=True, slack=slack)


def _head(path: Path, number: int) -> list[list[str]]:
    """Return the fields of the first lines of a file."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as file:
        lines = [file.readline().decode("utf-8", "replace") for _ in range(number)]
    return [[word.strip(' "\r\n') for word in line.split(",")] for line in lines]


def _columns(path: Path, header: int, names: tuple[str, ...]) -> dict[str, Floats]:
    """Return date and values of a table below a line of column names, as numbers."""
    table = read_table(path, {"header_line": header}, (*_DATE, *names))
    figures = table.select(pl.col(*_DATE, *names).str.strip_chars().cast(pl.Float64, strict=False))
    return {name: figures[name].fill_null(np.nan).to_numpy() for name in figures.columns}


def _unix(columns: Mapping[str, Floats], hours_ahead: float) -> Floats:
    """Return the Unix times of dates on a clock that is never put forward; NaN where unknown."""
    year, month, day, hour, minute = (columns[name] for name in _DATE)
    known = np.isfinite(year + month + day + hour + minute)
    months = np.where(known, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + np.where(known, day, 1) - 1
    unix = days * 86_400.0 + hour * 3600.0 + minute * 60.0 - hours_ahead * 3600.0
    return np.where(known, unix, np.nan)


def _zone(hours_ahead: float) -> str:
    minutes = round(abs(hours_ahead) * 60.0)
    return f"UTC{'-' if hours_ahead < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _rounded(power: Floats, rated: float) -> Floats:
    """Return powers in whole millionths of the rated power."""
    if not rated:
        return power
    return np.asarray(np.round(power / rated * _STEPS) / _STEPS * rated)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise NotRecomputedError(f"{name} is not installed") from None


def _modules(
    section: Mapping[str, Any], unix: Floats, light: Mapping[str, Floats], place: Mapping[str, str]
) -> Floats:
    """Return the power of fixed modules in W at (N,) instants.

    Light on the modules after Hay and Davies (1980), their warmth after Faiman (2008), power and
    inverter as in PVWatts (Dobos, 2014).
    """
    pvlib, pandas = _library("pvlib"), _library("pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        times = pandas.to_datetime(unix, unit="s", utc=True)
        latitude, longitude, height = (
            float(place[name]) for name in ("Latitude", "Longitude", "Elevation")
        )
        sun = pvlib.solarposition.get_solarposition(times, latitude, longitude, height)
        dni, ghi, dhi = (pandas.Series(light[name], times) for name in ("DNI", "GHI", "DHI"))
        tilted = pvlib.irradiance.get_total_irradiance(
            section["tilt_deg"], section["azimuth_deg"], sun["apparent_zenith"], sun["azimuth"],
            dni, ghi, dhi, dni_extra=pvlib.irradiance.get_extra_radiation(times),
            model="haydavies",
        )["poa_global"]  # fmt: skip
        shone = tilted.fillna(0.0).clip(lower=0.0).to_numpy()
        warm = pvlib.temperature.faiman(shone, light["Temperature"], light["Wind Speed"])
        rated, per_degree = section["rated_w"], section["per_degree"]
        direct = pvlib.pvsystem.pvwatts_dc(shone, warm, rated, per_degree)
        limit = rated if section.get("inverter_w") is None else section["inverter_w"]
        power = pvlib.inverter.pvwatts(direct * (1.0 - section["loss"]), limit)
    return np.asarray(np.nan_to_num(power), dtype=np.float64)


def _curve(section: Mapping[str, Any], curves: Path | None) -> tuple[Floats, Floats]:
    """Return (n,) wind speeds in m/s and (n,) powers of one turbine in W."""
    if section.get("turbine") is None:
        slow, fast, out = (
            section.get(key) or usual
            for key, usual in (("cut_in_m_s", 3.0), ("rated_m_s", 11.0), ("cut_out_m_s", 25.0))
        )
        rising = np.linspace(slow, fast, 33)
        share = (rising**3 - slow**3) / (fast**3 - slow**3)
        return np.append(rising, out), section["rated_w"] * np.append(share, 1.0)
    if curves is None:
        library = _library("windpowerlib")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            turbine = library.WindTurbine(turbine_type=section["turbine"], hub_height=100.0)
        points = turbine.power_curve
        return points["wind_speed"].to_numpy(float), points["value"].to_numpy(float)
    table = read_table(curves, {}, ("turbine_type",))
    rows = table.filter(pl.col("turbine_type").str.strip_chars(' "') == section["turbine"])
    speeds = [name for name in table.columns if name.replace(".", "", 1).isdigit()]
    watts = rows.head(1).select(pl.col(speeds).cast(pl.Float64, strict=False)).row(0)
    known = [(float(at), w) for at, w in zip(speeds, watts, strict=True) if w is not None]
    return np.array([at for at, _ in known]), np.array([w for _, w in known])
