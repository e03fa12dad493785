"""Unix times as dates: no number raises, wherever a log or a series has it from."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit.analysis.plot_panels import TimeAxis
from simkit.dates import (
    EARLIEST_S,
    LATEST_S,
    date_of,
    date_text,
    is_dated,
    parse_zone,
    standard_offset_s,
    utc_offset_s,
)
from simkit.errors import TraceError
from simkit.power.signal_trace import PowerTrace
from simkit.progress import simulated_date
from simkit.traces.swf import read_swf
from simkit.workload import Workload
from simkit.workload.recorded import Recorded
from simkit.workload.trace import job_facts


@given(st.floats())
def test_no_number_raises(number):
    zone = parse_zone("Europe/Berlin")
    assert date_of(number) is None or isinstance(date_text(number, "%Y"), str)
    assert isinstance(date_text(number, "%Y-%m-%d %Z", zone), str)
    assert abs(utc_offset_s(zone, number)) <= 2 * 3600 + 1
    assert standard_offset_s("Europe/Berlin", number) <= 3600
    assert isinstance(simulated_date(0.0, number), str)


def test_the_years_of_traces():
    assert (date_text(EARLIEST_S, "%Y-%m-%d"), date_text(LATEST_S, "%Y-%m-%d")) == (
        "1900-01-01", "2200-01-01",
    )  # fmt: skip
    assert not is_dated(1.7172e12)
    assert not is_dated(math.nan)
    assert date_text(1.7172e12, "%Y") == "Unix time 1717200000000 s"


def test_a_series_far_from_our_days_is_refused():
    with pytest.raises(
        TraceError, match="Unix time 1717203600000 is beyond the years 1900 to 2199"
    ):
        PowerTrace(np.array([0.0, 1717203600000.0]), np.ones(2), "W", "UTC")


def test_a_workload_far_from_our_days_is_refused():
    columns = {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [1.0], "processors": [1.0]}
    columns = {name: np.array(values) for name, values in columns.items()}
    with pytest.raises(TraceError, match="epoch_s is 1717200000000, no Unix time in s"):
        Workload.from_jobs(columns, epoch_s=1.7172e12)


JOB = "1 0 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n"


@pytest.mark.parametrize(
    ("start", "epoch", "note"),
    [
        ("1717200000", 1717200000, {}),
        ("1717200000000", 1717200000, {"start time in milliseconds": 1}),
        ("1717200000000000000000", None, {"start time is no date": 1}),
        ("99999999999", None, {"start time is no date": 1}),
        ("0", None, {}),
    ],
)
def test_the_start_of_a_log_in_milliseconds_is_read_and_said(tmp_path, start, epoch, note):
    path = tmp_path / "log.swf"
    path.write_text(f"; MaxProcs: 1\n; UnixStartTime: {start}\n{JOB}")
    trace = read_swf(path)
    assert math.isnan(trace.workload.epoch_s) if epoch is None else True
    assert epoch is None or trace.workload.epoch_s == epoch
    assert trace.report.notes == note
    shown = job_facts(trace, Recorded.without_starts(trace.workload))["first submit"]
    assert shown == ("0 s" if epoch is None else "2024-06-01 00:00 UTC")
    scenario = {"workload": {"type": "swf", "path": str(path)}, "policy": {"order": "fcfs"}}
    run = simkit.simulate(scenario, output=tmp_path / "run")
    axis = TimeAxis([run], (0.0, 60.0))
    assert axis.dated == (epoch is not None)
    assert axis.period()
