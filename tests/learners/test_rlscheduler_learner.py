"""The learner rlscheduler: repeatable, resumable, honest about its arguments, and it learns."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simkit
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.learners.agent import load_agent
from simkit.learners.arguments import read_arguments
from simkit.learners.pool.agent import PoolAgent
from simkit.learners.pool.jobs import PoolJobs
from simkit.learners.pool.simulation import Backfill, Rule, simulate
from simkit.learners.pool.windows import WindowSource
from simkit.learners.rlscheduler import RLSchedulerArguments, RLSchedulerTraining, begin
from simkit.scenario import Scenario
from simkit.workload import Workload

SMALL = {
    "iterations": 4, "candidates": 6, "windows": 3, "fewest_jobs": 30, "most_jobs": 60, "held_out_windows": 2,
    "least_slowdown": 1.5, "start": "fcfs", "held_out_share": 0.2,
}  # fmt: skip


def scenario(**changes: Any) -> Scenario:
    plain: dict[str, Any] = {
        "workload": {"type": "lublin", "jobs": 600, "processors": 32},
        "cluster": {"processors": 32},
    }
    return Scenario.model_validate({**plain, **changes})


def training(seed: int = 0, **arguments: Any) -> RLSchedulerTraining:
    made = begin(scenario(), {**SMALL, **arguments}, seed=seed)
    assert isinstance(made, RLSchedulerTraining)
    return made


SETTINGS: list[Mapping[str, Any]] = [
    {}, {"units": 2}, {"objective": "relative", "end": "behind-head"}, {"objective": "mean"},
    {"backfill": "rlscheduler"}, {"backfill": "rlscheduler-none"},
]  # fmt: skip


@pytest.mark.parametrize("arguments", SETTINGS)
def test_resumed_is_as_not_interrupted(arguments: Mapping[str, Any], tmp_path: Path) -> None:
    whole = training(**arguments)
    expected = [dict(whole.step()) for _ in range(4)]
    first = training(**arguments)
    found = [dict(first.step()) for _ in range(2)]
    first.save(tmp_path)
    second = training(**arguments)
    second.load(tmp_path)
    assert second.iteration == 2
    found += [dict(second.step()) for _ in range(2)]
    assert found == expected
    assert second.scorer.flat.tobytes() == whole.scorer.flat.tobytes()
    assert second.held_out() == whole.held_out()


def test_the_seed_decides() -> None:
    one, same, other = training(1), training(1), training(2)
    for each in (one, same, other):
        each.step()
    assert one.scorer.flat.tobytes() == same.scorer.flat.tobytes()
    assert one.scorer.flat.tobytes() != other.scorer.flat.tobytes()


def test_other_trainings_are_not_resumed(tmp_path: Path) -> None:
    training().save(tmp_path)
    training(iterations=9).load(tmp_path)
    with pytest.raises(RunError, match="arguments.objective"):
        training(objective="mean").load(tmp_path)


def test_it_learns_from_first_come_first_served() -> None:
    made = training(iterations=15, candidates=10, windows=6)
    before = made.held_out()["slowdown_geometric"]
    for _ in range(15):
        made.step()
    assert made.held_out()["slowdown_geometric"] < 0.8 * before


@pytest.mark.parametrize("backfill", ["easy", "rlscheduler", "rlscheduler-none"])
def test_the_agent_does_what_was_trained(backfill: Backfill, tmp_path: Path) -> None:
    made = training(units=2, backfill=backfill)
    made.step()
    made.write_agent(tmp_path / "agent", {"iteration": 1})
    agent = load_agent(tmp_path / "agent", scenario())
    assert isinstance(agent, PoolAgent)
    assert agent.scorer.flat.tobytes() == made.scorer.flat.tobytes()
    run = simkit.simulate(scenario(policy={"agent": str(tmp_path / "agent")}))
    (jobs,) = made.source.logs
    starts = simulate(jobs, made.scorer, visible=128, backfill=backfill)
    assert sorted(run.jobs["start_time_s"].to_list()) == sorted(starts.tolist())


def test_the_rule_beside_it_is_of_the_same_semantics() -> None:
    made = training(backfill="rlscheduler-none")
    window = made.unseen[0]
    starts = simulate(window, Rule.saf_p(window), backfill="rlscheduler-none")
    assert made.source.slowdown(window) == window.bounded_slowdown(starts)


def further_log(tmp_path: Path) -> dict[str, Any]:
    rows = [
        f"{i + 1} {10 * i} -1 {20 + i % 50} 4 -1 -1 4 {60 + i % 7} -1 1 1 1 1 1 1 -1 -1"
        for i in range(400)
    ]
    path = tmp_path / "log.swf"
    path.write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n", "utf-8")
    return {"path": str(path), "processors": 8, "first": 50, "last": 349}


def test_several_logs(tmp_path: Path) -> None:
    further = further_log(tmp_path)
    made = training(logs=[further], held_out_share=0)
    assert [(len(log), log.size) for log in made.source.logs] == [(600, 32), (300, 8)]
    assert made.held_out() == {}
    sizes = [window.size for window in made.source.draw(np.random.default_rng(0), 4)]
    assert sizes == [32, 8, 32, 8]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first": 350}, "first: is 350 and last 349; exchange them"),
        ({"last": 400}, "last: is 400, and the last job of the log is 399"),
        ({"first": 400, "last": None}, "first: is 400, and the last job of the log is 399"),
        ({"processors": 3}, "processors: is 3, and a job asks for 4"),
    ],
)
def test_further_logs_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    further = further_log(tmp_path)
    with pytest.raises(ScenarioError) as caught:
        training(logs=[further, {**further, **changes}])
    assert [text.split(";")[0] for text in caught.value.problems] == [
        f"learn.arguments.logs.1.{message}".split(";")[0]
    ]


def test_a_further_log_that_is_too_short_or_damaged_is_named(tmp_path: Path) -> None:
    further = further_log(tmp_path)
    with pytest.raises(ScenarioError, match=r"^learn.arguments.logs.0: a window has up to 60"):
        training(logs=[{**further, "last": 99}])
    Path(further["path"]).write_text("1 2 x\n", "utf-8")
    with pytest.raises(ScenarioError, match=r"^learn.arguments.logs.0: .*log.swf"):
        training(logs=[further])


def test_without_cma_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(PluginError, match=r"needs cma, .*simkit-cluster\[learn\]"):
        training()


@pytest.mark.parametrize("held_out_share", [0, 0.2])
def test_without_numba_it_does_not_begin(
    held_out_share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in ("compiled", "kernel", "rlscheduler_kernel"):
        monkeypatch.delitem(sys.modules, f"simkit.learners.pool.{name}", raising=False)
        monkeypatch.delattr(sys.modules["simkit.learners.pool"], name, raising=False)
    with pytest.raises(PluginError, match=r"needs numba, .*simkit-cluster\[learn\]"):
        training(held_out_share=held_out_share)


def test_what_is_held_out_is_not_drawn() -> None:
    source = training().source
    cut = source.logs[0].submit_s[480]
    drawn = source.draw(np.random.default_rng(0), 50)
    assert max(window.submit_s[-1] for window in drawn) < cut
    assert min(window.submit_s[0] for window in source.held_out(3)) >= cut


def test_windows_in_which_few_wait_are_passed_over() -> None:
    jobs = training().source.logs[0]
    source = WindowSource([jobs], (50, 50), 0.2, lambda window: float(window.submit_s[0]), 1e5)
    assert all(w.submit_s[0] >= 1e5 for w in source.draw(np.random.default_rng(0), 20))


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"cluster": {"machines": [{"count": 2, "processors": 16}]}}, {}, "must be one pool"),
        ({"estimates": "actual"}, {}, "estimates: must be requested"),
        ({"walltime": "kill"}, {}, "walltime: must be ignore"),
        ({"scheduling": {"every": "60s"}}, {}, "every and step must be left out"),
        ({"admission": {"slots": 5}}, {}, "admission: slots and backlog must"),
        ({"admission": {"backlog": 5}}, {}, "admission: slots and backlog must"),
        ({"estimates": {"type": "requested", "factor": 2}}, {}, "estimates: must be requested"),
        ({"estimates": {"type": "requested", "correction": "tsafrir"}}, {}, "or correction"),
        ({"processes": [{"path": __file__ + ":None"}]}, {}, "processes: are not known"),
        ({}, {"fewest_jobs": 70}, "is 70 and most_jobs 60"),
        ({}, {"most_jobs": 900}, "a window has up to 900 jobs"),
        (
            {},
            {"least_slowdown": 1e6},
            "learn.arguments.least_slowdown: is 1e.06, and in every held",
        ),
        ({}, {"candidates": 2}, "learn.arguments.candidates"),
        ({}, {"start": "lifo"}, "learn.arguments.start"),
        ({}, {"backfill": "none"}, "learn.arguments.backfill"),
        (
            {},
            {"backfill": "rlscheduler", "end": "always"},
            "learn.arguments.end: is always, which is for easy, and backfill is rlscheduler;",
        ),
        ({"cluster": {"processors": 8}}, {}, "the machine has 8"),
    ],
)
def test_what_it_refuses(changes: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        begin(scenario(**changes), {**SMALL, **arguments}, seed=0)


def test_several_problems_at_once() -> None:
    with pytest.raises(ScenarioError) as caught:
        begin(scenario(walltime="kill"), {**SMALL, "units": -1}, seed=0, device="cuda")
    assert len(caught.value.problems) == 3


def test_jobs_must_be_gangs_of_processors() -> None:
    columns = {"job_id": [0], "submit_time_s": [0.0], "run_time_s": [1.0], "cpu": [1.0], "mem": [1]}
    workload = Workload.from_jobs(columns, request=("cpu", "mem"))
    with pytest.raises(ScenarioError, match="not gangs of processors"):
        PoolJobs.of(workload, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"fewest_jobs": 9000},
            "fewest_jobs: is 9000 and most_jobs, by default, 1024; give at most 1024, or most_jobs "
            "as well",
        ),
        (
            {"most_jobs": 9},
            "most_jobs: is 9 and fewest_jobs, by default, 256; give at least 256, or fewest_jobs "
            "as well",
        ),
        ({"fewest_jobs": 9, "most_jobs": 8}, "fewest_jobs: is 9 and most_jobs 8; exchange them"),
    ],
)
def test_windows_that_shrink_are_told_by_what_was_given(
    given: dict[str, int], message: str
) -> None:
    with pytest.raises(ScenarioError) as told:
        read_arguments(RLSchedulerArguments, given)
    assert str(told.value) == f"learn.arguments.{message}"
