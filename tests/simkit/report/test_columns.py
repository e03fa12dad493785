"""Packed columns, lanes, occupancy and extremes, each against a plain second way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed_columns import unpacked

from simkit.report.gantt import BINS, bars_of, occupancy
from simkit.report.over_time import LARGEST, Packed, binned_extremes, whole
from simkit.results.run_folder import open_run


@given(st.lists(st.integers(0, LARGEST), max_size=40), st.lists(st.text(), max_size=5))
def test_columns_come_back_as_they_were(numbers, texts):
    packed = Packed()
    packed.numbers("n", numbers)
    packed.texts("t", texts)
    packed.bytes_of("b", np.array([1, 2, 255], np.uint8))
    assert unpacked(packed.finish()) == {"n": numbers, "t": texts, "b": [1, 2, 255]}


def test_times_are_whole_numbers_of_the_unit_and_never_wrap():
    times = np.array([5.0, 5.26, np.inf, -1.0, np.nan])
    assert whole(times, 5.0, 0.1).tolist() == [0, 3, LARGEST, 0, 0]


rectangles = st.lists(
    st.tuples(st.integers(0, 90), st.integers(0, 30), st.integers(0, 19), st.integers(1, 6)),
    max_size=12,
)


@given(rectangles)
def test_occupancy_is_the_covered_area(rects):
    lanes, span = 25, 128.0
    start, length, lane, height = np.array(rects, np.int64).reshape(-1, 4).T
    end = np.minimum(start + length, 128)
    grid = occupancy(start.astype(float), end.astype(float), lane, height, lanes, span)
    assert grid.shares.shape == (lanes, BINS)
    plain = np.zeros((lanes, 128))
    for s, e, low, high in zip(start, end, lane, lane + height, strict=True):
        plain[low:high, s:e] += 1
    seen = grid.shares.reshape(lanes, 128, -1)
    assert (seen == np.clip(255 * plain, 0, 255)[:, :, None]).all()


def test_bands_hold_several_lanes_and_the_shortest_bar_is_seen():
    one = np.array([0])
    grid = occupancy(np.array([10.0]), np.array([10.001]), one, one + 1, 1000, 1e6)
    assert grid.lanes_a_band == 4
    assert grid.shares.max() == 1
    assert (grid.shares > 0).sum() == 1


steps = st.lists(st.tuples(st.floats(0, 100), st.integers(-5, 5)), max_size=20)


@given(steps)
def test_extremes_are_those_of_every_instant(changes):
    changes = sorted({round(time, 1): value for time, value in changes}.items())
    time, values = np.array(changes, np.float64).reshape(-1, 2).T
    edges = np.linspace(0, 100, 6)
    low, high = binned_extremes(time, values, edges, before=7.0)
    at = np.arange(0, 100, 0.05) + 0.025  # between any two of the times
    held = np.concatenate(([7.0], values))[np.searchsorted(time, at, side="right")]
    for n in range(5):
        inside = held[(at > edges[n]) & (at < edges[n + 1])]
        assert (low[n], high[n]) == (inside.min(), inside.max())


def overlaps(start, end, lane, lanes):
    """Count pairs of rectangles that cover the same lane at the same time."""
    count = 0
    for a in range(len(start)):
        for b in range(a):
            apart = end[a] <= start[b] or end[b] <= start[a]
            beside = lane[a] + lanes[a] <= lane[b] or lane[b] + lanes[b] <= lane[a]
            count += not (apart or beside)
    return count


def test_no_lane_has_two_bars_at_once(write_run, random_jobs):
    jobs = random_jobs(120, spread_s=2e5)
    bars = bars_of(open_run(write_run("pool", jobs, capacity=60)))
    start, end = (bars.rows[f"{n}_time_s"].to_numpy()[bars.bar] for n in ("start", "end"))
    assert overlaps(start, end, bars.lane, bars.lanes) == 0
    held = np.bincount(bars.bar, bars.lanes, len(bars.rows))
    assert (held == bars.rows["amount"].to_numpy()).all()
    assert bars.by_processor
    assert bars.lane.max() < bars.first_lane[-1]


def test_fractions_of_a_processor_have_a_lane_each_on_their_machine(tmp_path):
    import simkit

    tasks = tmp_path / "tasks.csv"
    tasks.write_text(
        "job_id,task_id,submit_time_s,run_time_s,instances,cpu\n"
        + "".join(f"{n},t,{n},{10 + 3 * n},{1 + n % 3},0.4\n" for n in range(30))
    )
    run = simkit.simulate(
        {
            "workload": {"type": "tasks", "path": str(tasks), "columns": {
                name: name
                for name in ("job_id", "task_id", "submit_time_s", "run_time_s", "cpu", "instances")
            }},
            "cluster": {"machines": [{"count": 5, "cpu": 2}]},
            "policy": {"fitness": "first-fit"},
        }
    )  # fmt: skip
    bars = bars_of(run)
    assert not bars.by_processor
    assert (bars.lanes == 1).all()
    start, end = (bars.rows[f"{n}_time_s"].to_numpy()[bars.bar] for n in ("start", "end"))
    assert overlaps(start, end, bars.lane, bars.lanes) == 0
    machine = bars.rows["machine_id"].to_numpy()[bars.bar]
    place = np.searchsorted(bars.first_lane, bars.lane, side="right") - 1
    assert (place == machine).all()


def test_a_bar_that_still_runs_keeps_its_lanes(write_run):
    jobs = {
        "job_id": [1, 2], "submit_time_s": [0.0, 0.0], "run_time_s": [50.0, 10.0],
        "processors": [3.0, 2.0], "start_time_s": [0.0, 60.0], "status": ["running", "finished"],
    }  # fmt: skip
    bars = bars_of(open_run(write_run("open", jobs)))
    assert bars.lane.tolist() == [0, 3]


@pytest.mark.parametrize("start", [None, 0.0])
def test_a_run_with_and_without_a_bar(write_run, start):
    one = {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [0.0], "processors": [1.0]}
    bars = bars_of(open_run(write_run("one", {**one, "start_time_s": [start]})))
    assert len(bars.bar) == (start is not None)
    assert bars.first_lane.tolist() == [0, 8, 8]
