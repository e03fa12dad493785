"""Readers that a scenario names: each takes a file, numbers and text, and returns one trace.

They are the entry points of the group ``simkit.signals``. `read_power`, `grid.read_carbon` and
`grid.read_price` are such readers themselves; the readers here combine several steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Final, Literal, get_args

from simkit.errors import TraceError, did_you_mean
from simkit.power.signal_trace import Label, PowerTrace
from simkit.traces.power import GLEAMM_COLUMNS, read_total
from simkit.traces.power.grid import read_generation
from simkit.traces.power.nrel import read_nsrdb, read_wind_toolkit
from simkit.traces.power.site import Site, sample_site_path
from simkit.traces.power.solar import SolarPlant, solar_power
from simkit.traces.power.wind import (
    SHEAR_EXPONENT,
    TurbineCurve,
    cubic_turbine,
    read_turbine,
    wind_power,
)

Part = Literal["solar", "wind", "both"]
"""One of a site's sources, or their sum."""

_CUBIC: Final[dict[str, float]] = {"cut_in_m_s": 3.0, "rated_m_s": 11.0, "cut_out_m_s": 25.0}
"""Defaults of the generic curve."""


def read_site_part(
    path: str | PathLike[str],
    *,
    part: Part = "both",
    time_zone: str | None = None,
    time: str = GLEAMM_COLUMNS["time"],
    solar: str = GLEAMM_COLUMNS["solar"],
    wind: str = GLEAMM_COLUMNS["wind"],
    unit: str = "kW",
    label: Label = "start",
    site_zone: str | None = None,
) -> PowerTrace:
    """Read the power of a site like GLEAMM's: a time, solar kW and wind kW in each row.

    `part` is ``solar``, ``wind`` or their sum, ``both``; rows that lack one of the two are left
    out of the sum. `time`, `solar` and `wind` name columns. For the rest see `read_power`.

    Raises TraceError for an unknown part, or as `read_power` does.
    """
    if part not in get_args(Part):
        raise TraceError(f"{path}: part {part!r} is unknown{did_you_mean(part, get_args(Part))}")
    columns = {"solar": [solar], "wind": [wind], "both": [solar, wind]}[part]
    return read_total(
        path,
        columns,
        unit=unit,
        time=time,
        time_zone=time_zone,
        site_zone=site_zone,
        label=label,
    )


def read_sample_part(*, part: Part = "both") -> PowerTrace:
    """Read one source of the bundled sample year, or the sum of both.

    Raises TraceError for an unknown part.
    """
    return read_site_part(sample_site_path(), part=part, time_zone=Site().time_zone)


def read_nsrdb_solar(
    path: str | PathLike[str],
    *,
    rated_w: float,
    tilt_deg: float = SolarPlant.tilt_deg,
    azimuth_deg: float = SolarPlant.azimuth_deg,
    inverter_w: float | None = None,
    loss: float = SolarPlant.loss,
    per_degree: float = SolarPlant.per_degree,
) -> PowerTrace:
    """Compute the power of a `SolarPlant` from a file of the NSRDB (see `nrel.read_nsrdb`).

    Raises TraceError if the file or a number is wrong, SimkitError without pvlib.
    """
    plant = SolarPlant(rated_w, tilt_deg, azimuth_deg, inverter_w, loss, per_degree)
    return solar_power(read_nsrdb(path), plant)


def read_wtk_wind(
    path: str | PathLike[str],
    *,
    turbine: str | None = None,
    curves: str | PathLike[str] | None = None,
    rated_w: float | None = None,
    cut_in_m_s: float | None = None,
    rated_m_s: float | None = None,
    cut_out_m_s: float | None = None,
    turbines: int = 1,
    hub_height_m: float | None = None,
    shear_exponent: float = SHEAR_EXPONENT,
) -> PowerTrace:
    """Compute the power of turbines from a file of the WIND Toolkit.

    Args:
        path: the file, see `nrel.read_wind_toolkit`.
        turbine: a type, such as ``E-53/800``; None: a generic curve of `rated_w`.
        curves: the table that holds the type, see `wind.read_turbine`; None: windpowerlib's.
        rated_w: of a generic curve, see `wind.cubic_turbine`.
        cut_in_m_s: of a generic curve; None: 3.
        rated_m_s: of a generic curve; None: 11.
        cut_out_m_s: of a generic curve; None: 25.
        turbines: number of turbines.
        hub_height_m: see `wind.wind_power`.
        shear_exponent: see `wind.wind_power`.

    Raises TraceError if the file, a type or a number is wrong, SimkitError if a curve of
    windpowerlib is needed and windpowerlib is not installed.
    """
    given = {
        "rated_w": rated_w,
        "cut_in_m_s": cut_in_m_s,
        "rated_m_s": rated_m_s,
        "cut_out_m_s": cut_out_m_s,
    }
    generic = {name: value for name, value in given.items() if value is not None}
    curve = _turbine(turbine, curves, generic, f"{path}")
    power = wind_power(
        read_wind_toolkit(path),
        curve,
        turbines=turbines,
        hub_height_m=hub_height_m,
        shear_exponent=shear_exponent,
    )
    return power if curves is None else replace(power, inputs=(*power.inputs, Path(curves)))


def read_generation_of(
    path: str | PathLike[str],
    *,
    source: str,
    time: str = "timestamp",
    time_zone: str | None = None,
    site_zone: str | None = None,
    label: Label = "start",
    unit: str = "MW",
) -> PowerTrace:
    """Read the power that one source generates for a public grid.

    `source` is wind, solar, hydro, oil, gas, coal, nuclear or other; for the rest see
    `grid.read_generation`.

    Raises TraceError if the file has no such source, or as `grid.read_generation` does.
    """
    found = read_generation(
        path, time=time, time_zone=time_zone, site_zone=site_zone, label=label, unit=unit
    )
    if source not in found:
        raise TraceError(f"{path}: no source {source!r}{did_you_mean(source, found)}")
    return found[source]


def _turbine(
    turbine: str | None,
    curves: str | PathLike[str] | None,
    generic: Mapping[str, float],
    place: str,
) -> TurbineCurve | str:
    """Return a curve from a table, the name of one in windpowerlib, or a generic curve."""
    if turbine is None:
        if curves is not None or "rated_w" not in generic:
            raise TraceError(
                f"{place}: no turbine is named; give turbine, or rated_w alone for a generic curve"
            )
        shape = _CUBIC | {name: value for name, value in generic.items() if name != "rated_w"}
        return cubic_turbine(generic["rated_w"], **shape)
    if generic:
        raise TraceError(
            f"{place}: turbine {turbine!r} has its own curve, but {', '.join(generic)} "
            f"{'are' if len(generic) > 1 else 'is'} given for a generic one; remove one of the two"
        )
    return turbine if curves is None else read_turbine(curves, turbine)
