"""Names of resources: none is that of a column of the results."""

from __future__ import annotations

import numpy as np
import pytest

import simkit
from simkit.errors import ScenarioError, SimkitError, TraceError
from simkit.workload import Workload
from simkit.workload.cluster import Cluster
from simkit.workload.workload import COLUMNS

LOAD = {"type": "poisson", "jobs": 30, "processors": 4, "rate_per_s": 0.1, "mean_run_time_s": 50}
EVERY_COLUMN = {
    "workload": LOAD, "estimates": {"type": "user-mean", "correction": "tsafrir"},
    "value": {"deadlines": "qos"},
    "cluster": {"partitions": [{"name": "all", "processors": 4}]},
}  # fmt: skip


@pytest.mark.parametrize("name", ["status", "wait_time_s", "value", "gang"])
def test_a_resource_that_is_called_like_a_column_is_refused(name):
    machines = [{"count": 1, "processors": 4, name: 3}]
    with pytest.raises(ScenarioError, match=f"resource '{name}' has the name of a column"):
        simkit.simulate({"workload": LOAD, "cluster": {"machines": machines}})
    columns = {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [1.0], name: [2.0]}
    with pytest.raises(TraceError, match=f"resource '{name}' has the name of a column"):
        Workload.from_jobs(
            {key: np.array(values) for key, values in columns.items()}, request=(name,)
        )


def test_all_columns_are_known(tmp_path):
    run = simkit.simulate(EVERY_COLUMN)
    found = {*run.jobs.columns, *run.tasks.columns} - {"processors"}
    table = tmp_path / "jobs.csv"
    table.write_text("job_id,submit_time_s,run_time_s,processors,release_time_s\n1,0,5,1,9\n")
    workload = {"type": "jobs", "path": str(table)}
    found |= {*simkit.simulate({"workload": workload, "cluster": {"processors": 4}}).jobs.columns}
    found -= {"processors"}
    assert found == COLUMNS


@pytest.mark.filterwarnings("error")
def test_capacities_whose_sum_is_endless_are_refused():
    with pytest.raises(SimkitError, match="the machines have inf cpu in all"):
        Cluster(("cpu",), ("a", "b"), np.array([[1e308], [1e308]]))
