"""What `simkit trace info` tells of Alibaba's tables and of tables of tasks."""

from __future__ import annotations

import json
import tarfile

import polars as pl
import pytest
from trace_files import DATA, needs_real

from simkit.errors import TraceError
from simkit.scenario.workload import WORKLOADS, recognise
from simkit.traces.alibaba2017 import Alibaba2017Trace
from simkit.traces.alibaba2017.tables import TABLES
from simkit.workload.trace import task_facts

ALIBABA = DATA / "alibaba"

ROWS = {
    # two jobs; the last row never ran
    "batch_task": [
        "0,100,1,1,4,Terminated,50,0.25",
        "3600,3800,2,1,1,Terminated,100,0.5",
        "3600,0,2,2,1,Waiting,,",
    ],
    # both instances of job 1 that are shown ran 10 s
    "batch_instance": [
        "0,10,1,1,7,Terminated,1,1,1,1,0.1,0.1",
        "5,15,1,1,7,Terminated,1,1,1,1,0.1,0.1",
    ],
    "server_event": [
        "0,7,add,,64,1,1", "0,8,add,,64,1,1", "0,9,add,,32,0.5,1", "50,7,softerror,x,0,0,0",
    ],
    "server_usage": ["39600,7,40,50,10,1,2,3", "39660,8,60,,10,1,2,3"],
    # one from before the trace is replaced by one of the same size at 500 s
    "container_event": [
        "0,Create,1,7,4,0.1,0.1,1|2|3|4", "500,Remove,1,7,4,0.1,0.1,", "500,Create,2,8,4,0.1,0.1,",
    ],
    "container_usage": ["39600,1,20,30,10,1,2,3,1,1,1,1"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Write some of the tables into a folder and return it."""

    def write(*tables):
        for table in tables:
            (tmp_path / f"{table}.csv").write_text("".join(f"{row}\n" for row in ROWS[table]))
        return tmp_path

    return write


@pytest.fixture
def whole(folder):
    return Alibaba2017Trace.of(path=folder(*TABLES)).facts()


def test_a_whole_trace(whole):
    assert (whole["missing_tables"], set(whole["tables"])) == (
        [],
        {"batch_task", "batch_instance", "server_event", "container_event"},
    )
    assert (whole["jobs"], whole["tasks"], whole["instances"]) == (2, 2, 5)
    assert whole["cpu_per_instance"]["min"] == 0.5
    assert json.loads(json.dumps(whole, allow_nan=False)) == whole


def test_machines_are_those_added(whole):
    machines = whole["machines"]
    assert machines["count"] == 3
    assert machines["capacity"] == {"cpu": 160, "mem": 2.5}
    assert machines["sizes"] == [
        {"machines": 2, "cpu": 64, "mem": 1},
        {"machines": 1, "cpu": 32, "mem": 0.5},
    ]
    assert machines["events"] == {"add": 3, "softerror": 1}


def test_a_machine_added_twice_counts_once_with_its_last_size(folder):
    path = folder("server_event")
    with (path / "server_event.csv").open("a") as file:
        file.write("60,9,add,,64,1,1\n")
    machines = Alibaba2017Trace.of(path=path).facts()["machines"]
    assert (machines["count"], machines["capacity"]["cpu"]) == (3, 192)


def test_offered_load_and_where_run_times_come_from(whole, folder):
    # 4 instances of half a core for 10 s and one of a core for 200 s, over an hour
    area = 4 * 0.5 * 10 + 200
    assert whole["offered_load"]["cpu"] == pytest.approx(area / (160 * 3600))
    assert whole["run_times"] == "of instances"
    path = folder()
    (path / "batch_instance.csv").unlink()
    assert "waits included" in Alibaba2017Trace.of(path=path).facts()["run_times"]


def test_containers_and_the_most_that_they_hold(whole):
    found = whole["containers"]
    assert (found["count"], found["machines"], found["removed"]) == (2, 2, 1)
    assert found["before_the_trace"] == 1
    assert found["most_at_once"]["cpu"] == 4  # one goes at the instant at which the other comes
    assert found["share_of_machines"]["cpu"] == pytest.approx(4 / 160)


def test_usage_is_averaged_over_what_was_measured(whole):
    machines = whole["usage"]["server_usage"]
    assert (machines["rows"], machines["machines"]) == (2, 2)
    assert (machines["first_s"], machines["last_s"]) == (39600, 39660)
    assert (machines["mean_cpu_percent"], machines["mean_mem_percent"]) == (50, 50)
    assert whole["usage"]["container_usage"]["containers"] == 1


@pytest.mark.parametrize("table", TABLES)
def test_any_single_table_is_enough(folder, table):
    path = folder(table)
    if table == "batch_instance":
        # alone it tells nothing without the tasks that its rows belong to
        assert Alibaba2017Trace.of(path=path).facts()["unread_tables"] == ["batch_instance"]
    for place in (path, path / f"{table}.csv"):
        facts = Alibaba2017Trace.of(path=place).facts()
        assert facts["missing_tables"] == [name for name in TABLES if name != table]
        assert recognise(place) == "alibaba2017"


def test_an_archive_is_a_trace(folder, tmp_path_factory):
    path = folder("batch_task", "server_event")
    archive = tmp_path_factory.mktemp("packed") / "trace_201708.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(path, arcname="trace_201708")
    assert recognise(archive) == "alibaba2017"
    assert Alibaba2017Trace.of(path=archive).facts()["machines"]["count"] == 3


def test_what_is_no_trace_is_left_to_the_readers_of_logs(tmp_path):
    assert recognise(tmp_path) == ""  # an empty folder
    (tmp_path / "machine_meta.csv").write_text("m_1,0,1,1,96,100,USING\n")
    assert recognise(tmp_path) == "alibaba2017"  # of 2018: the error says so
    with pytest.raises(TraceError, match="v2018"):
        Alibaba2017Trace.of(path=tmp_path).facts()


def test_a_table_of_tasks(tmp_path):
    path = tmp_path / "jobs.parquet"
    pl.DataFrame(
        {"submit_time": [0, 10], "duration": [5.0, 6.0], "cpu": [1.0, 0.5], "memory": [0.5, 0.1],
         "job_id": [1, 2], "task_id": [1, 1], "instances_num": [3, 2]}
    ).write_parquet(path)  # fmt: skip
    assert recognise(path) == "tasks"
    facts = task_facts("tasks", path, WORKLOADS.find("tasks").of(path=path).read())
    assert (facts["format"], facts["jobs"], facts["instances"]) == ("tasks", 2, 5)
    assert facts["tables"]["jobs.parquet"]["accepted"] == 2


@needs_real("alibaba")
def test_the_published_tables():
    facts = Alibaba2017Trace.of(path=ALIBABA).facts()
    assert facts["tables"]["batch_task"]["rows"] == 80_553
    assert (facts["machines"]["count"], facts["machines"]["capacity"]["cpu"]) == (1313, 84_032)
    assert facts["machines"]["events"] == {"add": 1313, "softerror": 39}
    assert (facts["tasks_per_job"]["max"], facts["instances_per_task"]["max"]) == (156, 64_486)
    assert (facts["first_submit_s"], facts["last_submit_s"]) == (-1078, 60_181)
    path = ALIBABA / "cloudsimpy_jobs.csv.gz"
    table = task_facts("tasks", path, WORKLOADS.find("tasks").of(path=path).read())
    assert (table["jobs"], table["tasks"], table["instances"]) == (5216, 31_756, 2_551_075)


def test_oddities_of_usage_are_counted_and_every_row_is_accounted_for(tmp_path):
    (tmp_path / "server_event.csv").write_text("0,1,add,,64,1,1\n")
    (tmp_path / "server_usage.csv").write_text(
        "300,1,10,20,30,1,1,1\n"  # as it should be
        "300,,10,20,30,1,1,1\n"  # of nobody
        "300,9,10,20,30,1,1,1\n"  # of a machine that was never added
        "300,1,-1,20,30,1,1,1\n"
        "300,1,10,101,30,1,1,1\n"
        "300,1,10,20,,1,1,1\n"
        ",1,10,20,30,1,1,1\n"
    )
    report = Alibaba2017Trace.of(path=tmp_path).reports()["server_usage"]
    assert report.read == report.accepted == 7
    assert report.notes == {
        "usage of nobody": 1, "usage without a time": 1, "usage outside 0 to 100 %": 2,
        "usage incomplete": 1, "usage without an event": 1,
    }  # fmt: skip
