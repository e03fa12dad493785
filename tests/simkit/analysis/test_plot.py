"""Pictures: drawn from a run folder, the same bytes each time, clear errors."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simkit
from simkit.analysis.plot import plot_compare, plot_groups, plot_run
from simkit.analysis.plot_power import LAYERS, plot_power
from simkit.errors import RunError, SimkitError
from simkit.results.run_folder import Run
from simkit.results.timeline import bin_edges, bin_length, binned_mean


def written(plot, *arguments):
    """Return the file that a picture was written to."""
    plot(*arguments)
    return arguments[-1]


@pytest.fixture
def folder(write_run, random_jobs):
    return write_run("tiny", random_jobs(200), capacity=60, epoch_s=893466664.0, time_zone="UTC")


@pytest.mark.parametrize(
    ("name", "starts"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml"), ("p.pdf", b"%PDF")]
)
def test_a_picture_is_the_same_each_time(folder, tmp_path, name, starts):
    first = written(plot_run, folder, tmp_path / name).read_bytes()
    second = written(plot_run, folder, tmp_path / f"again-{name}").read_bytes()
    assert first.startswith(starts)
    assert first == second


def test_the_picture_says_what_it_shows(folder, tmp_path):
    text = written(plot_run, folder, tmp_path / "p.svg").read_text()
    for words in ("tiny", "policy fcfs + easy", "60 processors", "200 jobs", "1998-04-25",
                  "Utilisation: processors", "in use (%)", "available", "Tasks waiting",
                  "jobs that started (%)"):  # fmt: skip
        assert words in text, words
    assert "days since" not in text


@pytest.mark.parametrize("epoch", [None, 0.0, -5.0])
def test_without_an_epoch_the_axis_counts_days(write_run, random_jobs, tmp_path, epoch):
    folder = write_run("undated", random_jobs(50), capacity=60, epoch_s=epoch)
    assert (
        "days since the first submit" in written(plot_run, folder, tmp_path / "p.svg").read_text()
    )


def test_runs_in_which_nothing_started_or_one_job_only_can_be_drawn(write_run, tmp_path):
    one = {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [0.0], "processors": [1.0]}
    for name, start in (("one", 0.0), ("none", None)):
        folder = write_run(name, {**one, "start_time_s": [start]})
        assert written(plot_run, folder, tmp_path / f"{name}.png").stat().st_size > 1000


def test_problems_are_said(folder, write_run, tmp_path, monkeypatch):
    with pytest.raises(SimkitError, match=r"\.png, \.svg or \.pdf"):
        plot_run(folder, tmp_path / "p.gif")
    with pytest.raises(SimkitError, match="cannot be written"):
        plot_run(folder, tmp_path / "nowhere" / "p.png")
    with pytest.raises(SimkitError, match="at least one"):
        plot_compare([], tmp_path / "p.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SimkitError, match=r"pip install 'simkit-cluster\[plot\]'"):
        plot_run(folder, tmp_path / "p.png")


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ({"order": "fcfs", "backfill": "none"}, "fcfs"),
        ({"order": {"type": "multifactor", "age": 1.0}, "backfill": "easy"}, "multifactor + easy"),
        ({"path": "my_policy.py:Mine"}, "my_policy.py:Mine"),
        (
            {"lookahead": [{"path": "/there/mine.py:Mine"}, {"order": "sjf", "backfill": "easy"}]},
            "lookahead(mine.py:Mine, sjf + easy)",
        ),
        (None, "unknown"),
    ],
)
def test_policy_in_a_few_words(tmp_path, policy, text):
    assert Run(tmp_path, {"scenario": {"policy": policy}}).policy == text


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 9)), min_size=1, max_size=30),
    st.integers(1, 40),
)
def test_means_over_bins_keep_the_area(steps, length):
    steps.sort(key=lambda step: step[0])
    time_s, values = (np.array(column, dtype=float) for column in zip(*steps, strict=True))
    edges = bin_edges(0.0, 110.0, float(length))
    seconds = np.diff(np.append(time_s, edges[-1]))
    assert binned_mean(time_s, values, edges) @ np.diff(edges) == pytest.approx(values @ seconds)


def test_the_value_before_the_first_time_counts():
    edges = np.array([0.0, 10.0, 20.0])
    found = binned_mean(np.array([5.0]), np.array([0.0]), edges, before=8.0)
    assert found.tolist() == [4.0, 0.0]


def test_bins_are_of_familiar_length():
    day = 86400.0
    spans = (60.0, 5 * day, 30 * day, 365 * day, 3650 * day, 1e12)
    lengths = [bin_length(span) for span in spans]
    assert lengths[:5] == [1.0, 600.0, 3600.0 * 1, day, 7 * day]
    assert 1e12 / lengths[5] <= 800


# --- of power --------------------------------------------------------------------------------


SITE = {
    "name": "site",
    "workload": {"type": "lublin", "jobs": 60, "processors": 32},
    "power": {
        "machines": {"idle_w": 60, "full_w": 200},
        "align": {"zero": "2019-04-01T00:00:00Z", "zone": "America/Chicago"},
        "sources": {"sun": {"signal": {"type": "schedule", "day": {"0:00": 0, "8:00": 9000}}}},
    },
}
BATTERY = {"capacity_kwh": 20, "floor": 0.1}


def of_site(**power):
    return simkit.simulate({**SITE, "power": {**SITE["power"], **power}})


def test_the_picture_of_power_says_where_energy_went(tmp_path):
    run = of_site(battery=BATTERY, supply={"limit": "power"})
    text = written(plot_power, run, tmp_path / "p.svg").read_text()
    assert text == written(plot_power, run, tmp_path / "again.svg").read_text()
    used = run.power.select("load_renewable_w", "load_battery_w", "charge_w", "curtailment_w")
    assert all(used[name].sum() > 0 for name in used.columns)
    for words in ("site", "policy fcfs", "sun ", "battery ", "curtailed ", "load ",
                  "into the battery ", "power (kW)", "State of charge of 20 kWh", "lowest to highest", "limits",
                  "Capacity that the power carries", "time in America/Chicago"):  # fmt: skip
        assert words in text, words
    for words in ("unserved", "grid", "exported"):  # nothing of these flowed
        assert words not in text, words


def test_without_a_battery_there_is_no_panel_of_it(tmp_path):
    text = written(
        plot_power, of_site(grid={"import_limit_w": 2000}), tmp_path / "p.svg"
    ).read_text()
    assert "State of charge" not in text
    assert "unserved " in text
    assert "Capacity" in text
    assert "allocated" in text


def test_the_bands_are_all_that_comes_and_all_that_goes():
    run = of_site(battery=BATTERY, grid={"import_limit_w": 2000, "export_limit_w": 3000})
    bands = run.power.select(band.column for band in LAYERS)
    comes = run.power.select("generation_w", "import_w", "discharge_w", "unserved_w")
    wants = run.power["load_w"] + run.power["losses_w"]
    assert bands.min_horizontal().min() >= 0
    assert bands.sum_horizontal().to_numpy() == pytest.approx(comes.sum_horizontal().to_numpy())
    assert bands[:, :4].sum_horizontal().to_numpy() == pytest.approx(wants.to_numpy())


def test_a_run_without_power_or_jobs_has_no_picture_of_power(folder, tmp_path):
    with pytest.raises(RunError, match="has no power.*add a section `power`"):
        plot_power(folder, tmp_path / "p.png")
    idle = simkit.simulate({**SITE, "workload": {"type": "lublin", "jobs": 1, "processors": 1}})
    idle.jobs.clear().write_parquet(tmp_path / "jobs.parquet")
    empty = Run(tmp_path, idle.info)
    idle.power.write_parquet(tmp_path / "power.parquet")
    idle.timeline.write_parquet(tmp_path / "timeline.parquet")
    with pytest.raises(SimkitError, match="no jobs, so there is nothing to draw"):
        plot_power(empty, tmp_path / "p.png")


def test_groups_are_drawn_with_their_names(write_run, random_jobs, tmp_path):
    table = random_jobs(60)
    table["user"] = ["ann", "bob", "eve"] * 20
    folder = write_run("grouped", table, capacity=60)
    first = written(plot_groups, [folder, folder], "user", tmp_path / "a.svg").read_text()
    assert first == written(plot_groups, [folder, folder], "user", tmp_path / "b.svg").read_text()
    for words in ("ann", "bob", "eve", "Wait time (", "Bounded slowdown", "by user"):
        assert words in first, words
    many = write_run("many", random_jobs(60) | {"user": list(range(60))}, capacity=60)
    assert (
        "20 more groups not drawn"
        in written(plot_groups, [many], "user", tmp_path / "c.svg").read_text()
    )
    with pytest.raises(SimkitError, match="no run is given"):
        plot_groups([], "user", tmp_path / "d.svg")
