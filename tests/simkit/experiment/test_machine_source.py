"""A cluster from a trace's machines, with errors, containers, over-commit and random failures."""

from __future__ import annotations

from pathlib import Path

import pytest

import simkit
from simkit.errors import ScenarioError, SimkitError

JOBS = """job_id,task_id,submit_time,duration,instances_num,cpu,memory
1,1,0,10,3,2,0.1
2,1,5,10,2,2,0.1
3,1,5,1,1,65,0.1
"""
SERVERS = """0,1,add,,4,1,1
0,2,add,,2,0.5,1
7,1,softerror,agent_check,0,0,0
20,3,add,,8,1,1
30,2,remove,,0,0,0
"""
CONTAINERS = """0,Create,11,1,2,0.5,0.1,0|1
9,Remove,11,1,2,0.5,0.1,0|1
9,Create,12,2,2,0.1,0.1,0|1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "server_event.csv").write_text(SERVERS)
    (tmp_path / "container_event.csv").write_text(CONTAINERS)
    return tmp_path


def run(folder: Path, *, policy=None, **cluster) -> simkit.Run:
    trace = {"path": str(folder / "server_event.csv"), **cluster.pop("trace", {})}
    return simkit.simulate(
        {
            "workload": {"type": "tasks", "path": str(folder / "jobs.csv")},
            "cluster": {"trace": trace, **cluster},
            "policy": policy or {"fitness": "first-fit"},
        }
    )


def pieces(made: simkit.Run) -> list[tuple]:
    return (
        made.allocations.select("job_id", "machine_id", "count", "start_time_s", "end_time_s", "outcome")
        .sort("start_time_s", "job_id", "machine_id").rows()
    )  # fmt: skip


def capacities(made: simkit.Run) -> list[tuple]:
    rows = made.timeline.select("time_s", "capacity_cpu").rows()
    return [row for i, row in enumerate(rows) if not i or rows[i - 1][1] != row[1]]


def test_machines_come_go_and_fail_as_the_trace_says(folder):
    made = run(folder, trace={"softerror": {"running": "requeue", "repair": 3}})
    assert capacities(made)[:4] == [(0, 6), (7, 2), (10, 6), (20, 14)]
    assert pieces(made) == [
        (1, 0, 2, 0, 7, "lost"), (1, 1, 1, 0, 10, "finished"),
        (1, 0, 2, 10, 20, "finished"), (2, 1, 1, 10, 20, "finished"), (2, 0, 1, 20, 30, "finished"),
    ]  # fmt: skip
    assert [m["name"] for m in made.info["cluster"]["machines"]] == ["1", "2", "3"]
    names = [Path(row["path"]).name for row in made.info["inputs"]]
    assert names == ["jobs.csv", "server_event.csv"]


def test_what_no_machine_could_hold_is_rejected_and_counted(folder):
    made = run(folder)
    rejected = made.jobs.filter(made.jobs["status"] == "rejected")
    assert rejected["job_id"].to_list() == [3]
    assert rejected["reason"][0] == "asks for 1 x 65 cpu, 0.1 mem at once, no machine can hold one"
    assert made.metrics["jobs"]["rejected"] == 1


def test_containers_hold_their_part(folder):
    made = run(folder, containers={"path": str(folder / "container_event.csv")})
    # machine 0 has 2 of 4 cores until 9; then machine 1 has none
    assert pieces(made)[:2] == [(1, 0, 1, 0, 10, "finished"), (1, 1, 1, 0, 10, "finished")]
    assert capacities(made)[:2] == [(0, 4), (7, 2)]


def test_a_container_on_an_unknown_machine(folder):
    path = folder / "container_event.csv"
    path.write_text(CONTAINERS + "10,Create,13,99,1,0.1,0.1,0\n")
    with pytest.raises(
        ScenarioError, match=r"1 container of 3 on .* 13 on 99; .*unknown_machines: skip"
    ):
        run(folder, containers={"path": str(path)})
    assert run(folder, containers={"path": str(path), "unknown_machines": "skip"}).jobs.height == 3


def test_machines_offer_more_than_they_have(folder):
    made = run(folder, overcommit={"cpu": 2})
    assert pieces(made)[0] == (1, 0, 3, 0, 10, "finished")  # 6 of 4 cores, by twos
    assert capacities(made)[0] == (0, 12)
    with pytest.raises(ScenarioError, match=r"overcommit: the machines have no gpu, only cpu, mem"):
        run(folder, overcommit={"gpu": 2})


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        ({"machines": [{"cpu": 1}]}, "cluster: has both machines and trace; leave one of the two out"),
        ({"failures": {"mtbf": 0, "mttr": 1}}, "cluster.failures.mtbf: must be more than 0, not 0"),
        ({"failures": {"mtbf": 1, "mttr": 1, "machines": ["a"]}}, "no group of machines is called 'a'"),
        ({"overcommit": {"cpu": -1}}, "cluster.overcommit.cpu: must be more than 0, not -1"),
        ({"trace": {"path": "gone"}}, "there is no file"),
        ({"trace": {"kind": 1}}, "cluster.trace.kind: unknown key"),
    ],
)  # fmt: skip
def test_sections_that_cannot_be(cluster, text, folder):
    with pytest.raises(SimkitError) as error:
        run(folder, **cluster)
    assert text in str(error.value)


def test_what_drains_is_available_until_it_is_free(folder):
    # one machine: it takes no new tasks from 10 on, but the one that it has runs until 1000
    (folder / "jobs.csv").write_text(
        "job_id,task_id,submit_time,duration,instances_num,cpu,memory\n1,1,0,1000,1,4,0.8\n"
    )
    (folder / "server_event.csv").write_text("0,1,add,,4,1,1\n10,1,softerror,x,0,0,0\n")
    made = run(folder, trace={"softerror": {"repair": None}})
    assert made.metrics["utilisation_cpu"]["value"] == pytest.approx(1)


def test_tasks_in_the_way_of_a_container_make_room(folder):
    path = folder / "container_event.csv"
    path.write_text("5,Create,11,1,3,0.5,0.1,0\n")
    made = run(folder, containers={"path": str(path), "running": "requeue"})
    assert [row[5] for row in pieces(made) if row[3] == 0 and row[1] == 0] == ["lost"]


def test_every_table_is_accounted_for(folder):
    made = run(folder, containers={"path": str(folder / "container_event.csv")})
    assert made.info["tables"]["machines"]["read"] == 5
    assert made.info["tables"]["containers"]["read"] == 3


def test_the_orders_of_cloudsimpy(folder):
    for order, fitness, fine in (("sjf", "first-fit", True), ("ljf", "tetris", False)):
        section = {"fitness": fitness, "order": order, "compat": "cloudsimpy"}
        scenario = {
            "workload": {"type": "tasks", "path": str(folder / "jobs.csv"), "window": {"jobs": "0..0"}},
            "cluster": {"machines": [{"count": 2, "cpu": 4, "mem": 1}]},
            "policy": section,
            "scheduling": {"every": "1s"},
        }  # fmt: skip
        if fine:
            assert simkit.simulate(scenario).metrics["jobs"]["finished"] == 1
        else:
            with pytest.raises(ScenarioError, match=r"policy\.compat"):
                simkit.simulate(scenario)
