"""Which engine replays a run, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import a_bag, a_gang, make_jobs, pool
from polars.testing import assert_frame_equal

import simkit
from simkit.compiled import replay, scope
from simkit.errors import LimitError, ScenarioError
from simkit.experiment import carry_out, experiment, prepare
from simkit.policies.fitness import Spread
from simkit.policies.orderings import SAF
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.results.run_folder import open_run
from simkit.scenario.yaml_document import load_scenario
from simkit.workload import Workload
from simkit.workload.capacity import CapacityChange
from simkit.workload.cluster import Cluster, Maintenance, Partition

pytestmark = pytest.mark.xdist_group("compiled")

SMALL = {"workload": {"type": "lublin", "jobs": 40, "processors": 64}}
RIGID = make_jobs((0.0, a_gang(1, 5.0)))
POOL = Cluster.pool({"processors": 4.0})
WINDOW = Maintenance(1.0, 2.0, 0, (1.0,))


def two_pools(**limits: float) -> Cluster:
    """Return two pools that take all jobs, the first of which has limits."""
    parts = Partition("a", machines=(0,), **limits), Partition("b", machines=(1,))
    return Cluster(("processors",), ("a", "b"), np.full((2, 1), 4.0), parts)


def run_of(engine: str, **keys: Any) -> simkit.Run:
    return simkit.simulate({**SMALL, "engine": engine, **keys})


def test_a_run_says_which_engine_and_why_not_the_other() -> None:
    assert run_of("simpy").info["engine"] == {"name": "simpy", "why": "engine: simpy"}
    assert run_of("compiled").info["engine"] == {"name": "compiled", "why": ""}
    few = "40 jobs; auto compiles from 20,000 jobs on"
    assert run_of("auto").info["engine"] == {"name": "simpy", "why": few}


def test_auto_compiles_from_a_number_of_jobs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "FROM_JOBS", 40)
    assert run_of("auto").info["engine"]["name"] == "compiled"


def test_the_engine_changes_neither_digest_nor_portable_scenario() -> None:
    runs = [run_of(engine) for engine in ("auto", "simpy", "compiled")]
    assert len({run.digest for run in runs}) == 1
    assert all("engine" not in run.info["portable_scenario"] for run in runs)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"workload": make_jobs((0.0, a_bag(3, 5.0)))}, "instances that start one by one"),
        ({"cluster": Cluster(("processors",), ("a", "b"), np.full((2, 1), 4.0))}, "2 machines"),
        ({"cluster": two_pools(max_waiting_per_user=2)}, "decide which of several partitions"),
        ({"cluster": pool(4, maintenance=(replace(WINDOW, every_s=9.0),))}, "maintenance recurs"),
        (
            {"cluster": pool(4, maintenance=(replace(WINDOW, running="requeue"),))},
            "stops what runs",
        ),
        ({"overrides": {"policy.order": "multifactor"}}, "order Multifactor has no compiled form"),
        ({"overrides": {"policy.backfill": "hold"}}, "policy HoldPolicy has rules of its own"),
        ({"overrides": {"scheduling.every": "60s"}}, "multiples of a time"),
        ({"overrides": {"admission.slots": 5}}, "admission limits"),
        ({"policy": OrderedPolicy(type("Mine", (SAF,), {})())}, "order Mine has no compiled form"),
    ],
)
def test_what_is_not_covered_is_refused_with_the_reason(facts: Any, reason: str) -> None:
    given = {"workload": RIGID, "cluster": POOL, **facts}
    with pytest.raises(ScenarioError, match=reason):
        simkit.simulate({**SMALL, "engine": "compiled"}, **given)
    assert reason in simkit.simulate(SMALL, **given).info["engine"]["why"]


BAGS = make_jobs((0.0, a_bag(3, 5.0)))
MACHINES = Cluster(("processors",), ("a", "b"), np.full((2, 1), 4.0))
GONE = CapacityChange(1.0, 0, "down", "tried", running="requeue")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"workload": make_jobs((0.0, a_gang(3, 5.0)))}, "start all their instances together"),
        (
            {"cluster": replace(MACHINES, partitions=(Partition("p", max_time_s=60.0),))},
            "partition",
        ),
        ({"cluster": replace(MACHINES, absent=(1,))}, "machines join later"),
        ({"cluster": replace(MACHINES, changes=(GONE,))}, "tasks are stopped where machines are"),
        ({"cluster": replace(MACHINES, maintenance=(Maintenance(1.0, 2.0, 0, (4.0,)),))}, "maint"),
        ({"overrides": {"estimates": "user-mean"}}, "by UserMean are learned during the run"),
        ({"overrides": {"policy": {"fitness": "balance"}}}, "fitness Balance has no compiled form"),
        (
            {"overrides": {"policy": {"fitness": "random"}}},
            "fitness RandomFit has no compiled form",
        ),
        ({"overrides": {"policy.order": "wfp3"}}, "order WFP3 changes while tasks wait"),
        ({"policy": FitnessPolicy(type("Mine", (Spread,), {})())}, "fitness Mine has no compiled"),
        ({"policy": type("Mine", (FitnessPolicy,), {})(Spread())}, "policy Mine has rules of its"),
    ],
)
def test_what_is_not_covered_of_bags_is_refused_with_the_reason(facts: Any, reason: str) -> None:
    scenario = {**SMALL, "policy": {"fitness": "tetris"}}
    given = {"workload": BAGS, "cluster": MACHINES, **facts}
    with pytest.raises(ScenarioError, match=reason):
        simkit.simulate({**scenario, "engine": "compiled"}, **given)
    assert reason in simkit.simulate(scenario, **given).info["engine"]["why"]


def test_auto_compiles_bags_from_a_number_of_tasks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = {**SMALL, "policy": {"fitness": "spread"}}
    jobs = make_jobs((0.0, a_bag(3, 5.0), a_bag(2, 5.0)))
    run = simkit.simulate(scenario, workload=jobs, cluster=MACHINES)
    assert run.info["engine"]["why"] == "2 tasks; auto compiles from 20,000 tasks on"
    monkeypatch.setattr(scope, "FROM_JOBS", 2)
    run = simkit.simulate(scenario, workload=jobs, cluster=MACHINES)
    assert run.info["engine"]["name"] == "compiled"


def test_all_reasons_are_told_at_once() -> None:
    overrides = {"admission.slots": 5, "scheduling.every": "60s"}
    with pytest.raises(ScenarioError, match=r"admission limits.*multiples of a time"):
        simkit.simulate({**SMALL, "engine": "compiled"}, overrides=overrides)


def test_without_numba_everything_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope.machine_code, "is_there", lambda: False)
    monkeypatch.setattr(scope, "FROM_JOBS", 1)
    assert "numba is not installed" in run_of("auto").info["engine"]["why"]
    with pytest.raises(ScenarioError, match="simkit-cluster\\[fast\\]"):
        run_of("compiled")


def test_a_limit_of_simulated_time_is_met_as_by_simpy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(replay, "CHUNK", 2)  # rows have been written when the limit is met
    for engine in ("simpy", "compiled"):
        for output in (None, tmp_path / engine):
            with pytest.raises(LimitError, match="simulated time are over"):
                simkit.simulate({**SMALL, "engine": engine, "limits": {"simulated_time": "8h"}},
                                output=output)  # fmt: skip
    one, other = (open_run(tmp_path / name, allow_partial=True) for name in ("simpy", "compiled"))
    assert len(one.timeline) > 4
    for table in one.tables:
        assert_frame_equal(one.scan(table).collect(), other.scan(table).collect())


def test_rows_do_not_depend_on_the_parts_in_which_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = run_of("compiled")
    monkeypatch.setattr(replay, "CHUNK", 2)
    assert run_of("compiled").digest == whole.digest == run_of("simpy").digest


def test_who_watches_every_decision_is_called_at_every_decision() -> None:
    scenario, seen = load_scenario({**SMALL, "engine": "compiled"}), []
    run = carry_out(prepare(scenario), watch=lambda simulation: seen.append(simulation.now))
    assert len(seen) == run.info["decisions"]
    assert run.info["engine"] == {"name": "simpy", "why": "every decision is watched"}


def test_an_interruption_leaves_an_interrupted_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Requested(experiment.DeferredInterrupt):
        def __enter__(self) -> Any:
            self.requested = True
            return self

    monkeypatch.setattr(experiment, "DeferredInterrupt", Requested)
    scenario = load_scenario({**SMALL, "engine": "compiled"})
    with pytest.raises(KeyboardInterrupt):
        carry_out(prepare(scenario), tmp_path / "run")
    assert open_run(tmp_path / "run", allow_partial=True).info["status"] == "interrupted"


def test_no_jobs_at_all() -> None:
    nothing, whole = np.empty(0), np.empty(0, np.int64)
    empty = Workload(
        ("processors",), whole, nothing, np.zeros(1, np.int64), whole, whole, np.empty((0, 1)),
        nothing, nothing, np.empty(0, np.bool_),
    )  # fmt: skip
    runs = [
        simkit.simulate({**SMALL, "engine": engine}, workload=empty, cluster=POOL)
        for engine in ("simpy", "compiled")
    ]
    assert len(runs[0].jobs) == 0
    assert runs[0].digest == runs[1].digest
