"""What a sweep prints: the metrics that tell the most, or those that are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.cli.run_text import sweep_blocks
from simkit.cli.text import print_blocks
from simkit.experiment.workers import SweepOutcome

USUAL = {
    "wait_time_s": {"mean": 60.0, "p99": 90.0, "unit": "s"},
    "bounded_slowdown": {"mean": 2.0, "unit": "1"},
    "utilisation_cpu": {"value": 0.5, "unit": "1"},
    "makespan_s": {"value": 3600.0, "unit": "s"},
}


def outcomes(*found, key="seed"):
    """Return a run for each mapping of name → value, on top of the usual metrics."""
    return [
        SweepOutcome(
            {key: n}, Path(f"r{n}"), "done", seconds=1.0,
            metrics=USUAL | {name: {"value": x, "unit": "1"} for name, x in one.items()},
        )
        for n, one in enumerate(found)
    ]  # fmt: skip


@pytest.fixture
def header(capsys):
    """Return a function that prints a sweep and returns the words of the table's first line."""

    def words(runs, metrics=()):
        print_blocks(sweep_blocks(Path("here"), runs, metrics))
        words.printed = capsys.readouterr().out
        return words.printed.splitlines()[0].split()

    return words


HEADERS = [
    # runs without worth and power: the usual four
    ([{}, {}], [*USUAL]),
    # what differs is shown, what is the same everywhere is not
    ([{"value_ratio": 1, "carbon_kg": 5.0}, {"value_ratio": 1, "carbon_kg": 6.0}],
     [*USUAL, "carbon_kg"]),
    # one run: what is not 0
    ([{"carbon_kg": 0.0, "renewable_fraction": 0.7}], [*USUAL, "renewable_fraction"]),
    # a value that a run lacks does not hide that of others
    ([{"energy_cost": 2.0}, {}, {"energy_cost": 3.0}], [*USUAL, "energy_cost"]),
]  # fmt: skip


@pytest.mark.parametrize(("found", "names"), HEADERS)
def test_the_table_shows_what_tells_something(header, found, names):
    shown = ["utilisation" if name == "utilisation_cpu" else name for name in names]
    assert header(outcomes(*found)) == ["Run", "seed", *shown, "seconds"]
    assert "Left out" not in header.printed


def test_where_there_is_no_room_the_usual_ones_give_way_first(header):
    full = ["value_ratio", "completion_ratio", "renewable_fraction", "carbon_kg", "energy_cost"]
    runs = outcomes(*(dict.fromkeys(full, x) for x in (0.5, 0.6)), key="power.battery.capacity_kwh")
    assert header(runs) == [
        "Run", "power.battery.capacity_kwh", "wait_time_s", *full, "seconds",
    ]  # fmt: skip
    assert (
        "Left out    makespan_s, bounded_slowdown, utilisation; --metrics names" in header.printed
    )
    assert max(map(len, header.printed.splitlines())) <= 140


def test_metrics_are_shown_by_name_whatever_they_are(header):
    runs = outcomes({"carbon_kg": 5.0}, {"carbon_kg": 5.0})
    assert header(runs, ["wait_time_s.p99", "carbon_kg", "carbn"]) == [
        "Run", "seed", "wait_time_s.p99", "carbon_kg", "carbn", "seconds",
    ]  # fmt: skip
    assert header.printed.splitlines()[1].split() == ["done", "0", "00:01:30", "5", "-", "1.0"]
    assert "no run has a metric 'carbn'; did you mean 'carbon_kg'?" in header.printed


def test_a_failed_run_has_a_line_without_numbers(header):
    failed = SweepOutcome({"seed": 1}, Path("r1"), "failed", "no idea")
    header([*outcomes({"carbon_kg": 5.0}), failed])
    lines = header.printed.splitlines()
    assert lines[2].split() == ["failed", "1", *["-"] * 5]
    assert "Runs        1 done, 1 failed" in lines
    header([failed], ["carbon_kg"])
    assert "no run has" not in header.printed  # nobody knows


def test_what_was_swept_is_shown_as_a_scenario_has_it(capsys):
    runs = outcomes({}, {}, {}, key="policy")
    swept = [{"agent": "deeprm-70"}, {"order": "sjf", "backfill": "easy"}, "x"]
    for run, policy in zip(runs, swept, strict=True):
        run.assignment["policy"] = policy
    print_blocks(sweep_blocks(Path("here"), runs, ["makespan_s"]))
    first, second, third = capsys.readouterr().out.splitlines()[1:4]
    assert "{agent: deeprm-70}" in first
    assert "{order: sjf, backfill: easy}" in second
    assert "'" not in third


def test_jobs_that_did_not_finish_stand_beside_the_means(header):
    runs = outcomes({}, {})
    assert not {"rejected", "killed", "unfinished"} & set(header(runs))
    runs[0].metrics["jobs"] = {"unit": "jobs", "rejected": 2, "running": 1, "waiting": 3}
    runs[1].metrics["jobs"] = {"unit": "jobs", "rejected": 0}
    assert header(runs)[-3:] == ["rejected", "unfinished", "seconds"]
    rows = [line.split()[-3:-1] for line in header.printed.splitlines()[1:3]]
    assert rows == [["2", "4"], ["0", "0"]]
