"""Runs that would never end do: with a message, results so far that are marked, and no digest."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simkit.cli import main
from simkit.errors import LimitError, ScenarioError
from simkit.experiment.api import simulate
from simkit.experiment.sweep import run_sweep
from simkit.experiment.workers import InProcess
from simkit.policy import Place, WakeAt
from simkit.results.run_folder import open_run
from simkit.verify import verify_run

STEP_S = 2.0**-20


def log(folder: Path, *runs_s: int) -> dict[str, Any]:
    """Return a scenario of jobs with these run times, of 4 of 16 processors, a minute apart."""
    rows = [
        f"{n} {60 * n} -1 {run} 4 -1 -1 4 {run} -1 1 1 -1 -1 -1 -1 -1 -1"
        for n, run in enumerate(runs_s, 1)
    ]
    (folder / "log.swf").write_text("; MaxProcs: 16\n" + "\n".join(rows) + "\n")
    return {
        "name": "s",
        "workload": {"type": "swf", "path": str(folder / "log.swf")},
        "cluster": {"machines": [{"count": 4, "processors": 4}]},
    }


class FirstFit:
    def reset(self, info: Any, rng: Any) -> None:
        pass

    def schedule(self, state: Any) -> Any:
        for task in list(state.queue):
            if on := state.fit(task):
                yield Place(task, on)


class Wakes(FirstFit):
    """Time goes on by the smallest step, for ever."""

    def schedule(self, state: Any) -> Any:
        yield WakeAt(state.now + STEP_S)


class Never(FirstFit):
    """Starts what fits at the first decisions, then never returns."""

    def schedule(self, state: Any) -> Any:
        yield from super().schedule(state)
        while state.now > 100:
            with suppress(Exception):  # as careless as users are
                time.time()


class Sleeps(FirstFit):
    def schedule(self, state: Any) -> Any:
        time.sleep(1000)


class Yields(FirstFit):
    """Makes and cancels a reservation, for ever: the engine is at work most of the time."""

    def schedule(self, state: Any) -> Any:
        while True:
            for task in list(state.queue):
                if on := state.fit(task):
                    yield Place(task, on, start=state.now + 10)


class Slow(FirstFit):
    def schedule(self, state: Any) -> Any:
        time.sleep(0.15)
        yield from super().schedule(state)


# --- limits that depend on the scenario alone ----------------------------------------------------


def failing(folder: Path) -> dict[str, Any]:
    """A job of 100 h on machines that fail every hour."""
    scenario = log(folder, 360_000)
    scenario["cluster"]["failures"] = {"mtbf": "1h", "mttr": "10m"}
    return scenario


def dark(folder: Path) -> dict[str, Any]:
    """A site without power that decides every second."""
    return log(folder, 100) | {
        "cluster": {"processors": 16},
        "scheduling": {"step": "1s"},
        "power": {
            "machines": {"resource": "processors", "idle_w": 10, "full_w": 100},
            "sources": {"solar": {"signal": 0}},
            "supply": {"limit": "power"},
        },
        "limits": {"decisions": 20_000},
    }


ENDLESS = [
    # scenario, policy, the limit's message
    (failing, None, "limits.retries: job 1 task 0 has lost its work 1,001 times, the last time at"),
    (dark, None, "limits.decisions: OrderedPolicy made 2"),
    (lambda folder: log(folder, 100) | {"limits": {"decisions": 5000}}, Wakes(),
     "limits.decisions: Wakes made "),
    (lambda folder: failing(folder) | {"limits": {"simulated_time": "3d"}}, None,
     "limits.simulated_time: 3d 00:00:00 of simulated time are over since the first submission, "
     "and 1 job of"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "policy", "told"), ENDLESS)
def test_a_run_without_end_is_stopped(tmp_path: Path, make: Any, policy: Any, told: str) -> None:
    scenario, found = make(tmp_path), []
    for name in ("a", "b"):
        with pytest.raises(LimitError) as caught:
            simulate(scenario, policy=policy, output=tmp_path / name)
        assert str(caught.value).startswith(told)
        info = json.loads((tmp_path / name / "run.json").read_text())
        assert (info["status"], info["error"]) == ("stopped", str(caught.value))
        assert "digest" not in info
        assert not (tmp_path / name / "metrics.json").exists()
        found.append(open_run(tmp_path / name, allow_partial=True))
        audit = verify_run(tmp_path / name, allow_partial=True)
        assert audit.ok, audit.violations
    for table in ("jobs", "tasks", "allocations", "timeline", "events"):
        assert getattr(found[0], table).equals(getattr(found[1], table))


def test_jobs_may_still_be_to_come_when_the_simulated_time_is_over(tmp_path: Path) -> None:
    scenario = log(tmp_path, 10, 20) | {"limits": {"simulated_time": 30}}
    with pytest.raises(LimitError, match="and jobs are still to be submitted; to simulate them,"):
        simulate(scenario)


def test_nothing_is_simulated_after_the_limit_and_all_before_it_is(tmp_path: Path) -> None:
    scenario = log(tmp_path, 100, 140, 200)
    whole = simulate(scenario).allocations
    with pytest.raises(LimitError, match="and 1 job of those submitted by then has not ended;"):
        simulate(scenario | {"limits": {"simulated_time": 200}}, output=tmp_path / "run")
    cut = open_run(tmp_path / "run", allow_partial=True).allocations
    ended = whole.filter(pl.col("end_time_s") <= 260)  # the first was submitted at 60 s
    assert ended.height == 2
    assert cut.filter(pl.col("outcome") == "finished").equals(ended)
    assert cut.filter(pl.col("outcome") == "running")["start_time_s"].to_list() == [180]


def test_a_run_that_ends_by_itself_meets_no_limit(tmp_path: Path) -> None:
    """Not even if a job waits for ever: nothing is left that could happen."""

    def holds(view: Any) -> Any:
        yield view.timeout(70)
        view.take_away(range(4))

    scenario = log(tmp_path, 100, 100)
    for limits in ({}, {"simulated_time": "1000d"}):
        run = simulate(scenario | {"limits": limits}, processes=[holds])
        assert run.jobs["status"].to_list() == ["waiting", "waiting"]
        assert run.timeline["time_s"].max() == 120


def test_retries_are_counted_for_each_instance_of_a_bag_and_may_be_none(tmp_path: Path) -> None:
    scenario = failing(tmp_path) | {"limits": {"retries": 0}}
    with pytest.raises(LimitError, match="has lost its work 1 time, the last time"):
        simulate(scenario)


@pytest.mark.parametrize("section", [{}, dict.fromkeys(
    ("simulated_time", "wall_time", "decisions", "retries"))])  # fmt: skip
def test_limits_do_not_change_a_run(section: dict[str, None]) -> None:
    usual = simulate("quickstart")
    other = simulate("quickstart", overrides={f"limits.{k}": v for k, v in section.items()})
    assert other.jobs.equals(usual.jobs)
    assert other.timeline.equals(usual.timeline)


@pytest.mark.parametrize(
    ("key", "value"),
    [("wall_time", 0), ("wall_time", "-1s"), ("decisions", 0), ("retries", -1), ("retrys", 3)],
)
def test_a_limit_that_is_none_is_refused(key: str, value: object) -> None:
    with pytest.raises(ScenarioError, match=f"limits.{key}: "):
        simulate("quickstart", overrides={f"limits.{key}": value})


# --- wall time ---------------------------------------------------------------------------------


def spins(view: Any) -> Any:
    yield view.timeout(130)
    while True:
        pass


@pytest.mark.parametrize("policy", [Never(), Sleeps(), Yields(), Slow()])
def test_a_policy_that_does_not_return_is_left(tmp_path: Path, policy: Any) -> None:
    scenario = log(tmp_path, *[200] * 50) | {"limits": {"wall_time": 0.5}}
    begin = time.monotonic()
    with pytest.raises(LimitError, match="^limits.wall_time: after 0.5 s of real time") as caught:
        simulate(scenario, policy=policy, output=tmp_path / "run")
    assert time.monotonic() - begin < 20
    if isinstance(policy, (Never, Sleeps)):
        assert f"{__file__}:" in str(caught.value)  # the line at which it was
    run = open_run(tmp_path / "run", allow_partial=True)
    assert (run.status, run.digest) == ("stopped", "")
    assert verify_run(tmp_path / "run", allow_partial=True).ok


def test_a_process_that_does_not_return_is_left(tmp_path: Path) -> None:
    scenario = log(tmp_path, 200, 200) | {"limits": {"wall_time": 0.5}}
    with pytest.raises(LimitError, match="limits.wall_time"):
        simulate(scenario, processes=[spins], output=tmp_path / "run")
    assert open_run(tmp_path / "run", allow_partial=True).status == "stopped"


@pytest.mark.parametrize("policy", [pytest.param(Never(), marks=pytest.mark.thorough), Slow()])
def test_in_a_thread_too(tmp_path: Path, policy: Any) -> None:
    scenario = log(tmp_path, *[200] * 50) | {"limits": {"wall_time": 0.5}}
    caught: list[LimitError] = []

    def work() -> None:
        try:
            simulate(scenario, policy=policy, output=tmp_path / "run")
        except LimitError as error:
            caught.append(error)
        time.sleep(1.5)  # nothing comes after it

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(40)
    assert not thread.is_alive()
    assert len(caught) == 1
    assert open_run(tmp_path / "run", allow_partial=True).status == "stopped"


# --- the command line and sweeps -----------------------------------------------------------------


def test_the_command_has_its_exit_code_and_says_where_the_results_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(tmp_path)
    (tmp_path / "s.yaml").write_text(
        "workload: {type: swf, path: log.swf}\nlimits: {retries: 2}\n"
        "cluster: {machines: [{count: 4, processors: 4}], failures: {mtbf: 1h, mttr: 10m}}\n"
    )
    monkeypatch.chdir(tmp_path)
    for words, code, told in (
        (["run", "s.yaml", "-o", "run"], 6, "stopped; run has the results so far, marked as"),
        (["verify", "run"], 2, "the run is stopped"),
        (["verify", "run", "--partial"], 0, ""),
    ):
        monkeypatch.setattr(sys, "argv", ["simkit", *words])
        with pytest.raises(SystemExit) as exit_:
            main()
        err = capsys.readouterr().err
        assert (int(exit_.value.code or 0), told in err) == (code, True)
        assert "Traceback" not in err


def test_in_a_sweep_the_others_go_on(tmp_path: Path) -> None:
    scenario = failing(tmp_path) | {"sweep": {"limits.retries": [1, 2]}}
    first, second = run_sweep(scenario, tmp_path / "out", executor=InProcess())
    assert (first.state, second.state) == ("failed", "failed")
    assert "has lost its work 2 times" in first.error
    assert "has lost its work 3 times" in second.error
