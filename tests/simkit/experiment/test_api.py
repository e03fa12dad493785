"""`import simkit` in a script: a scenario in, frames out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simkit
from simkit.policy import Action, Place, State, SystemInfo
from simkit.verify import verify_run


class Shortest:
    """A custom policy in ten lines."""

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        pass

    def schedule(self, state: State) -> Iterator[Action]:
        for task in sorted(state.queue, key=lambda task: task.estimate_s):
            if on := state.fit(task):
                yield Place(task, on)


def test_frames_and_metrics() -> None:
    run = simkit.simulate("quickstart")
    assert run.jobs.height == run.metrics["wait_time_s"]["count"] == 1000
    assert run.metrics["wait_time_s"]["mean"] == pytest.approx(run.jobs["wait_time_s"].mean())
    assert list(run.jobs.to_pandas().columns) == run.jobs.columns
    assert run.jobs["submit_time_s"].is_sorted()


def test_nothing_is_written_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    simkit.simulate("quickstart")
    assert list(tmp_path.iterdir()) == []
    run = simkit.simulate("quickstart", output="mine")
    assert simkit.open_run("mine").digest == run.digest


SMALL = {"name": "small", "workload": {"type": "lublin", "jobs": 9, "processors": 8}}


class Delayed(Shortest):
    """A policy with an argument."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s


def small_workload() -> simkit.Workload:
    return simkit.prepare(simkit.load_scenario(SMALL)).trace.workload


REPLACED = [{}, {"policy": Shortest}, {"policy": Shortest()}, {"policy": {"order": "fcfs"}}]


@pytest.mark.parametrize("arguments", REPLACED)
def test_the_same_run_is_replaced(tmp_path: Path, arguments: dict[str, Any]) -> None:
    for _ in range(2):
        simkit.simulate(SMALL, output=tmp_path / "run", **arguments)
    assert "given" not in simkit.open_run(tmp_path / "run").info


KEPT = [
    # the first run, the second one, why it does not replace the first
    ({}, {"policy": Shortest}, "differs in policy"),
    ({}, {"seed": 1}, r"differs in seed \(0 there, 1 here\)"),
    ({"policy": Delayed(1)}, {"policy": Delayed(2)}, "cannot be told: .* Python gave as policy"),
    ({}, {"workload": small_workload}, "differs in workload"),
    ({"workload": small_workload}, {"workload": small_workload}, "Python gave as workload"),
]


@pytest.mark.parametrize(("first", "second", "text"), KEPT)
def test_another_run_is_replaced_by_force_alone(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], text: str
) -> None:
    first, second = (
        {key: one() if one is small_workload else one for key, one in given.items()}
        for given in (first, second)
    )
    kept = simkit.simulate(SMALL, output=tmp_path / "run", **first)
    with pytest.raises(simkit.SimkitError, match=text + ".*force=True"):
        simkit.simulate(SMALL, output=tmp_path / "run", **second)
    assert simkit.open_run(tmp_path / "run").digest == kept.digest
    simkit.simulate(SMALL, output=tmp_path / "run", force=True, **second)


def test_an_experiment_of_objects_is_not_taken_for_that_of_its_scenario(tmp_path: Path) -> None:
    loaded = simkit.load_scenario(SMALL)
    simkit.carry_out(simkit.prepare(loaded), tmp_path / "run")
    with pytest.raises(simkit.SimkitError, match="what Python gave as policy"):
        simkit.carry_out(simkit.prepare(loaded, policy=Shortest()), tmp_path / "run")


@pytest.mark.parametrize("policy", [Shortest, Shortest()])
def test_a_policy_of_ones_own_and_run_json_names_it(policy: simkit.Policy) -> None:
    run = simkit.simulate("quickstart", policy=policy)
    assert run.info["scenario"]["policy"]["name"].endswith(":Shortest")
    assert run.jobs["start_time_s"].is_not_null().all()


def test_a_file_a_mapping_and_a_scenario_are_the_same(tmp_path: Path) -> None:
    mapping = {"name": "s", "workload": {"type": "swf", "path": "sample:lublin_1000"}}
    (tmp_path / "s.yaml").write_text("workload: {type: swf, path: 'sample:lublin_1000'}\n")
    loaded = simkit.load_scenario(mapping)
    sources: list[object] = [mapping, loaded, tmp_path / "s.yaml", str(tmp_path / "s.yaml")]
    runs = [simkit.simulate(source) for source in sources]  # type: ignore[arg-type]
    assert len({run.digest for run in runs}) == 1
    assert len({run.info["scenario_sha256"] for run in runs}) == 1


def test_a_workload_and_a_cluster_of_ones_own() -> None:
    jobs = {
        "job_id": [1, 2], "submit_time_s": [0.0, 1.0], "run_time_s": [10.0, 10.0],
        "processors": [2, 2],
    }  # fmt: skip
    run = simkit.simulate(
        "quickstart",
        workload=simkit.Workload.from_jobs(jobs),
        cluster=simkit.Cluster.pool({"processors": 2}),
    )
    assert run.jobs["start_time_s"].to_list() == [0.0, 10.0]
    assert run.info["inputs"] == []


def test_a_resource_of_the_cluster_that_no_job_asks_for(tmp_path):
    """It is recorded as 0 of every job, and the metrics and the audit know it."""
    machines = {"cluster.machines": [{"count": 4, "processors": 64, "gpu": 2}]}
    with pytest.warns(simkit.SimkitWarning, match="the machines have gpu, but no job .* asks for"):
        run = simkit.simulate("quickstart", overrides=machines, output=tmp_path / "run")
    assert run.jobs["gpu"].to_list() == [0.0] * len(run.jobs)
    assert run.metrics["utilisation_gpu"]["value"] == 0
    assert not [check.name for check in verify_run(tmp_path / "run").checks if check.found]


def test_more_of_a_resource_than_adds_up_exactly_is_refused():
    machines = [{"count": 2, "processors": 2**53}]
    with pytest.raises(
        simkit.errors.ScenarioError, match=r"1\.80144e\+16 processors in all; the most is 2\*\*53"
    ):
        simkit.simulate("quickstart", overrides={"cluster": {"machines": machines}})


def test_requests_too_fine_for_exact_sums_are_refused(tmp_path):
    table = tmp_path / "tasks.csv"
    head = "job_id,task_id,submit_time,duration,instances_num,cpu,memory\n"
    scenario = {
        "workload": {"type": "tasks", "path": str(table)},
        "cluster": {"machines": [{"cpu": 1e9, "mem": 1e9}]},
        "policy": {"fitness": "best-fit"},
    }
    table.write_text(f"{head}1,1,0,10,3,0.3,1\n")
    with pytest.raises(
        simkit.errors.ScenarioError, match="1e\\+09 cpu in all, and tasks ask for fractions"
    ):
        simkit.simulate(scenario)
    table.write_text(f"{head}1,1,0,10,3,0.25,1\n")
    assert simkit.simulate(scenario).metrics["jobs"]["submitted"] == 1


def test_a_duration_beyond_136_years_is_refused():
    with pytest.raises(
        simkit.errors.ScenarioError, match=r"scheduling\.step: '100000d' is too long"
    ):
        simkit.simulate("quickstart", overrides={"scheduling.step": "100000d"})
