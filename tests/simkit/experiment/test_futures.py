"""Other futures: a fork or a switch leaves the past as it was, and to the same policy the digest.

SIMKIT_FORKS=50 pytest tests/simkit/experiment/test_futures.py -k random   # more random pairs
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import simkit
from simkit.errors import RunError, ScenarioError
from simkit.experiment.futures import fork, parse_switches, with_switches
from simkit.policies.conservative import Conservative
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF
from simkit.policies.switch import Switching
from simkit.policy import Place, State, SystemInfo
from simkit.policy.ordered import OrderedPolicy
from simkit.scenario import portable_form, scenario_hash
from simkit.scenario.yaml_document import load_scenario
from simkit.verify import verify_run

pytestmark = pytest.mark.filterwarnings("ignore::simkit.errors.SimkitWarning")

PAIRS = int(os.environ.get("SIMKIT_FORKS", "10"))
LOG = {"type": "swf", "path": "sample:lublin_1000"}
POLICIES: list[Any] = [
    "fcfs", "sjf", "fcfs+easy", "sjf+easy", "fcfs+conservative", "saf+easy", "wfp3+easy",
    {"order": "multifactor", "backfill": "easy"}, "random+easy", {"fitness": "first-fit"},
    {"fitness": "tetris", "order": "sjf"},
]  # fmt: skip
SYSTEMS: list[dict[str, Any]] = [
    {},
    {"cluster": {"processors": 200}},
    {"cluster": {"processors": 128, "maintenance": [
        {"start": "1d", "end": "30h", "processors": 100},
        {"start": "3d", "end": "76h", "processors": 64},
    ]}},
    {"cluster": {"processors": 128, "failures": {"mtbf": "2d", "mttr": "2h"}}},
    {"cluster": {"processors": 128, "partitions": [
        {"name": "high", "max_processors": 8, "priority": 2},
        {"name": "low", "priority": 1, "preempt": "suspend"},
    ]}},
    {"cluster": {"machines": [{"count": 16, "processors": 8}]}},
    {"estimates": "user-mean", "walltime": "kill"},
    {"estimates": {"type": "requested", "correction": "tsafrir"}},
    {"scheduling": {"every": "5min"}},
    {"admission": {"slots": 10}},
]  # fmt: skip
TIMES = {
    "jobs": "end_time_s", "tasks": "end_time_s", "allocations": "end_time_s",
    "timeline": "time_s", "events": "time_s", "power": "end_s",
}  # fmt: skip
"""Table → when a row of it is over."""


def drawn(seed: int) -> tuple[dict[str, Any], float]:
    """Return a random scenario, and a time in it, in s after its first submission."""
    rng = np.random.default_rng(seed)
    system = SYSTEMS[int(rng.integers(len(SYSTEMS)))]
    preempts = "partitions" in system.get("cluster", {})
    known = [p for p in POLICIES if isinstance(p, str) and p.endswith(("easy", "fcfs", "sjf"))]
    policies = known if preempts else POLICIES
    first = int(rng.integers(0, 700))
    jobs = f"{first}..{first + int(rng.integers(40, 300))}"
    scenario = {
        "workload": {**LOG, "window": {"jobs": jobs}},
        "policy": policies[int(rng.integers(len(policies)))],
        "seed": int(rng.integers(100)),
        **system,
    }
    return scenario, float(rng.integers(0, 8 * 86_400))


def past(run: simkit.Run, before_s: float) -> dict[str, pl.DataFrame]:
    """Return the rows of each table that were over before a time on the trace's clock."""
    names = [name for name in TIMES if name in run.tables]
    return {name: run.scan(name).filter(pl.col(TIMES[name]) < before_s).collect() for name in names}


def of_table(folder: Path, rows: str) -> dict[str, Any]:
    """Return a scenario of a table of jobs, (id, submission, run time, size, …), on four processors."""
    names = ["job_id", "submit_time_s", "run_time_s", "processors", "start_time_s"]
    head = ",".join(names[: rows.partition("\n")[0].count(",") + 1])
    (folder / "jobs.csv").write_text(f"{head}\n{rows}")
    return {"workload": {"type": "jobs", "path": str(folder / "jobs.csv")},
            "cluster": {"processors": 4}}  # fmt: skip


def first_submit(run: simkit.Run) -> float:
    return float(run.jobs["submit_time_s"].min())  # type: ignore[arg-type]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(PAIRS))
def test_random_forks_keep_the_past_and_the_same_policy_the_digest(
    seed: int, tmp_path: Path
) -> None:
    scenario, at_s = drawn(seed)
    run = simkit.simulate(scenario, output=tmp_path / "run")
    same = fork(tmp_path / "run", at_s, {"policy": scenario["policy"]})
    again = simkit.simulate(same)
    assert again.digest == run.digest
    assert again.info["portable_scenario"] == run.info["portable_scenario"]
    switched = with_switches(load_scenario(scenario), [(at_s, scenario["policy"])])
    assert simkit.simulate(switched).digest == run.digest
    other = "sjf" if scenario["policy"] != "sjf" else "fcfs"
    forked = simkit.simulate(
        fork(tmp_path / "run", at_s, {"policy": other}), output=tmp_path / "fork"
    )
    begin = first_submit(run) + at_s
    for name, rows in past(run, begin).items():
        assert rows.equals(past(forked, begin)[name]), name
    assert verify_run(tmp_path / "fork").ok


@pytest.mark.parametrize("policy", ["fcfs", "fcfs+easy", "sjf+easy", "fcfs+conservative"])
def test_a_policy_without_memory_that_takes_over_from_itself_changes_no_start(policy: str) -> None:
    """Not by the section, which leaves such a change out, but by the change itself."""
    makers: dict[str, Any] = {
        "fcfs": lambda: OrderedPolicy(FCFS()),
        "fcfs+easy": lambda: OrderedPolicy(FCFS(), Easy()),
        "sjf+easy": lambda: OrderedPolicy(SJF(), Easy()),
        "fcfs+conservative": lambda: Conservative().compose(FCFS()),
    }
    scenario = {"workload": LOG, "estimates": "actual"}
    alone = simkit.simulate(scenario, policy=makers[policy]())
    switching = Switching([makers[policy]() for _ in range(3)], [86_400.0, 3 * 86_400.0])
    switched = simkit.simulate(scenario, policy=switching)
    assert switched.jobs.equals(alone.jobs)


class Promising:
    """Reserves the whole of a task's machine for a far future, and starts nothing."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        pass

    def schedule(self, state: State) -> Any:
        for task in state.queue:
            yield Place(task, ((0, task.instances),), start=state.now + 10_000)


def test_promises_of_the_policy_that_ends_are_taken_back() -> None:
    workload = simkit.Workload.from_jobs(
        {"job_id": [1, 2], "submit_time_s": [0.0, 5.0], "run_time_s": [10.0, 10.0],
         "processors": [4, 4]}
    )  # fmt: skip
    scenario = {"workload": LOG, "cluster": {"processors": 4}}
    policy = Switching([Promising(), OrderedPolicy(FCFS())], [100.0])
    run = simkit.simulate(scenario, workload=workload, policy=policy)
    assert run.jobs.sort("job_id")["start_time_s"].to_list() == [100, 110]
    kinds = run.events.sort("time_s")["kind"].to_list()
    assert kinds == ["reserved", "reserved", "cancelled", "cancelled"]


def test_a_switch_of_a_switch_and_a_fork_of_a_fork(tmp_path: Path) -> None:
    scenario = {"workload": {**LOG, "window": {"jobs": 200}}, "policy": "fcfs+easy"}
    simkit.simulate(scenario, output=tmp_path / "a")
    first = fork(tmp_path / "a", "1d", {"policy.order": "sjf"})
    simkit.simulate(first, output=tmp_path / "b")
    later = fork(tmp_path / "b", "2d", {"policy.backfill": "none"})
    policy = later.model_dump(mode="json")["policy"]
    assert [change["at"] for change in policy["switch"]] == [86_400, 2 * 86_400]
    assert [change["to"]["order"] for change in policy["switch"]] == ["sjf", "sjf"]
    earlier = fork(tmp_path / "b", "12h", {"policy": "saf"}).model_dump(mode="json")["policy"]
    assert [change["at"] for change in earlier["switch"]] == [43_200]  # that at 1 d is gone
    back = fork(tmp_path / "b", "1d", {"policy": "fcfs+easy"})
    assert scenario_hash(back) == scenario_hash(load_scenario(scenario))


def test_changes_to_the_policy_that_decides_leave_the_portable_form() -> None:
    plain = load_scenario({"workload": LOG, "policy": "fcfs+easy"})
    changes: list[Mapping[str, Any]] = [
        {"start": "fcfs+easy", "switch": [{"at": "3d", "to": {"backfill": "easy"}}]},
        {"start": {"order": "fcfs", "backfill": "easy"},
         "switch": [{"at": 5, "to": "fcfs+easy"}, {"at": 6, "to": "fcfs+easy+first-fit"}]},
    ]  # fmt: skip
    for policy in changes:
        switched = load_scenario({"workload": LOG, "policy": policy})
        assert portable_form(switched, {}) == portable_form(plain, {})
    back = {"start": "fcfs", "switch": [{"at": 5, "to": "sjf"}, {"at": 6, "to": "fcfs"}]}
    kept = load_scenario({"workload": LOG, "policy": back}).model_dump(mode="json")["policy"]
    assert len(kept["switch"]) == 2


@pytest.mark.parametrize(
    ("text", "time", "policy"),
    [
        ("30d:sjf+easy", "30d", "sjf+easy"),
        ("3600:my.py:Mine", "3600", "my.py:Mine"),
        ("2004-05-31T12:00+02:00:sjf", "2004-05-31T12:00+02:00", "sjf"),
        ("2004-05-31T12:00Z:{order: sjf}", "2004-05-31T12:00Z", {"order": "sjf"}),
        (" 1d : recorded ", "1d", "recorded"),
        ("1d12h:{fitness: tetris, order: sjf}", "1d12h", {"fitness": "tetris", "order": "sjf"}),
    ],
)
def test_a_time_and_a_policy_may_have_colons(text: str, time: str, policy: Any) -> None:
    assert parse_switches([text]) == [(time, policy)]


@pytest.mark.parametrize("text", ["sjf", "30d", "30d:", ":sjf", "-3d:sjf", "2004-05-31T12:00:sjf"])
def test_what_is_no_time_and_policy_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="--switch-policy"):
        parse_switches([text])


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"start": "fcfs", "switch": []}, "has no changes"),
        ({"switch": [{"at": 1, "to": "sjf"}]}, "policy.start: is missing"),
        ({"start": "fcfs", "switch": [{"at": 1}]}, "to: is missing"),
        ({"start": "fcfs", "switch": [{"at": "x", "to": "sjf"}]}, "neither a duration"),
        ({"start": "fcfs", "switch": [{"at": 2, "to": "sjf"}, {"at": 1, "to": "saf"}]}, "after"),
        ({"start": {"start": "fcfs", "switch": [{"at": 1, "to": "sjf"}]},
          "switch": [{"at": 2, "to": "saf"}]}, "switches itself"),
        ({"start": "fcfs", "switch": [{"at": 2, "to": "sfj"}]}, "did you mean 'sjf'"),
        ({"start": {"fitness": "tetris", "compat": "cloudsimpy"},
          "switch": [{"at": 2, "to": "sjf"}]}, "cannot begin or end in the middle"),
    ],
)  # fmt: skip
def test_wrong_switches_are_refused(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load_scenario({"workload": LOG, "policy": policy})


def test_dates_need_a_log_that_has_some(tmp_path: Path) -> None:
    change = {"at": "2024-01-01T00:00Z", "to": "sjf"}
    with pytest.raises(ScenarioError, match="does not tell when it began"):
        simkit.simulate({"workload": LOG}, policy={"start": "fcfs", "switch": [change]})
    rows = "1,2024-05-01T00:00:00Z,600,4\n"
    rows += "2,2024-05-01T00:00:10Z,700,4\n3,2024-05-01T00:00:20Z,60,4\n"
    scenario = of_table(tmp_path, rows) | {"estimates": "actual"}
    simkit.simulate(scenario, policy="fcfs", output=tmp_path / "run")
    moment = datetime(2024, 5, 1, 0, 5, tzinfo=UTC)
    run = simkit.simulate(fork(tmp_path / "run", moment, {"policy": "sjf"}))
    assert run.jobs.sort("start_time_s")["job_id"].to_list() == [1, 3, 2]
    with pytest.raises(ScenarioError, match="out of order"):
        simkit.simulate(
            scenario,
            policy={
                "start": "fcfs",
                "switch": [{"at": "1d", "to": "sjf"}, {"at": "2024-05-01T00:05Z", "to": "saf"}],
            },
        )


def test_what_cannot_be_forked_is_refused(tmp_path: Path) -> None:
    rows = "1,0,600,4\n"
    scenario = of_table(tmp_path, rows)
    simkit.simulate(scenario, output=tmp_path / "run")
    for key, value in {"seed": 1, "workload.load": 2, "cluster.processors": 8}.items():
        with pytest.raises(ScenarioError, match=f"override {key}: would change the past"):
            fork(tmp_path / "run", "1d", {key: value})
    renamed = fork(tmp_path / "run", "1d", {"name": "other", "metrics.tau": 20, "policy": "sjf"})
    assert (renamed.name, renamed.metrics.tau) == ("other", 20)
    (tmp_path / "jobs.csv").write_text(rows + "2,5,5,4\n")
    with pytest.raises(RunError, match=r"jobs\.csv changed or went"):
        fork(tmp_path / "run", "1d", {"policy": "sjf"})
    with pytest.raises(RunError, match="no such run folder"):
        fork(tmp_path / "nowhere", "1d")
    simkit.simulate({"workload": LOG}, policy=Promising2(3), output=tmp_path / "own")
    with pytest.raises(RunError, match="ran with Python objects in place of its policy"):
        fork(tmp_path / "own", "1d", {"policy": "sjf"})


class Promising2(OrderedPolicy):
    """A policy with a state of its own, which run.json cannot repeat."""

    def __init__(self, number: int) -> None:
        super().__init__(FCFS())
        self.number = number


def test_recorded_starts_may_lead_up_to_another_policy(tmp_path: Path) -> None:
    rows = "1,0,100,4,20\n"
    rows += "2,1,50,2,150\n3,2,50,2,160\n4,3,50,2,500\n"
    scenario = of_table(tmp_path, rows)
    policy = {"start": "recorded", "switch": [{"at": 155, "to": "fcfs"}]}
    run = simkit.simulate(scenario, policy=policy, output=tmp_path / "run")
    assert run.jobs.sort("job_id")["start_time_s"].to_list() == [20, 150, 155, 200]
    assert run.info["recorded"]["started_as_recorded"] == 2
    later = {"start": "fcfs", "switch": [{"at": 120, "to": "recorded"}]}
    back = simkit.simulate(scenario, policy=later)
    assert back.jobs.sort("job_id")["start_time_s"].to_list() == [0, 100, 100, 500]
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.ok
    assert "recorded-starts" in audit.not_audited


def test_a_run_on_power_forks_too(tmp_path: Path) -> None:
    run = simkit.simulate("green-quickstart", output=tmp_path / "run")
    policy = run.info["scenario"]["policy"]
    assert simkit.simulate(fork(tmp_path / "run", "2d", {"policy": policy})).digest == run.digest
    forked = simkit.simulate(
        fork(tmp_path / "run", "2d", {"policy": "ljf"}), output=tmp_path / "fork"
    )
    begin = first_submit(run) + 2 * 86_400
    for name, rows in past(run, begin).items():
        assert rows.height or name == "events"
        assert rows.equals(past(forked, begin)[name]), name
    assert verify_run(tmp_path / "fork").ok
