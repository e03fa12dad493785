"""Burst classes as actions of an environment: whole episodes, bags, overdue tasks, wrong uses."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

pytest.importorskip("gymnasium")

from simkit.agent.burst_classes import ClassActions, ClassTracker, class_model
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.env import SchedulingEnv
from simkit.errors import ScenarioError
from simkit.policy.estimates import Actual
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

LOG = {
    "workload": {"type": "lublin", "jobs": 80, "processors": 16, "offered_load": 0.9, "users": 4,
                 "estimates": "modal"},
}  # fmt: skip


def env_of(scenario: object = None, **arguments: object) -> SchedulingEnv:
    given = {"actions": "classes", "action_arguments": {"step": "2h"}, "records": True, **arguments}
    return SchedulingEnv(scenario or LOG, **given)  # type: ignore[arg-type]


def played(env: SchedulingEnv, seed: int | None = None) -> tuple[list[bytes], pl.DataFrame]:
    """Return what was seen in an episode of lowest classes, and the jobs."""
    observation, info = env.reset(seed=seed)
    seen, over = [], False
    while not over:
        seen.append(observation.tobytes())
        assert info["action_mask"].any()
        assert env.observation_space.contains(observation)
        observation, _, over, _, info = env.step(int(np.argmax(info["action_mask"])))
        assert len(seen) < 5000
    return seen, env.records().jobs


@pytest.mark.parametrize("estimates", ["requested", "user-mean"])
@pytest.mark.parametrize("starts", ["ahead", "now"])
def test_whole_episodes(estimates: str, starts: str) -> None:
    """All jobs run, also past wrong estimates; an episode repeats itself."""
    env = env_of(
        {**LOG, "estimates": estimates}, action_arguments={"step": "2h", "starts": starts}
    )  # fmt: skip
    seen, jobs = played(env, 3)
    assert jobs["end_time_s"].is_not_null().all()
    again, jobs_again = played(env, 3)
    assert seen == again
    assert jobs.equals(jobs_again)


@pytest.mark.parametrize("step_s", [7200.0, 0.03])
def test_who_lets_time_go_on_starts_when_patience_ends(step_s: float) -> None:
    """Two steps after nothing runs though a job waits; nothing else happens at that time."""
    env = env_of(action_arguments={"step": step_s, "starts": "now", "patience": 2})
    _, info = env.reset(seed=1)
    over = False
    while not over:
        mask = info["action_mask"]
        action = len(mask) - 1 if mask[-1] else int(np.argmax(mask))
        _, _, over, _, info = env.step(action)
    jobs = env.records().jobs.sort("start_time_s")
    submit, start, end = (jobs[f"{name}_time_s"].to_numpy() for name in ("submit", "start", "end"))
    waiting = [submit[number:].min() for number in range(len(submit))]
    idle = np.concatenate(([0.0], end[:-1]))
    assert start == pytest.approx(np.maximum(waiting, idle) + 2 * step_s, abs=1e-5)


def test_the_papers_observation_on_many_machines() -> None:
    env = env_of(
        "cloud-quickstart", observation="classes-paper", slots=4, action_arguments={"step": "1m"}
    )
    _, info = env.reset()
    assert env.schema.name == "classes-paper"
    for _ in range(30):
        observation, _, _, _, info = env.step(int(np.argmax(info["action_mask"])))
        assert env.observation_space.contains(observation)


class Kept:
    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []

    def write(self, table: str, rows: pl.DataFrame) -> None:
        if table == "allocations":
            self.rows += list(rows.select("start_time_s", "end_time_s").iter_rows())


def test_a_bag_starts_as_far_as_it_fits() -> None:
    """Three instances of 2 of 4 units, beside a job that holds half for ten seconds."""
    jobs = Workload(
        resources=("cpu",), job_id=np.arange(2), submit_time_s=np.zeros(2),
        first_task=np.arange(3), task_id=np.zeros(2, np.int64), instances=np.array([1, 3]),
        request=np.array([[2.0], [2.0]]), run_time_s=np.array([10.0, 10.0]),
        requested_time_s=np.array([10.0, 10.0]), gang=np.array([True, False]),
    )  # fmt: skip
    kept = Kept()
    simulation = Simulation(
        jobs, Cluster.pool({"cpu": 4.0}), Recorder(jobs, ("cpu",), kept), predictor=Actual()
    )
    tracker = ClassTracker(class_model(10, 20, 10, 1.0, 1))
    actions = ClassActions(tracker)
    actions.reset(simulation.info)
    for state in simulation.decisions():
        actions.update(state)
        while actions.asks(state):
            place = actions.action_of(state, int(np.argmax(actions.mask(state))))
            assert place is not None
            simulation.apply(place)
            actions.update(state)
    simulation.recorder.flush()
    assert sorted(kept.rows) == [(0.0, 10.0), (0.0, 10.0), (10.0, 20.0)]  # the last is of two


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"action_arguments": {}}, "step: is missing"),
        ({"action_arguments": {"step": "2h", "starts": "soon"}}, "starts: unknown value 'soon'"),
        (
            {"action_arguments": {"step": "2h", "patience": -1}},
            "patience: must be at least 0, not -1",
        ),
        ({"observation": "queue-table"}, "does not show burst classes"),
        ({"observation_arguments": {"slots": 3}}, "burst classes take none"),
        ({"actions": "start", "observation": "class-set"}, "actions='classes'"),
    ],
)
def test_wrong_uses(arguments: dict[str, object], message: str) -> None:
    if arguments.get("actions") == "start":
        arguments = {**arguments, "action_arguments": None}
    with pytest.raises(ScenarioError, match=message):
        env_of(**arguments)
