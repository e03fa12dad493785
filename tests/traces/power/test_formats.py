"""Downloads of known sources by `format`: made-up rows in the true layouts."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.errors import TraceError
from simkit.scenario.signals import SIGNALS

ENTSOE = """\
"MTU (CET/CEST)","Day-ahead Price [EUR/MWh]","Currency","BZN|DE-LU"
"26.03.2023 00:00 - 26.03.2023 01:00","40.00","EUR",""
"26.03.2023 01:00 - 26.03.2023 02:00","-5.17","EUR",""
"26.03.2023 03:00 - 26.03.2023 04:00","n/e","EUR",""
"26.03.2023 04:00 - 26.03.2023 05:00","25.17","EUR",""
"""
ENTSOE_2025 = """\
"MTU (UTC)","Area","Sequence","Day-ahead Price (EUR/MWh)","Intraday Price (EUR/MWh)"
"31/01/2025 23:30:00 - 31/01/2025 23:45:00","BZN|FI","Sequence 1","40.5","1"
"31/01/2025 23:45:00 - 01/02/2025 00:00:00","BZN|FI","Sequence 1","60.5","1"
"""
SMARD = """\
Datum von;Datum bis;Deutschland/Luxemburg [€/MWh] Originalauflösungen;Belgien [€/MWh] Originalauflösungen
01.07.2023 00:00;01.07.2023 01:00;-5,17;-
01.07.2023 01:00;01.07.2023 02:00;1.025,17;10,00
01.07.2023 02:00;01.07.2023 03:00;25,00;20,00
"""
SMARD_ENGLISH = """\
Start date;End date;Photovoltaics [MWh] Original resolutions
Jul 1, 2023 12:00 AM;Jul 1, 2023 12:15 AM;0.50
Jul 1, 2023 12:15 AM;Jul 1, 2023 12:30 AM;1,025.75
"""
ELECTRICITY_MAPS = """\
Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),Data source
2024-01-01 00:00:00,France,France,FR,12.5,40.5,95.5,entsoe.eu
2024-01-01 01:00:00,France,France,FR,13.5,41.5,94.5,entsoe.eu
"""
OPEN_METEO = """\
latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation
48.2,11.5,524.0,3600,Europe/Berlin,CET

time,temperature_2m (°C),wind_speed_100m (km/h),shortwave_radiation (W/m²)
2024-01-01T00:00,3.5,18.0,0.0
2024-01-01T01:00,2.5,36.0,20.0
2024-01-01T02:00,1.5,18.0,40.0
"""


@pytest.fixture
def read(tmp_path):
    def trace(kind, text, **keys):
        path = tmp_path / "download.csv"
        path.write_text(text)
        return SIGNALS.find(kind).of(path=path, **keys).read()

    return trace


def hours(trace):
    return ((trace.time_s - trace.time_s[0]) / 3600).tolist()


def test_prices_of_entsoe(read):
    trace = read("price", ENTSOE, format="entsoe")
    assert trace.value.tolist() == pytest.approx([0.04, -0.00517, 0.02517])
    assert hours(trace) == [0, 1, 3]  # the clock was put forward, and n/e is no value
    assert (trace.time_s[0], trace.time_zone) == (1679785200, "Europe/Brussels")
    assert trace.report.dropped == {"value missing": 1}
    newer = read("price", ENTSOE_2025, format="entsoe", site_zone="Europe/Helsinki")
    assert newer.value.tolist() == [0.0405, 0.0605]
    assert (newer.time_s[0], newer.step_s) == (1738366200, 900)
    intraday = read("price", ENTSOE_2025, format="entsoe", column="Intraday Price")
    assert intraday.value.tolist() == [0.001, 0.001]


def test_prices_and_generation_of_smard(read):
    trace = read("price", SMARD, format="smard", column="Deutschland/Luxemburg")
    assert trace.value.tolist() == pytest.approx([-0.00517, 1.02517, 0.025])
    assert (trace.time_s[0], trace.time_zone) == (1688162400, "Europe/Berlin")
    belgium = read("price", SMARD, format="smard", column="belgien")
    assert belgium.report.dropped == {"value missing": 1}
    sun = read("csv", SMARD_ENGLISH, format="smard", column="Photovoltaics")
    assert sun.value.tolist() == [2e6, 4103e6]  # MWh in a quarter of an hour
    assert sun.time_s[0] == 1688162400


def test_carbon_of_electricity_maps(read):
    trace = read("carbon", ELECTRICITY_MAPS, format="electricity-maps", site_zone="Europe/Paris")
    assert (trace.unit, trace.value.tolist()) == ("gCO2/kWh", [40.5, 41.5])
    assert trace.time_s[0] == 1704067200
    direct = "Carbon intensity gCO₂eq/kWh (direct)"
    keys = {"format": "electricity-maps", "column": direct}
    assert read("carbon", ELECTRICITY_MAPS, **keys).value.tolist() == [12.5, 13.5]
    share = "Carbon-free energy percentage (CFE%)"
    keys = {"format": "electricity-maps", "column": share}
    assert read("csv", ELECTRICITY_MAPS, **keys).value.tolist() == pytest.approx([0.955, 0.945])


def test_weather_of_open_meteo(read):
    air = read("csv", OPEN_METEO, format="open-meteo", column="temperature_2m")
    assert (air.unit, air.value.tolist(), air.sampling) == ("degC", [3.5, 2.5, 1.5], "instant")
    assert (air.time_s[0], air.time_zone) == (1704063600, "UTC+01:00")  # midnight there
    wind = read("csv", OPEN_METEO, format="open-meteo", column="wind_speed_100m")
    assert wind.value.tolist() == pytest.approx([5, 10, 5])
    sun = read("csv", OPEN_METEO, format="open-meteo", column="shortwave_radiation (W/m²)")
    assert (sun.unit, sun.sampling, sun.label) == ("W/m2", "mean", "end")


def test_keys_that_are_given_take_the_place_of_the_formats(read):
    dated = ENTSOE.replace("MTU (CET/CEST)", "MTU")
    with pytest.raises(TraceError, match="times without a time zone"):
        read("price", dated, format="entsoe")
    there = read("price", dated, format="entsoe", zone="UTC")
    assert there.time_s[0] == 1679788800
    assert read("price", ENTSOE, format="entsoe", label="start", unit="price/kWh",
                unit_in_name="ignore").value[0] == 40  # fmt: skip
    late = read("csv", OPEN_METEO, format="open-meteo", column="temperature_2m", sampling="mean")
    assert late.sampling == "mean"


@pytest.mark.parametrize(
    ("kind", "text", "keys", "what"),
    [
        ("price", SMARD, {"format": "entsoe"}, "no line has the column of times that files of the"),
        ("price", SMARD, {"format": "smard"},
         ":1: name the column of values: 'Deutschland/Luxemburg [€/MWh] Originalauflösungen', 'Bel"),
        ("price", SMARD, {"format": "smard", "column": "Belgium"}, ":1: no column 'Belgium'; "),
        ("csv", OPEN_METEO, {"format": "open-meteo"}, ":4: name the column of values: 'temperature"),
        ("price", ELECTRICITY_MAPS, {"format": "electricity-maps", "column":
         "Carbon intensity gCO₂eq/kWh (direct)"}, "names gCO2/kWh, but unit 'price/MWh' is expected"),
        ("price", "", {"format": "smard"}, ": the file is empty"),
    ],
)  # fmt: skip
def test_another_file_than_the_formats_is_refused(read, kind, text, keys, what):
    with pytest.raises(TraceError) as caught:
        read(kind, text, **keys)
    assert what in str(caught.value)


PVGIS = """\
Latitude (decimal degrees):	48.200
Elevation (m):	512
month,year
1,2014
2,2009

time(UTC),T2m,RH,G(h),WS10m
20140131:2200,1.5,90.0,0.0,2.5
20140131:2300,1.0,90.0,0.0,3.5
20090201:0000,0.5,90.0,0.0,4.5

T2m: 2-m air temperature (degree Celsius)
PVGIS (c) European Union, 2001-2024
"""
WATTTIME = (
    "point_time,MOER (lbs/MWh)\n2024-01-01T00:00:00+00:00,1000\n2024-01-01T00:05:00+00:00,500\n"
)
GRIDSTATUS = """\
Time,Interval Start,Interval End,Wind,LMP
2024-01-01 00:00:00-06:00,2024-01-01 00:00:00-06:00,2024-01-01 00:05:00-06:00,12.5,20.5
2024-01-01 00:05:00-06:00,2024-01-01 00:05:00-06:00,2024-01-01 00:10:00-06:00,13.5,21.5
"""
EIA = "period,respondent,type-name,value,value-units\n" + "".join(
    f"2024-01-01T{hour:02d},TEX,Wind,{1000 + hour},megawatthours\n" for hour in range(3)
)
DATES = "%Y%m%d:%H%M"


@pytest.mark.parametrize(
    ("kind", "text", "keys", "values"),
    [
        ("csv", PVGIS, {"time": "time(UTC)", "time_format": DATES, "column": "T2m",
                        "unit": "degC"}, [1.5, 1, 0.5]),
        ("carbon", WATTTIME, {"column": "MOER (lbs/MWh)", "time": "point_time"},
         [453.59237, 226.796185]),
        ("price", GRIDSTATUS, {"time": "Interval Start", "column": "LMP"}, [0.0205, 0.0215]),
        ("csv", EIA, {"time": "period", "column": "value", "unit": "MWh", "zone": "UTC"},
         [1000e6, 1001e6, 1002e6]),
    ],
)  # fmt: skip
def test_other_sources_are_read_by_the_keys_of_the_how_to(read, kind, text, keys, values):
    trace = read(kind, text, **keys)
    assert trace.value.tolist() == pytest.approx(values)
    assert len(set(np.diff(trace.time_s))) <= 1
