"""Slowdown of jobs of several tasks or instances, waits of instances, and the offered load."""

from __future__ import annotations

import numpy as np
import pytest

import simkit

HEAD = "job_id,task_id,submit_time_s,run_time_s,instances,cpu,parents,requested_time_s"
COLUMNS = {name: name for name in HEAD.split(",")}
FAILURES = {"mtbf": "3m", "mttr": "1m"}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a table of tasks, given as lines, first-fit."""

    def simulated(*lines, cpus=2, machines=1, **more):
        table = tmp_path / "tasks.csv"
        table.write_text("\n".join((HEAD, *lines, "")))
        group = {"count": machines, "cpu": cpus}
        scenario = {
            "workload": {"type": "tasks", "path": str(table), "columns": COLUMNS},
            "cluster": {"machines": [group], **more.pop("cluster", {})},
            "policy": {"fitness": "first-fit"},
        }
        return simkit.simulate(scenario | more)

    return simulated


def mean(run, metric):
    return run.metrics[metric]["mean"]


def first_waits(run):
    """Return every instance's wait, by the rows of the allocations one by one."""
    submit = dict(run.jobs.select("job_id", "submit_time_s").iter_rows())
    first: dict[tuple[int, int], float] = {}
    for row in run.allocations.iter_rows(named=True):
        for instance in range(row["first_instance"], row["first_instance"] + row["count"]):
            key = row["job_id"], instance
            first[key] = min(first.get(key, np.inf), row["start_time_s"])
    return [start - submit[job] for (job, _), start in first.items()]


def test_ten_instances_on_two_cores_are_slowed_down_five_times(run):
    bag = run("1,1,0,10,10,1,,")
    assert bag.jobs["turnaround_time_s"].item() == 50
    assert bag.jobs["ideal_time_s"].item() == 10
    assert mean(bag, "slowdown") == mean(bag, "bounded_slowdown") == 5
    # a bag that asks for ten processors in all
    assert mean(bag, "per_processor_bounded_slowdown") == 1
    waits = bag.metrics["instance_wait_time_s"]
    assert (waits["mean"], waits["p50"], waits["max"], waits["count"]) == (20, 20, 40, 10)
    assert waits["p99"] == 40
    assert mean(bag, "wait_time_s") == 0


def test_ideal_is_the_longest_way_through_the_dependencies(run):
    # 1 -> 2 -> 4 takes 5 + 20 + 1, 1 -> 3 -> 4 takes 5 + 8 + 1, 5 depends on nothing; rows may
    # come in any order
    dag = run("1,4,0,1,1,1,2;3,", "1,2,0,20,1,1,1,", "1,3,0,8,3,1,1,", "1,1,0,5,2,1,,", "1,5,0,9,1,1,,",
              cpus=1)  # fmt: skip
    job = dag.jobs.row(0, named=True)
    assert job["ideal_time_s"] == 5 + 20 + 1
    assert job["turnaround_time_s"] == 1 + 20 + 3 * 8 + 2 * 5 + 9
    assert mean(dag, "slowdown") == pytest.approx(64 / 26)


def test_instances_wait_from_the_end_of_the_last_parent(run):
    dag = run("1,1,4,10,1,1,,", "1,2,4,3,1,1,,", "1,3,4,2,3,1,1;2,")
    tasks = dag.tasks.sort("task_id")
    assert tasks["ready_time_s"].to_list() == [4, 4, 14]
    waits = dag.metrics["instance_wait_time_s"]
    assert (waits["mean"], waits["count"], waits["censored"]) == (2 / 5, 5, 0)


def test_one_gang_or_one_instance_has_no_ideal_time(run):
    one = run("1,1,0,10,1,2,,", "2,1,0,20,1,2,,")
    assert one.jobs["ideal_time_s"].to_list() == [None, None]
    assert mean(one, "slowdown") == (10 / 10 + 30 / 20) / 2
    rigid = simkit.simulate("quickstart")
    assert rigid.jobs["ideal_time_s"].null_count() == len(rigid.jobs)
    assert "instance_wait_time_s" not in rigid.metrics


def test_failures_of_machines_do_not_improve_slowdown(run):
    """With end - start for ideal, mean bounded slowdown fell from 1.5 to 1.11 here."""
    lines = ["1,1,0,600,4,1,,", "2,1,0,600,4,1,,"]
    calm = run(*lines, cpus=1, machines=4)
    hard = run(*lines, cpus=1, machines=4, seed=21,
               cluster={"failures": {"mtbf": "30m", "mttr": "5m"}})  # fmt: skip
    slower = mean(hard, "turnaround_time_s") / mean(calm, "turnaround_time_s")
    assert slower > 3
    for metric in ("slowdown", "bounded_slowdown"):
        assert mean(calm, metric) == 1.5
        assert mean(hard, metric) == pytest.approx(1.5 * slower)


def test_a_lost_attempt_of_a_single_instance_is_not_run_time(run):
    lines = [f"{job},1,{job * 40},60,1,1,," for job in range(40)]
    lost = run(*lines, cluster={"failures": FAILURES})
    assert lost.jobs["lost_time_s"].max() > 0
    assert lost.jobs["run_time_s"].to_list() == [60] * 40
    slowdowns = lost.jobs["turnaround_time_s"] / 60
    assert mean(lost, "slowdown") == pytest.approx(slowdowns.mean())


def test_a_killed_job_counts_with_what_it_executed(run):
    # its user asks for 5 s; of the three instances, two run at a time
    killed = run("1,1,0,8,3,1,,5", walltime="kill")
    job = killed.jobs.row(0, named=True)
    assert (job["status"], job["turnaround_time_s"], job["ideal_time_s"]) == ("killed", 10, 5)
    assert mean(killed, "slowdown") == 2


@pytest.mark.parametrize("running", ["requeue", "suspend"])
def test_instances_that_start_over_or_go_on_wait_once(run, running):
    lines = [f"{job},1,{job * 40},60,4,1,," for job in range(40)]
    lost = run(*lines, cpus=4, cluster={"failures": FAILURES | {"running": running}})
    rows = first_waits(lost)
    waits = lost.metrics["instance_wait_time_s"]
    assert (lost.jobs["lost_time_s"] + lost.jobs["suspended_time_s"]).max() > 0
    assert (waits["count"], waits["censored"]) == (160, 0)
    assert waits["mean"] == pytest.approx(np.mean(rows))
    assert waits["std"] == pytest.approx(np.std(rows, ddof=1))
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert waits[name] == pytest.approx(np.quantile(rows, quantile))


def test_offered_load_adds_up_tasks_with_their_own_run_times(run):
    # job 1 asks for 2 · 10 + 3 · 1 · 100 cpu-seconds, not for (2 + 3) · 100
    two = run("1,1,0,10,1,2,,", "1,2,0,100,3,1,,", "2,1,100,50,1,1,,", cpus=4)
    assert two.metrics["offered_load_cpu"]["value"] == (20 + 300 + 50) / (4 * 100)
    assert two.metrics["offered_load_cpu"]["count"] == 2
    trimmed = run("1,1,0,10,1,2,,", "1,2,0,100,3,1,,", "2,1,100,50,1,1,,", cpus=4,
                  metrics={"warmup": "50s"})  # fmt: skip
    assert trimmed.metrics["offered_load_cpu"]["count"] == 1


def test_weights_of_response_times_are_areas(run):
    # job 1: area 20 + 300, job 2: area 50, each weighted with its turnaround
    two = run("1,1,0,10,1,2,,", "1,2,0,100,3,1,,", "2,1,100,50,1,1,,", cpus=9)
    assert two.metrics["awrt_s"]["value"] == pytest.approx((320 * 100 + 50 * 50) / 370)
