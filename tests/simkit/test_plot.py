"""Pictures: drawn from a run folder, the same bytes each time, clear errors."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import SimkitError
from simkit.plot import plot_compare, plot_run
from simkit.run_folder import Run
from simkit.series import bin_edges, bin_length, binned_mean


@pytest.fixture
def folder(write_run, random_jobs):
    return write_run("tiny", random_jobs(200), capacity=60, epoch_s=893466664.0, time_zone="UTC")


@pytest.mark.parametrize(("name", "starts"), [("p.png", b"\x89PNG"), ("p.svg", b"<?xml")])
def test_a_picture_is_the_same_each_time(folder, tmp_path, name, starts):
    first = plot_run(folder, tmp_path / name).read_bytes()
    second = plot_run(folder, tmp_path / f"again-{name}").read_bytes()
    assert first.startswith(starts)
    assert first == second


def test_the_picture_says_what_it_shows(folder, tmp_path):
    text = plot_run(folder, tmp_path / "p.svg").read_text()
    for words in ("tiny", "policy fcfs + easy", "60 processors", "200 jobs", "1998-04-25",
                  "processors in use (%)", "tasks waiting", "share of jobs (%)"):  # fmt: skip
        assert words in text, words
    assert "days since" not in text


@pytest.mark.parametrize("epoch", [None, 0.0, -5.0, float("nan")])
def test_without_an_epoch_the_axis_counts_days(write_run, random_jobs, tmp_path, epoch):
    folder = write_run("undated", random_jobs(50), capacity=60, epoch_s=epoch)
    assert "days since the first submit" in plot_run(folder, tmp_path / "p.svg").read_text()


def test_several_runs_share_a_picture(folder, write_run, random_jobs, tmp_path):
    other = write_run("other", random_jobs(200, seed=1), capacity=60)
    text = plot_compare([folder, other], tmp_path / "p.svg").read_text()
    assert "Comparison of runs" in text
    assert "tiny" in text
    assert "other" in text


def test_runs_in_which_nothing_started_or_one_job_only_can_be_drawn(write_run, tmp_path):
    one = {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [0.0], "processors": [1.0]}
    for name, start in (("one", 0.0), ("none", None)):
        folder = write_run(name, {**one, "start_time_s": [start]})
        assert plot_run(folder, tmp_path / f"{name}.png").stat().st_size > 1000


def test_problems_are_said(folder, write_run, tmp_path, monkeypatch):
    with pytest.raises(SimkitError, match=r"\.png or \.svg"):
        plot_run(folder, tmp_path / "p.pdf")
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
