"""Agents of a pool: the engine and the fast simulation start the same; bundles are checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_replay import engine_starts, small_workload

import simkit
from simkit.errors import PolicyError, RunError, ScenarioError
from simkit.experiment.workload import read_trace
from simkit.learners.agent import load_agent
from simkit.learners.common.bundle import hash_bundle, write_bundle
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.agent import JobAgent, describe_jobs
from simkit.learners.scorers.job_model import simulate
from simkit.learners.scorers.job_scorer import FEATURES, End, JobRules, JobScorer
from simkit.scenario import Scenario

ENDS: tuple[End, ...] = ("never", "behind-head", "always")


def drawn(seed: int, units: int) -> JobScorer:
    """Return a scorer of random weights."""
    none = JobScorer.zero(units)
    return none.with_flat(np.random.default_rng(seed).normal(size=len(none.flat)))


ROWS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(0, 40), st.integers(1, 8), st.integers(1, 60),
        st.integers(-1, 2),
    ),
    min_size=1,
    max_size=40,
)  # fmt: skip


RULES: list[dict[str, Any]] = [
    *({"backfill": "easy", "end": end} for end in ENDS),
    {"backfill": "rlscheduler"},
    {"backfill": "rlscheduler-none"},
]


@pytest.mark.thorough  # compiling it takes seconds
@given(
    rows=ROWS, seed=st.integers(0, 99), units=st.sampled_from([0, 3]),
    visible=st.sampled_from([1, 3, 128]), rules=st.sampled_from(RULES),
)  # fmt: skip
def test_small_workloads(rows, seed, units, visible, rules):
    workload, scorer = small_workload(rows), drawn(seed, units)
    expected = engine_starts(JobAgent(scorer, JobRules(visible=visible, **rules)), workload, 8)
    found = simulate(PoolJobs.of(workload, 8), scorer, visible=visible, **rules)
    assert found.tolist() == expected


# --- bundles ------------------------------------------------------------------------------------


def bundle(folder: Path, scorer: JobScorer | None = None, **changes: Any) -> Path:
    """Write an agent; changes are laid over the parts of its description."""
    scorer = scorer or drawn(0, 2)
    how = describe_jobs(scorer, JobRules())
    for part, entries in changes.items():
        how[part] = {**how[part], **entries}
    write_bundle(folder, {n: a.astype(np.float32) for n, a in scorer.weights.items()}, how)
    return folder


def scenario(folder: Path, **policy: Any) -> dict[str, Any]:
    return {
        "name": "pool",
        "workload": {"type": "poisson", "jobs": 60, "processors": 8, "rate_per_s": 0.5},
        "cluster": {"processors": 8},
        "policy": {"agent": str(folder), **policy},
    }


@pytest.mark.parametrize(
    ("part", "changes", "place"),
    [
        ("observation", {"features": [*FEATURES[1:], FEATURES[0]]}, "features"),
        ("architecture", {"units": 3}, "weights"),
        ("actions", {"visible": 0}, "actions.visible"),
        ("actions", {"backfill": "rlscheduler", "end": "always"}, "end"),
        ("architecture", {"activation": "tanh"}, "architecture.activation"),
    ],
)
def test_what_does_not_fit_together(part, changes, place, tmp_path):
    folder = bundle(tmp_path / "a", **{part: changes})
    hash_bundle(folder)
    with pytest.raises(RunError, match=place):
        load_agent(folder)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"cluster": {"machines": [{"count": 2, "processors": 4}]}}, "cluster"),
        ({"scheduling": {"every": "1s"}}, "scheduling.every"),
        ({"scheduling": {"step": "1s"}}, "scheduling.step"),
        ({"admission": {"slots": 5}}, "admission"),
        ({"admission": {"backlog": 5}}, "admission"),
        ({"walltime": "kill"}, "walltime"),
        ({"processes": [{"path": f"{__file__}:None"}]}, "processes"),
        *(({"args": args}, next(iter(args))) for args in (
            {"choose": "greedy"}, {"choose": "sample"}, {"patience": 200},
        )),
    ],
)  # fmt: skip
def test_what_it_was_not_trained_with_is_refused(changes, place, tmp_path):
    args = {"args": changes["args"]} if "args" in changes else {}
    stated = scenario(bundle(tmp_path / "a"), **args)
    with pytest.raises(ScenarioError, match=place):
        simkit.simulate(stated | {key: changes[key] for key in changes if key != "args"})


def test_it_acts_on_the_estimates_of_the_scenario(tmp_path):
    stated = scenario(bundle(tmp_path / "a"))
    stated["workload"] |= {"jobs": 300, "estimates": "modal"}
    workload = read_trace(Scenario.model_validate(stated).workload, 0).workload
    jobs = PoolJobs.of(workload, 8)
    known = replace(jobs, requested_s=jobs.run_s)
    for estimates, seen in (("requested", jobs), ("actual", known)):
        found = simkit.simulate(stated | {"estimates": estimates}).jobs.sort("job_id")
        assert found["start_time_s"].to_list() == simulate(seen, drawn(0, 2), visible=128).tolist()


MAINTAINED = {
    "processors": 8, "maintenance": [{"start": "60s", "duration": "10s", "processors": 4}],
}  # fmt: skip


def powered(limit: str) -> dict[str, Any]:
    machines = {"idle_w": 10, "full_w": 100}
    return {"machines": machines, "grid": {"import_limit_w": 500}, "supply": {"limit": limit}}


def test_maintenance_and_limits_of_power_are_refused_before_the_run(tmp_path):
    limited = {**scenario(bundle(tmp_path / "a")), "cluster": MAINTAINED, "power": powered("power")}
    with pytest.raises(ScenarioError) as told:
        simkit.simulate(limited)
    places = ("cluster.maintenance", "power.supply.limit")
    assert [place in text for place, text in zip(places, told.value.problems, strict=True)] == [
        True
    ] * 2


def test_an_agent_that_saw_no_scenario_refuses_maintenance_as_it_runs(tmp_path):
    maintained = {**scenario(bundle(tmp_path / "a")), "cluster": MAINTAINED}
    with pytest.raises(PolicyError, match="no maintenance"):
        simkit.simulate(maintained, policy=JobAgent(JobScorer.zero()))
