"""The warning about jobs that wait at the end says how many wait for others."""

from __future__ import annotations

import simkit
from simkit.analysis.compare import compare_runs
from simkit.experiment.warnings import waiting_warning

TABLE = "job_id,submit_time_s,run_time_s,processors,preceding_job\n1,0,5,1,\n2,0,5,1,1\n3,1,5,1,2\n"


class Never:
    """Starts nothing."""

    def reset(self, info, rng):
        pass

    def schedule(self, state):
        yield from ()


def scenario(tmp_path, **workload):
    (tmp_path / "jobs.csv").write_text(TABLE)
    source = {"type": "jobs", "path": str(tmp_path / "jobs.csv")} | workload
    return {"workload": source, "cluster": {"processors": 8}}


def test_jobs_that_wait_for_others_are_counted(tmp_path):
    run = simkit.simulate(scenario(tmp_path), policy=Never())
    assert waiting_warning(run).endswith("; of these, 2 for a preceding job that has not ended")
    assert run.jobs["status"].to_list() == ["waiting"] * 3
    plain = simkit.simulate(scenario(tmp_path, dependencies="ignore"), policy=Never())
    assert "preceding" not in waiting_warning(plain)


def names(*runs):
    return compare_runs(*runs).frame()["metric"].to_list()


def test_runs_are_compared_by_the_wait_since_the_release_if_all_have_it(tmp_path):
    held, plain = (
        simkit.simulate(scenario(tmp_path, dependencies=kind)) for kind in ("simulated", "ignore")
    )
    assert held.metrics["wait_since_release_s"]["mean"] == 0
    assert held.metrics["wait_time_s"]["max"] == 9
    assert "wait_since_release_s" not in plain.metrics
    assert "wait_since_release_s" in names(held, held)
    assert "wait_since_release_s" not in names(held, plain)
