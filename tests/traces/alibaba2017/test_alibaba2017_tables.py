"""Alibaba's other tables, the forms in which tables come, and what is wrong with broken ones."""

import gzip
import io
import tarfile

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import DATA, needs_real, refusal

from simkit.errors import TraceError
from simkit.traces.alibaba2017 import (
    read_alibaba2017,
    read_containers,
    read_machine_events,
    read_usage,
)
from simkit.traces.alibaba2017 import tables as names
from simkit.traces.columns import ALIBABA2017
from simkit.workload.capacity import Containers, MachineEvents

TASK = "10,40,1,1,2,Terminated,50,0.25"
TASKS = f"{TASK}\n30,50,2,2,1,Failed,100,0.5\n"
SERVERS = "0,1,add,,64,0.7,1\n0,2,add,,32,0.5,1\n"


@pytest.fixture
def write(file):
    return lambda name, content: file(content, name)


def archive(packed="gz", **tables):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{packed}") as tar:
        for name, text in tables.items():
            info = tarfile.TarInfo(f"trace_201708/{name}.csv")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


# ---- forms --------------------------------------------------------------------------------------

HEADER = ",".join(ALIBABA2017["batch_task"].names)
FORMS = {
    "batch_task.csv": TASKS,
    "batch_task.csv.gz": gzip.compress(TASKS.encode()),
    "any name": TASKS,
    "trace_201708.tgz": archive(batch_task=TASKS, server_event=SERVERS),
    "one.tar.gz": archive(batch_task=TASKS),
    "plain.tar": archive("", container_event="", batch_task=TASKS),
    "header.csv": f"{HEADER}\n{TASKS}",
    "crlf.csv": f"{HEADER}\n{TASKS}".replace("\n", "\r\n"),
    "spaces.csv": TASKS.replace(",", " , "),
    "quotes.csv": TASKS.replace("Terminated", '"Terminated"'),
    "empty lines.csv": f"\n{HEADER}\n\n" + TASKS.replace("\n", "\n\n"),
    "no last line end.csv": TASKS.rstrip(),
    "mark.csv": b"\xef\xbb\xbf" + TASKS.encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_a_table(write, name):
    path = write(name, FORMS[name])
    trace = read_alibaba2017(path)
    assert trace.workload.job_id.tolist() == [1, 2]
    assert trace.workload.run_time_s.tolist() == [30, 20]
    assert (trace.report.read, trace.report.accepted) == (2, 2)
    assert trace.inputs == (path,)


def test_a_folder_is_searched_for_files_before_archives(write, tmp_path):
    write("batch_task.csv", f"{TASK}\n")
    write("trace_201708.tgz", archive(batch_task=TASKS, server_event=SERVERS))
    assert len(read_alibaba2017(tmp_path).workload) == 1
    assert read_machine_events(tmp_path).inputs == (tmp_path / "trace_201708.tgz",)


def test_lines_are_those_of_the_file(write):
    """A header, an empty line and CRLF count as lines."""
    path = write(
        "batch_task.csv", f"{HEADER}\r\n\r\n{TASK}\r\n{TASK.replace('2,Term', '0,Term')}\n"
    )
    assert read_alibaba2017(path).report.lines == {names.NO_INSTANCES: [4]}


# ---- broken files -------------------------------------------------------------------------------

NINE = "M1,1,j_1,1,Terminated,10,20,100,0.5\n"
BROKEN = [
    # content, what the message says after the path
    ("", ": no tasks: the table is empty"),
    (f"{HEADER}\n", ": no tasks: the table is empty"),
    (f"{TASK}\n1,2,3\n", ":2: 3 fields, batch_task of cluster-trace-v2017 has 8 (create_time_s, "),
    (f"{TASK},5\n", ":1: 9 fields, batch_task of cluster-trace-v2017 has 8; this is batch_task of "
     "cluster-trace-v2018"),
    (NINE, ":1: 9 fields, batch_task of cluster-trace-v2017 has 8; this is batch_task of "
     "cluster-trace-v2018"),
    # one field too few and one too many make up for each other
    (f"{TASK}\n{TASK[:-5]}\n{TASK},x\n", ":2: 7 fields"),
    (f"{TASK}\n{TASK.replace('40', 'x')}\n", ":2: field 2 (end_time_s) is 'x', not a number"),
    (TASK.replace("Terminated", "Waiting"), ": no tasks: all 1 rows are left out (task never "),
    (b"\x00\x01\x02binary", ":1: byte 0x00 does not occur in text"),
    (gzip.compress(TASKS.encode() * 9999)[:500], "the gzip data are cut off or damaged"),
    (archive(batch_task=TASKS * 9999)[:-600], ": the archive is cut off or damaged"),
    (archive(server_event=SERVERS), ": no table batch_task; it has server_event;"),
    (archive(batch_task=f"{TASK}\n1,2\n"), ":trace_201708/batch_task.csv:2: 2 fields"),
    (archive(batch_task="1,\0"), ":trace_201708/batch_task.csv:1: byte 0x00 does not occur"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text"), BROKEN)
def test_a_broken_table_is_an_error_with_its_place(write, content, text):
    found = refusal(read_alibaba2017, write("given", content))
    assert text in found
    assert "Traceback" not in found


def test_missing_files_and_tables(write, tmp_path):
    assert "no such file" in refusal(read_alibaba2017, tmp_path / "batch_tusk.csv")
    assert ": no table batch_task; it has no table of the trace" in refusal(
        read_alibaba2017, tmp_path
    )
    write("machine_meta.csv", "")
    assert "machine_meta belongs to cluster-trace-v2018" in refusal(read_machine_events, tmp_path)
    path = write("server_event.csv", SERVERS)
    assert ": no table batch_task; it has server_event" in refusal(read_alibaba2017, path)


def test_machines_of_2018_are_recognised(write):
    path = write("server_event.csv", "m_1,0,add,3,64,100,USING\n")
    assert "this is a table of cluster-trace-v2018" in refusal(read_machine_events, path)


# ---- machine events -----------------------------------------------------------------------------


def test_errors_take_the_capacity_of_the_machine(write):
    text = SERVERS + "70,1,softerror,agent_check,0,0,0\n50,2,harderror,disk,,,\n"
    events = read_machine_events(write("server_event.csv", text))
    assert events.resources == ("cpu", "mem")
    assert events.time_s.tolist() == [0, 0, 50, 70]
    assert events.machine_id.tolist() == [1, 2, 2, 1]
    assert events.kind.tolist() == ["add", "add", "harderror", "softerror"]
    assert events.capacity == pytest.approx(np.array([[64, 0.7], [32, 0.5], [32, 0.5], [64, 0.7]]))
    assert events.machines().tolist() == [1, 2]
    report = events.report
    assert report.balanced()
    assert (report.read, report.accepted) == (4, 2)
    assert report.repaired == {names.CAPACITY_KNOWN: 2}
    assert report.notes == {names.EVENT_ORDER: 1}


def test_machines_come_back_with_another_size(write):
    text = SERVERS + "5,1,remove,,0,0,0\n8,1,add,,96,1,1\n9,1,softerror,x,0,0,0\n9,2,add,,8,1,1\n"
    events = read_machine_events(write("server_event.csv", text), resources=("cpu", "disk"))
    assert events.kind.tolist()[2:] == ["remove", "add", "softerror", "add"]
    assert events.capacity[2:].tolist() == [[64, 1], [96, 1], [96, 1], [8, 1]]
    assert events.report.notes == {names.ADDED_AGAIN: 1}


MACHINE_ROWS = [
    # row, rule
    ("0,,add,,64,1,1", names.NO_MACHINE),
    (",3,add,,64,1,1", names.NOT_A_NUMBER),
    ("nan,3,add,,64,1,1", names.NOT_A_NUMBER),
    ("0,3,add,,-64,1,1", names.NOT_A_NUMBER),
    ("0,3,reboot,,64,1,1", names.UNKNOWN_EVENT),
    ("0,3,add,,0,0,0", names.NO_CAPACITY),
    ("0,3,add,,,,", names.NO_CAPACITY),
    ("9,3,softerror,x,0,0,0", names.UNKNOWN_MACHINE),
]


@pytest.mark.parametrize(("row", "rule"), MACHINE_ROWS)
def test_each_rule_for_machines_is_counted_once(write, row, rule):
    report = read_machine_events(write("server_event.csv", f"{SERVERS}{row}\n")).report
    assert report.balanced()
    assert (report.read, report.accepted, report.dropped) == (3, 2, {rule: 1})
    assert report.lines == {rule: [3]}


def test_a_table_without_machines_and_unknown_resources_are_refused(write):
    path = write("server_event.csv", "9,3,softerror,x,0,0,0\n")
    assert ": no machines: none of the 1 rows adds one" in refusal(read_machine_events, path)
    found = refusal(read_machine_events, path, resources=("cpu", "memory"))
    assert "the trace has no 'memory'" in found
    assert "once" in refusal(read_machine_events, path, resources=("cpu", "cpu"))


def test_machine_events_are_checked():
    with pytest.raises(TraceError, match=r"machine_id has shape(.|\n)*kinds gone"):
        MachineEvents(("cpu",), [0, 1], np.array([1]), np.array(["add", "gone"]), [[1.0], [1.0]])
    with pytest.raises(TraceError, match="ascending"):
        MachineEvents(("cpu",), [1, 0], np.array([1, 2]), np.array(["add"] * 2), [[1.0], [1.0]])


@needs_real("alibaba", "server_event.csv")
def test_the_real_machines():
    events = read_machine_events(DATA / "alibaba")
    assert (events.report.read, events.report.accepted) == (1352, 1313)
    assert events.report.repaired == {names.CAPACITY_KNOWN: 39}
    assert len(events.machines()) == 1313
    assert (events.capacity[:, 0] == 64).all()
    assert events.capacity[:, 1].min() == pytest.approx(0.575, abs=1e-3)


# ---- containers ---------------------------------------------------------------------------------

CONTAINERS = (
    "0,Create,7,1,4,0.02,0.1,0|1|2|3\n"
    "0,Create,5,1,8,0.04,0.2,4|5\n"
    "40,Remove,7,1,4,0.02,0.1,\n"
    "60,Create,7,2,2,0.01,0.1,1\n"
)


def test_creation_and_removal_make_one_container(write):
    held = read_containers(write("container_event.csv", CONTAINERS))
    assert held.container_id.tolist() == [5, 7, 7]
    assert held.machine_id.tolist() == [1, 1, 2]
    assert held.start_time_s.tolist() == [0, 0, 60]
    assert held.end_time_s.tolist() == [np.inf, 40, np.inf]
    assert held.request == pytest.approx(np.array([[8, 0.04], [4, 0.02], [2, 0.01]]))
    assert (held.report.read, held.report.accepted, len(held)) == (4, 4, 3)


CONTAINER_ROWS = [
    # row, rule
    ("70,Create,,1,4,0.1,0.1,", names.NO_CONTAINER),
    ("nan,Create,9,1,4,0.1,0.1,", names.NOT_A_NUMBER),
    ("70,Start,9,1,4,0.1,0.1,", names.UNKNOWN_EVENT),
    ("70,Create,9,,4,0.1,0.1,", names.NO_MACHINE),
    ("70,Create,9,1,,0.1,0.1,", names.BAD_REQUEST),
    ("70,Create,9,1,4,-0.1,0.1,", names.BAD_REQUEST),
    ("70,Create,5,1,4,0.1,0.1,", names.CREATED_AGAIN),
    ("70,Remove,9,1,4,0.1,0.1,", names.NOT_CREATED),
]


@pytest.mark.parametrize(("row", "rule"), CONTAINER_ROWS)
def test_each_rule_for_containers_is_counted_once(write, row, rule):
    held = read_containers(write("container_event.csv", f"{CONTAINERS}{row}\n"))
    assert held.report.balanced()
    assert (held.report.read, held.report.dropped, len(held)) == (5, {rule: 1}, 3)
    assert held.report.lines == {rule: [5]}


def test_containers_on_unknown_machines_are_kept_and_noted(write, tmp_path):
    write("server_event.csv", "0,1,add,,64,0.7,1\n")
    write("container_event.csv", CONTAINERS)
    held = read_containers(tmp_path)
    assert len(held) == 3
    assert held.report.notes == {names.UNKNOWN_MACHINE: 1}
    assert held.report.lines == {names.UNKNOWN_MACHINE: [4]}
    assert [path.name for path in held.inputs] == ["container_event.csv", "server_event.csv"]


def test_containers_are_checked():
    ids = np.array([1, 2])
    with pytest.raises(TraceError, match="ends must not be before starts"):
        Containers(("cpu",), ids, ids, [0, 5], [9, 4], [[1.0], [1.0]])
    with pytest.raises(TraceError, match="request has shape"):
        Containers(("cpu",), ids, ids, [0, 5], [9, 9], np.ones((1, 1)))


container_rows = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["Create", "Remove"]), st.integers(0, 4))
)


@given(container_rows)
def test_rows_of_containers_are_conserved(write, rows):
    text = "".join(f"{t},{kind},{c},1,4,0.1,0.1,\n" for t, kind, c in [(0, "Create", 9), *rows])
    held = read_containers(write("container_event.csv", text))
    assert held.report.balanced()
    assert held.report.accepted == len(held) + int(np.isfinite(held.end_time_s).sum())
    for container in set(held.container_id.tolist()):  # one at a time
        mine = held.container_id == container
        assert (held.start_time_s[mine][1:] >= held.end_time_s[mine][:-1]).all()


# ---- usage --------------------------------------------------------------------------------------


def test_usage_is_read_when_it_is_collected(write):
    text = "39600,1,30.5,50,40,1.2,1.1,1\n39600,2,,60,40,1.2,1.1,1\n39900,1,50.5,70,40,2,2,2\n"
    lazy = read_usage(write("server_usage.csv", text))
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect_schema().names() == list(ALIBABA2017["server_usage"].names)
    mean = lazy.group_by("machine_id").agg(pl.col("cpu_percent").mean()).sort("machine_id")
    for engine in ("in-memory", "streaming"):
        assert mean.collect(engine=engine).rows() == [(1, 40.5), (2, None)]
    assert lazy.head(2).select("machine_id", "load15").collect().rows() == [(1, 1.0), (2, 1.0)]
    late = lazy.filter(pl.col("time_s") > 39600).select("mem_percent")
    assert late.collect().rows() == [(70.0,)]


def test_usage_of_containers_and_instances(write, tmp_path):
    write("container_usage.csv", "0,7,10,20,30,1,1,1,1.5,0.4,2.5,0.9\n")
    write("batch_instance.csv", "1,2,3,4,5,Terminated,1,1,0.5,0.25,0.1,\n")
    row = read_usage(tmp_path, of="containers").collect().row(0, named=True)
    assert (row["container_id"], row["cpi_mean"], row["mpki_max"]) == (7, 1.5, 0.9)
    row = read_usage(tmp_path, of="instances").collect().row(0, named=True)
    assert (row["cpu_mean"], row["mem_mean"], row["status"]) == (0.25, None, "Terminated")


def test_usage_that_does_not_exist_or_is_broken(write, tmp_path):
    path = write("server_usage.csv", "39600,1,30.5,50,40,1.2,1.1,1\n1,2\n")
    with pytest.raises(TraceError, match=r"server_usage.csv:2: 2 fields"):
        read_usage(path).collect()
    with pytest.raises(TraceError, match="did you mean 'machines'"):
        read_usage(path, of="machine")
    with pytest.raises(TraceError, match="no table container_usage"):
        read_usage(tmp_path, of="containers")
