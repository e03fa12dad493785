"""From a scenario to workload, cluster and policy; the same results in memory and on disk."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simkit.errors import PluginError, RunError, ScenarioError
from simkit.experiment import Experiment, carry_out, prepare
from simkit.results.run_folder import open_run
from simkit.scenario.yaml_document import load_scenario
from simkit.verify import verify_run
from simkit.workload import Workload

SAMPLE = {"type": "swf", "path": "sample:lublin_1000"}


def built(**sections: Any) -> Experiment:
    return prepare(load_scenario({"workload": SAMPLE, **sections}))


# --- the workload ----------------------------------------------------------------------------


def test_transforms_are_applied_in_order() -> None:
    """The window counts in the log's own time, before the load compresses it."""
    workload = {**SAMPLE, "window": {"end": "2d"}, "load": 2.0, "processors_scale": 2.0}
    whole, cut = built().trace.workload, built(workload=workload).trace.workload
    inside = whole.submit_time_s < whole.submit_time_s[0] + 2 * 86400
    assert len(cut) == inside.sum()
    since = whole.submit_time_s[inside] - whole.submit_time_s[0]
    np.testing.assert_allclose(cut.submit_time_s - cut.submit_time_s[0], since / 2, atol=1e-6)
    assert (cut.instances == whole.instances[inside] * 2).all()
    assert (cut.run_time_s == whole.run_time_s[inside]).all()


def test_a_seed_gives_another_generated_or_resampled_log_and_the_policy_does_not() -> None:
    model = {"type": "lublin", "jobs": 50, "processors": 16}
    drawn = {**SAMPLE, "resample": {"weeks": 2}}
    for workload in (model, drawn):
        same, again, other = (
            built(workload=workload, seed=seed, policy={"order": order}).trace.workload
            for seed, order in ((0, "fcfs"), (0, "random"), (1, "fcfs"))
        )
        assert (same.submit_time_s == again.submit_time_s).all()
        assert len(same) != len(other) or (same.submit_time_s != other.submit_time_s).any()


def test_a_reader_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from simkit.workload import RowReport, Trace, Workload\n"
        "def read(jobs):\n"
        "    columns = dict(job_id=range(jobs), submit_time_s=[0.0] * jobs,"
        " run_time_s=[1.0] * jobs, processors=[1] * jobs)\n"
        "    return Trace(Workload.from_jobs(columns), RowReport(jobs, jobs))\n"
        "def nothing(): return 7\n"
    )

    def workload(name: str, **args: object) -> dict[str, object]:
        return {"type": "plugin", "reader": f"{tmp_path}/mine.py:{name}", "args": args}

    cluster = {"processors": 2}
    assert len(built(workload=workload("read", jobs=3), cluster=cluster).trace.workload) == 3
    with pytest.raises(PluginError, match=r"returned a int; a reader returns a .*Trace"):
        built(workload=workload("nothing"), cluster=cluster)
    with pytest.raises(ScenarioError, match="takes no argument 'job'; did you mean 'jobs'"):
        built(workload=workload("read", job=3), cluster=cluster)
    with pytest.raises(ScenarioError, match="missing a required argument: 'jobs'"):
        built(workload=workload("read"), cluster=cluster)


# --- the cluster -----------------------------------------------------------------------------

MACHINES = {
    "machines": [
        {"name": "big", "count": 2, "mem": 8.0, "processors": 16},
        {"name": "gpu", "processors": 8, "gpu": 4},
        {"count": 1, "processors": 4},
    ],
    "partitions": [
        {"name": "express", "machines": ["gpu"], "queues": [1], "max_time": "1h", "priority": 2},
        {"name": "all", "max_processors": 20},
    ],
}


def test_machines_and_partitions() -> None:
    cluster = built(cluster=MACHINES).cluster
    assert cluster.resources == ("processors", "mem", "gpu")
    assert cluster.machine_names == ("big-0", "big-1", "gpu", "machine-3")
    assert cluster.capacity.tolist() == [[16, 8, 0], [16, 8, 0], [8, 0, 4], [4, 0, 0]]
    express, everything = cluster.partitions
    assert (express.machines, express.queues, express.max_time_s) == ((2,), {1}, 3600.0)
    assert (express.max_demand, express.priority) == (float("inf"), 2.0)
    assert (everything.machines, everything.max_demand) == (None, 20.0)


WINDOWS = [
    # the window, (start, end, machine, amounts) of the result
    ({"start": "1h", "duration": "1h", "processors": 5}, [(3600, 7200, 0, (5,))]),
    ({"start": 0, "end": "1h"}, [(0, 3600, 0, (10,))]),
    # dates count from the trace's zero, here 1970-01-01T01:00Z
    (
        {"start": "1970-01-01T02:00+00:00", "end": "1970-01-01T02:30+00:00", "processors": 1},
        [(3600, 5400, 0, (1,))],
    ),
]


@pytest.mark.parametrize(("window", "expected"), WINDOWS)
def test_maintenance_of_a_pool(window: dict[str, object], expected: list[object]) -> None:
    jobs = {"job_id": [1], "submit_time_s": [18000.0], "run_time_s": [3600.0], "processors": [10]}
    workload = Workload.from_jobs(jobs, epoch_s=3600.0)
    section = load_scenario(
        {"workload": SAMPLE, "cluster": {"processors": 10, "maintenance": [window]}}
    ).cluster
    found = section.build(workload).maintenance
    assert [(w.start_s, w.end_s, w.machine, w.amount) for w in found] == expected


def test_a_window_that_recurs_has_no_end() -> None:
    window = {"start": "1h", "duration": "1h", "every": "3h", "processors": 5}
    cluster = built(cluster={"processors": 10, "maintenance": [window]}).cluster
    changes = [(c.time_s, c.kind) for c in islice(cluster.known_changes(), 20_000)]
    assert changes == [
        (3600.0 + 10_800 * number + 3600 * (kind == "give"), kind)
        for number in range(10_000)
        for kind in ("take", "give")
    ]


def test_maintenance_of_groups_and_dates_without_an_epoch() -> None:
    window = {"start": "1h", "duration": "1h", "machines": ["big"], "running": "requeue"}
    cluster = built(cluster={**MACHINES, "maintenance": [window]}).cluster
    assert [(w.machine, w.amount, w.running) for w in cluster.maintenance] == [
        (0, (16.0, 8.0, 0.0), "requeue"),
        (1, (16.0, 8.0, 0.0), "requeue"),
    ]
    dated = {"start": "2000-01-01T00:00+00:00", "duration": "1h"}
    jobs = {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [1.0], "processors": [1]}
    section = load_scenario(
        {"workload": SAMPLE, "cluster": {"processors": 10, "maintenance": [dated]}}
    ).cluster
    with pytest.raises(ScenarioError, match="does not say when it began"):
        section.build(Workload.from_jobs(jobs))


# --- the run ---------------------------------------------------------------------------------

VARIANTS: list[dict[str, Any]] = [
    {},
    {"policy": {"order": "wfp3", "backfill": "easy"}, "estimates": "user-mean"},
    {"walltime": "kill", "scheduling": {"every": "10m"}},
    {"cluster": {"machines": [{"count": 16, "processors": 8}]}, "policy": {"backfill": "easy"}},
    {"policy": {"backfill": "conservative"}, "admission": {"slots": 3, "backlog": 9},
     "estimates": {"type": "perturbed", "factor": 2}, "workload": {
        "type": "lublin", "jobs": 500, "processors": 64, "users": 5}},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:walltime. kill kills no job:simkit.errors.SimkitWarning")
@pytest.mark.parametrize("sections", VARIANTS)
def test_a_run_is_the_same_in_memory_and_on_disk_and_the_auditor_agrees(
    sections: dict[str, Any], tmp_path: Path
) -> None:
    kept = carry_out(built(**sections))
    written = carry_out(built(**sections), tmp_path / "run")
    assert kept.digest == written.digest
    assert kept.metrics == open_run(tmp_path / "run").metrics
    for table in ("jobs", "tasks", "allocations", "timeline", "events"):
        assert kept.scan(table).collect().equals(written.scan(table).collect())
    audit = verify_run(tmp_path / "run")
    assert audit.ok, "\n".join(map(str, audit.violations[:5]))


def test_what_cannot_be_measured_is_refused_before_the_run() -> None:
    with pytest.raises(RunError, match=r"metrics: warm-up 10d .* cool-down 3d .* leave nothing"):
        built(metrics={"warmup": "10d", "cooldown": "3d"})


def test_run_json_holds_what_was_run(tmp_path: Path) -> None:
    info = carry_out(built(seed=3), tmp_path / "run").info
    assert (info["format"], info["status"], info["error"], info["seed"]) == (1, "complete", "", 3)
    assert info["scenario"]["workload"]["path"].endswith("lublin_1000.swf.gz")
    assert len(info["scenario_sha256"]) == 64
    assert [(len(i["sha256"]), i["bytes"] > 0) for i in info["inputs"]] == [(64, True)]
    assert info["trace"]["read"] == info["trace"]["accepted"] == info["jobs"] == 1000
    assert info["cluster"]["machines"] == [
        {"id": 0, "name": "pool", "capacity": {"processors": 128.0}}
    ]
    assert info["cluster"]["partitions"][0]["machines"] == [0]
    assert set(info["wall_time_s"]) == {"read", "simulate", "write", "metrics"}
    assert info["peak_memory_bytes"] > 1e6
    assert info["decisions"] > 1000
    assert {"simkit", "python", "polars", "simpy"} <= set(info["versions"])


LABELS = [
    ({"order": "fcfs"}, "fcfs"),
    ({"order": "sjf", "backfill": "easy", "placement": "best-fit"}, "sjf+easy+best-fit"),
    ({"order": {"type": "multifactor", "age": 2.0}}, "multifactor(age=2.0)"),
    ({"name": "simkit.policies.orderings:FCFS"}, "FCFS"),
    (
        {"lookahead": [{"fitness": "tetris"}, {"order": "sjf", "backfill": "easy"}]},
        "lookahead(tetris,sjf+easy)",
    ),
    ({"lookahead": [{}], "objective": "slowdown"}, "lookahead(fcfs,objective=slowdown)"),
]


@pytest.mark.parametrize(("policy", "label"), LABELS)
def test_policy_labels(policy: dict[str, Any], label: str) -> None:
    assert load_scenario({"workload": SAMPLE, "policy": policy}).policy.label == label


def test_a_policy_file_is_an_input(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from simkit.policies.orderings import SJF\nclass Mine(SJF): pass\n")
    run = carry_out(built(policy={"order": f"{mine}:Mine"}))
    assert str(mine) in [entry["path"] for entry in run.info["inputs"]]
