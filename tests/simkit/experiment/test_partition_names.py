"""A scenario's partitions by the names that the trace has: from the file to the audited run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simkit
from simkit.errors import ScenarioError
from simkit.results.run_folder import open_run
from simkit.verify import verify_run

HEADER = "JobID|User|Partition|QOS|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS"
ROW = (
    "{0}|u|{1}|{2}|COMPLETED|2024-01-01T08:00:0{0}|2024-01-01T08:00:05|2024-01-01T09:00:05|"
    "01:00:00|02:00:00|2"
)
JOBS = [("cpu", "normal"), ("gpu", "normal"), ("cpu", "urgent"), ("gpu", "urgent")]


@pytest.fixture
def scenario(tmp_path: Path) -> Any:
    """Return a function that makes a scenario of four jobs in two partitions and two QOS."""
    rows = [ROW.format(number, *names) for number, names in enumerate(JOBS, 1)]
    (tmp_path / "log.txt").write_text("\n".join((HEADER, *rows, "")))

    def make(*partitions: dict[str, Any]) -> dict[str, Any]:
        machines = [{"name": name, "processors": 8} for name in ("left", "right")]
        return {
            "workload": {"type": "sacct", "path": str(tmp_path / "log.txt")},
            "cluster": {"machines": machines, "partitions": list(partitions)},
        }

    return make


LEFT = {"name": "left", "machines": ["left"]}
REST = {"name": "rest", "machines": ["right"]}

TAKEN = [
    # what the left partition names, the jobs that come to it
    ({"partitions": ["gpu"]}, [2, 4]),
    ({"queues": ["urgent"]}, [3, 4]),
    ({"partitions": ["gpu"], "queues": ["urgent"]}, [2, 3, 4]),  # either will do
    ({"partitions": [0]}, [1, 3]),  # numbers in order of appearance still work
    ({"partitions": ["cpu", 1]}, [1, 2, 3, 4]),
    ({}, [1, 2, 3, 4]),  # it names none: all
]


@pytest.mark.parametrize(("names", "jobs"), TAKEN)
def test_jobs_come_to_the_partition_that_names_them(
    names: dict[str, Any], jobs: list[int], scenario: Any, tmp_path: Path
) -> None:
    simkit.simulate(scenario(LEFT | names, REST), output=tmp_path / "run")
    run = open_run(tmp_path / "run")
    held = run.allocations
    assert sorted(held.filter(held["machine_id"] == 0)["job_id"]) == jobs
    assert verify_run(tmp_path / "run").ok


def test_a_run_tells_its_partitions_by_name(scenario: Any, tmp_path: Path) -> None:
    simkit.simulate(scenario(LEFT | {"queues": [1], "partitions": ["gpu"]}), output=tmp_path / "a")
    described = open_run(tmp_path / "a").info["cluster"]["partitions"][0]
    assert (described["queues"], described["partitions"]) == (["urgent"], ["gpu"])


def test_names_that_the_trace_does_not_have_are_told_all_at_once(scenario: Any) -> None:
    wrong = scenario(LEFT | {"queues": ["urgnt"]}, REST | {"partitions": ["gpu", "knl"]})
    with pytest.raises(ScenarioError) as caught:
        simkit.simulate(wrong)
    assert caught.value.problems == (
        "cluster.partitions.0.queues: the trace has no queue called 'urgnt'; did you mean "
        "'urgent'?",
        "cluster.partitions.1.partitions: the trace has no partition called 'knl'; known: cpu, gpu",
    )


def test_what_is_neither_a_number_nor_a_name_is_refused(scenario: Any) -> None:
    with pytest.raises(ScenarioError) as caught:
        simkit.simulate(scenario(LEFT | {"queues": [1.5, True, "high"]}))
    assert caught.value.problems == (
        "cluster.partitions.0.queues.0: must be a whole number or a name, not 1.5",
        "cluster.partitions.0.queues.1: must be a whole number or a name, not True",
    )


SWF = """\
; MaxProcs: 8
; Queue: 1 express
; Queue: 2 normal
1 0 5 100 4 -1 -1 4 200 -1 1 1 1 -1 1 -1 -1 -1
2 10 0 50 2 -1 -1 2 60 -1 1 2 1 -1 2 -1 -1 -1
"""


def test_queues_by_the_names_of_an_swf_header(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(SWF)
    by_name = {"name": "first", "queues": ["normal"]}
    scenario = {
        "workload": {"type": "swf", "path": str(tmp_path / "log.swf")},
        "cluster": {"processors": 8, "partitions": [by_name, {"name": "rest"}]},
    }
    run = simkit.simulate(scenario, output=tmp_path / "run")
    assert dict(run.jobs.select("job_id", "site_partition").iter_rows()) == {1: "rest", 2: "first"}
    assert verify_run(tmp_path / "run").ok
    by_name["queues"] = ["norml"]
    with pytest.raises(ScenarioError, match="no queue called 'norml'; did you mean 'normal'"):
        simkit.simulate(scenario)


def test_a_name_needs_a_trace_with_names() -> None:
    partitions = [{"name": "a", "queues": ["low"]}]
    load = {"type": "poisson", "jobs": 3, "processors": 8, "rate_per_s": 0.1}
    with pytest.raises(ScenarioError, match=r"cluster\.partitions\.0\.queues.*'low'"):
        simkit.simulate({"workload": load, "cluster": {"processors": 8, "partitions": partitions}})
