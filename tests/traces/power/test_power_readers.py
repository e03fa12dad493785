"""The recorded signals: each kind is found by its name and returns one trace."""

from __future__ import annotations

import numpy as np
import pytest

from simkit import plugins
from simkit.errors import PluginError, TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.scenario.signals import SIGNALS
from simkit.scenario.workload import WORKLOADS
from simkit.traces.power.site import read_sample_site, sample_site_path


def read(name, path=None, **fields) -> PowerTrace:
    if path is not None:
        fields["path"] = path
    return SIGNALS.find(name).of(**fields).read()


@pytest.fixture
def site(tmp_path):
    path = tmp_path / "site.csv"
    path.write_text("time,solar_kw,wind_kw\n2019-06-01 12:00,120,\n2019-06-01 12:10,110,600\n"
                    "2019-06-01 12:20,100,500\n2019-06-01 12:30,,400\n")  # fmt: skip
    return path


@pytest.fixture
def wind(tmp_path):
    """An hour of the WIND Toolkit's form, at 50 m."""
    path = tmp_path / "wind.csv"
    path.write_text("SiteID,1,Site Timezone,-6,Data Timezone,-6\n"
                    "Year,Month,Day,Hour,Minute,wind speed at 50m (m/s)\n"
                    "2012,1,1,0,0,4\n2012,1,1,0,30,12\n2012,1,1,1,0,30\n")  # fmt: skip
    return path


def test_kinds_of_signals_are_no_kinds_of_logs():
    assert set(SIGNALS.names()) & set(WORKLOADS.names()) == {"plugin"}
    with pytest.raises(PluginError, match="'nsrbd' is not known as a kind of signal; did you mean"):
        plugins.find("simkit.signals", "nsrbd")


@pytest.mark.parametrize(
    ("part", "watts", "first"),
    [
        ("solar", [120e3, 110e3, 100e3], "12:00"),
        ("wind", [600e3, 500e3, 400e3], "12:10"),
        ("both", [710e3, 600e3], "12:10"),  # rows that have both
    ],
)
def test_parts_of_a_site(site, part, watts, first):
    trace = read("gleamm", site, part=part, zone="UTC-06:00")
    assert trace.value.tolist() == watts
    assert trace.time_s[0] == np.datetime64(f"2019-06-01T{first}", "s").astype(int) + 6 * 3600
    assert trace.report.dropped == {"value missing": 4 - len(watts)}
    assert trace.report.balanced()


def test_columns_of_a_site_may_have_other_names(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("when,pv,wt\n2019-06-01 12:00,1,2\n2019-06-01 13:00,3,4\n")
    names = {"time": "when", "solar": "pv", "wind": "wt", "unit": "MW", "label": "end"}
    trace = read("gleamm", path, zone="UTC", site_zone="America/Chicago", **names)
    assert trace.value.tolist() == [3e6, 7e6]
    assert (trace.label, trace.time_zone, trace.step_s) == ("end", "America/Chicago", 3600)
    with pytest.raises(TraceError, match="part: unknown value 'sun'"):
        read("gleamm", path, part="sun", zone="UTC", **names)


def test_the_sample_in_parts():
    whole = read_sample_site()
    assert read("gleamm-sample", part="solar").value.tolist() == whole.solar.value.tolist()
    both = read("gleamm-sample")
    assert both.value == pytest.approx(whole.solar.value + whole.wind.value)
    assert both.inputs == (sample_site_path(),)


def test_a_generic_turbine(wind):
    trace = read("wind-toolkit", wind, rated_w=200e3, turbines=3)
    still = (4**3 - 3**3) / (11**3 - 3**3)  # the cube of the speed, from 3 to 11 m/s
    assert trace.value == pytest.approx([3 * 200e3 * still, 600e3, 0], rel=0.01)  # 30 m/s: off
    assert trace.sampling == "instant"


def test_the_wind_is_stronger_at_the_hub(wind):
    turbine = {"rated_w": 200e3, "rated_m_s": 13.0}
    assert read("wind-toolkit", wind, **turbine).value[1] < 200e3  # 12 m/s at 50 m …
    higher = read("wind-toolkit", wind, hub_height_m=100.0, **turbine)
    assert higher.value[1] == 200e3  # … are 13.25 at 100 m
    still = read("wind-toolkit", wind, hub_height_m=100.0, shear_exponent=0.0, **turbine)
    assert still.value[1] < 200e3


def test_a_turbine_of_a_table(wind, tmp_path):
    table = tmp_path / "curves.csv"
    table.write_text("turbine_type,3.0,12.0,25.0\nT-1/500,0,500000,500000\n")
    trace = read("wind-toolkit", wind, turbine="T-1/500", curves=table)
    assert trace.value == pytest.approx([500e3 / 9, 500e3, 0])
    assert trace.inputs == (wind, table)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({}, "needs either turbine or rated_w; give one of the two"),
        ({"cut_in_m_s": 3.0}, "needs either turbine or rated_w"),
        ({"curves": "x.csv", "rated_w": 1e3}, "curves lists types of turbines; name one"),
        ({"turbine": "T", "rated_w": 1e3}, "needs either turbine or rated_w"),
        ({"turbine": "T", "cut_in_m_s": 3.0}, "turbine has its own curve; leave cut_in_m_s out"),
        ({"rated_w": -1.0}, "rated_w: must be more than 0"),
        ({"rated_w": 1e3, "cut_in_m_s": 12.0}, "ascending speeds"),
        ({"rated_w": 1e3, "turbines": 0}, "turbines: must be at least 1, not 0"),
    ],
)
def test_turbines_that_are_none(wind, fields, what):
    with pytest.raises(TraceError, match=what):
        read("wind-toolkit", wind, **fields)
