"""The power of a run at regular times: the same energies whatever the interval."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import simkit
from simkit.analysis.export import export_power
from simkit.cli import app
from simkit.cli.run_text import power_line
from simkit.errors import RunError
from simkit.experiment import prepare
from simkit.power.ledger import COLUMNS, RATES, STORED
from simkit.results import timeline as time_bins
from simkit.results.run_folder import MemoryRun
from simkit.results.timeline import MEANS, binned_power
from simkit.scenario.yaml_document import load_scenario

HOUR = 3600.0
SCENARIO = {
    "name": "site",
    "workload": {"type": "lublin", "jobs": 40, "processors": 32},
    "power": {
        "machines": {"idle_w": 60, "full_w": 200},
        "pue": 1.2,
        "align": {"zero": "2019-04-01T00:00:00Z"},
        "sources": {"sun": {"signal": {"type": "schedule", "day": {"0:00": 0, "8:00": 9e3}}}},
        "battery": {"capacity_kwh": 20, "initial_soc": 0.25},
        "grid": {
            "import_limit_w": 2e3,
            "price_per_kwh": {"type": "schedule", "day": {"0:00": 0.1, "7:00": 0.3}},
            "carbon_gco2_per_kwh": 400,
        },
    },
}


@pytest.fixture(scope="module")
def run():
    return simkit.simulate(SCENARIO)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return simkit.simulate(SCENARIO, output=tmp_path_factory.mktemp("power") / "run").folder


def amounts(table):
    """Return what flowed in all rows, in J, g and cost."""
    span = table["end_s"] - table["start_s"]
    return {name: math.fsum(table[name] * span) for name in RATES}


# --- nothing is lost -------------------------------------------------------------------------


def test_the_run_tests_something(run):
    flowed = amounts(run.power)
    for name in ("load_battery_w", "unserved_w", "curtailment_w", "charge_w", "import_w"):
        assert flowed[name] > 0, name
    assert run.power["start_s"][0] == 0 < run.jobs["submit_time_s"][0]


@pytest.mark.parametrize("interval", ["1s", 1, "7s", "1m", 300.0, "5m", "1h", "400d", 0.37 * HOUR])
def test_energies_are_those_of_the_table_for_any_interval(run, interval):
    view = run.power_every(interval)
    assert view.columns == list(COLUMNS) == run.power.columns
    assert amounts(view) == pytest.approx(amounts(run.power), rel=1e-9, abs=1e-9)
    for name in STORED:
        assert view[name][-1] == run.power[name][-1]


@given(interval=st.floats(1.0, HOUR))
def test_rows_follow_each_other_from_the_first_start_past_the_end(run, interval):
    view, power = run.power_every(interval), run.power
    assert view["start_s"][0] == power["start_s"][0]
    assert (view["start_s"][1:] == view["end_s"][:-1]).all()
    assert (view["end_s"] - view["start_s"]).to_numpy() == pytest.approx(interval, rel=1e-6)
    assert view["start_s"][-1] < power["end_s"][-1] <= view["end_s"][-1] * (1 + 1e-12)
    assert amounts(view) == pytest.approx(amounts(power), rel=1e-9, abs=1e-9)


@st.composite
def ledgers(draw):
    """Rows of a ledger with flows, prices and contents of no meaning, but without gaps."""
    spans = draw(st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=20))
    numbers = st.floats(-1e6, 1e6)
    times = draw(st.floats(0, 1e6)) + np.concatenate(([0.0], np.cumsum(spans)))
    made = {"start_s": times[:-1], "end_s": times[1:]}
    same = np.array(draw(st.lists(numbers, min_size=len(spans), max_size=len(spans))))
    for number, name in enumerate((*RATES, *MEANS, *STORED)):
        made[name] = np.roll(same, number)
    return made


@given(
    rows=ledgers(),
    shares=st.lists(st.floats(0.01, 1), min_size=1, max_size=15),
    beyond=st.floats(0, 100),
)
def test_any_bins_hold_what_flowed_in_them(rows, shares, beyond):
    start, end = rows["start_s"][0] - beyond, rows["end_s"][-1] + beyond
    edges = start + (end - start) * np.concatenate(([0.0], np.cumsum(shares))) / sum(shares)
    edges[-1] = end
    view = binned_power(rows, edges)
    span, lengths = rows["end_s"] - rows["start_s"], np.diff(edges)
    for name in RATES:
        scale = math.fsum(np.abs(rows[name]) * span)
        assert math.fsum(view[name] * lengths) == pytest.approx(
            math.fsum(rows[name] * span), rel=1e-9, abs=1e-9 * scale
        )
    for name in MEANS:  # a mean lies between what it is the mean of
        known = view[name][~np.isnan(view[name])]
        slack = 1e-9 * np.abs(rows[name]).max()
        assert (known >= rows[name].min() - slack).all()
        assert (known <= rows[name].max() + slack).all()


def ledger(**columns):
    """Return rows in which all that is not given is 0."""
    zeros = dict.fromkeys(COLUMNS, np.zeros(len(columns["end_s"])))
    return {**zeros, **{name: np.array(column) for name, column in columns.items()}}


TWO_ROWS = ledger(
    start_s=[0.0, 10.0],
    end_s=[10.0, 20.0],
    load_w=[6.0, 12.0],
    price_per_kwh=[0.1, 0.3],
    stored_j=[60.0, 0.0],
)


def test_by_hand():
    view = binned_power(TWO_ROWS, [5.0, 15.0, 25.0, 30.0], {"stored_j": 20.0})
    assert view["load_w"].tolist() == [9.0, 6.0, 0.0]  # nothing flows after the end
    assert view["price_per_kwh"][:2] == pytest.approx([0.2, 0.3])  # but prices hold while it lasts
    assert math.isnan(view["price_per_kwh"][2])
    assert view["stored_j"].tolist() == [30.0, 0.0, 0.0]  # half of the second row has gone


def test_within_a_row_the_store_is_filled_evenly_if_its_first_content_is_known():
    edges = [0.0, 2.5, 10.0]
    known = binned_power(TWO_ROWS, edges, {"stored_j": 20.0})["stored_j"]
    assert known.tolist() == [30.0, 60.0]
    unknown = binned_power(TWO_ROWS, edges)["stored_j"]
    assert math.isnan(unknown[0])
    assert unknown[1] == 60.0


def test_the_battery_begins_at_its_first_content(run):
    capacity = 20 * 3.6e6
    view = run.power_every("1s")
    assert run.power["charge_w"][0] + run.power["discharge_w"][0] > 0
    first = view["stored_j"][0]
    assert first != run.power["stored_j"][0]
    assert first == pytest.approx(0.25 * capacity, abs=20e3)  # a second at most 1 C away


def test_constant_power_is_exact_after_years():
    rows = ledger(start_s=[0.0, 1e9], end_s=[1e9, 1e9 + 10], load_w=[12.3, 45.6])
    view = binned_power(rows, 1e9 + np.arange(-3, 4, dtype=float))
    assert view["load_w"].tolist() == [12.3] * 3 + [45.6] * 3


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", "P.CSV"])
@pytest.mark.parametrize("every", [None, "5m"])
def test_a_file_holds_the_table(run, tmp_path, monkeypatch, name, every):
    monkeypatch.setattr(time_bins, "_ROWS_AT_ONCE", 7)  # several pieces make one table
    export_power(run, tmp_path / name, every=every)
    read = pl.read_csv if name.lower().endswith(".csv") else pl.read_parquet
    expected = run.power if every is None else run.power_every(every)
    assert len(expected) > 50
    assert read(tmp_path / name).cast(pl.Float64).equals(expected)
    assert [path.name for path in tmp_path.iterdir()] == [name]


PROBLEMS = [
    # interval, what the error says
    (0, "0 is not above 0; write 300, 5m or 1h"),
    ("-5m", "'-5m' is not above 0"),
    ("soon", "'soon' is not a duration"),
    (math.inf, "not a finite duration"),
    ("0.001s", "intervals of 0.001 s from 0 s .* at most 33,554,432: choose longer intervals"),
]


@pytest.mark.parametrize(("interval", "words"), PROBLEMS)
def test_a_wrong_interval_is_refused(run, interval, words):
    with pytest.raises(RunError, match=words):
        run.power_every(interval)


def test_problems_of_files_are_said(run, tmp_path):
    with pytest.raises(RunError, match=r"p.swf: a table of power is .csv or .parquet"):
        export_power(run, tmp_path / "p.swf")
    with pytest.raises(RunError, match="cannot be written: nothing can be made at that place"):
        export_power(run, tmp_path / "nowhere" / "p.csv", every=60)
    with pytest.raises(RunError, match="0 is not above 0"):
        export_power(run, tmp_path / "p.csv", every=0)
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_power_says_what_to_do(write_run, random_jobs, tmp_path):
    folder = write_run("tiny", random_jobs(5))
    for what in (
        lambda: simkit.open_run(folder).power_every("1h"),
        lambda: export_power(folder, tmp_path / "p.csv"),
    ):
        with pytest.raises(RunError, match="its scenario has no power.*add a section"):
            what()


def test_a_table_without_rows_stays_one(run):
    empty = MemoryRun(run.info, {"power": run.power.clear()})
    view = empty.power_every("1h")
    assert view.columns == list(COLUMNS)
    assert not len(view)


# --- the command line ------------------------------------------------------------------------


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_export_power(folder, tmp_path):
    run = simkit.open_run(folder)
    for arguments, expected in (
        (("p.csv", "--format", "power", "--every", "5m"), run.power_every(300)),
        (("p.parquet", "--every", "1h"), run.power_every(3600)),
        (("p.parquet",), run.power),
    ):
        target = tmp_path / arguments[0]
        result = call("export", folder, target, *arguments[1:])
        assert result.output == f"{target} written (power)\n"
        read = pl.read_csv if target.suffix == ".csv" else pl.read_parquet
        assert read(target).cast(pl.Float64).equals(expected)
    refused = call("export", folder, tmp_path / "p.csv", "--every", "5m")
    assert refused.exit_code == 2
    assert "--every goes with --format power, not batsim" in " ".join(refused.output.split())
    assert "gives no format" in str(call("export", folder, tmp_path / "p.txt").exception)


POWER_LINES = [
    # what the scenario says of power, the line that `simkit run` prints
    (
        {"sources": {"sun": {"signal": 44.4e3}, "wind": {"signal": 2.5e6}},
         "battery": {"capacity_kwh": 1500}, "supply": {"limit": "power", "running": "drain"},
         "forecast": {"type": "perfect", "horizon": "36h"}},
        "sun 44.4 kW on average, wind 2.5 MW on average, battery 1,500 kWh, no grid, limit power, "
        "then drain, forecast perfect for 36 h",
    ),
    ({"grid": {}}, "grid without limit, no supply limit, no forecast"),
    ({"grid": {"import_limit_w": 500}}, "grid up to 500 W, no supply limit, no forecast"),
    (
        {"grid": {"import_limit_w": {"type": "schedule", "day": {"0:00": 0, "8:00": 9e3}}}},
        "grid with a limit that varies, no supply limit, no forecast",
    ),
    (None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("power", "line"), POWER_LINES)
def test_the_line_on_power(power, line):
    scenario = {"name": "s", "workload": {"type": "lublin", "jobs": 5, "processors": 8}}
    if power is not None:
        machines, zero = {"idle_w": 60, "full_w": 200}, "2019-04-01T00:00:00Z"
        scenario["power"] = {"machines": machines, "align": {"zero": zero}, **power}
    assert power_line(prepare(load_scenario(scenario))) == line
