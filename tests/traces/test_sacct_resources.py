"""Memory, gpus and machines of sacct's output: what jobs ask for, and in which units."""

import numpy as np
import pytest

from simkit.arrays import stream
from simkit.errors import TraceError
from simkit.traces import rules
from simkit.traces.sacct import SacctLog
from simkit.traces.sacct.resources import (
    ANY_GPU,
    NO_REQUEST,
    UNREAD,
    parse_gres,
    parse_tres,
    units_of_jobs,
)

JOB = {
    "JobID": "1", "State": "COMPLETED", "Submit": "2024-05-01T12:00:00",
    "Start": "2024-05-01T12:00:10", "End": "2024-05-01T13:00:10", "Elapsed": "01:00:00",
    "AllocCPUS": "8", "NNodes": "1",
}  # fmt: skip
EVERYTHING = ("processors", "mem", "gpu")


@pytest.fixture
def log(tmp_path):
    """Return a function that writes rows, each with the same columns, and returns their reader."""

    def write(*rows, **keys):
        rows = [JOB | {"JobID": str(number)} | row for number, row in enumerate(rows, 1)]
        path = tmp_path / "sacct.txt"
        path.write_text("\n".join(["|".join(rows[0]), *("|".join(r.values()) for r in rows)]))
        return SacctLog.of(path=path, **keys)

    return write


def read_for(log, resources=EVERYTHING):
    return log.trace_for(resources, stream(0, "workload"))


def asked(trace):
    """Return (instances, what each asks for) of every job, by name."""
    load = trace.workload
    rows = zip(load.instances.tolist(), load.request.tolist(), strict=True)
    return [(count, dict(zip(load.resources, row, strict=True))) for count, row in rows]


TRES = [
    # text; cpu, node, gpu, mem, other kinds, types of gpus
    ("billing=9,cpu=12,mem=1g,node=3", 12, 3, 0, "1g", ("billing",), ()),
    ("cpu=4,gres/gpu=4", 4, 0, 4, None, (), ()),
    ("cpu=4,gres/gpu:a100=4", 4, 0, 4, None, (), ("a100",)),
    ("cpu=4,gres/gpu=4,gres/gpu:a100=4", 4, 0, 4, None, (), ("a100",)),
    ("cpu=4,gres/gpu:a100=4,gres/gpu=4", 4, 0, 4, None, (), ("a100",)),
    ("cpu=4,gres/gpu:a100=1,gres/gpu:v100=2", 4, 0, 3, None, (), ("a100", "v100")),
    ("cpu=4,gres/gpu:a100=1,gres/gpu:v100=2,gres/gpu=3", 4, 0, 3, None, (), ("a100", "v100")),
    ("cpu=4,gres/gpu:a100=1,gres/gpu=3", 4, 0, 3, None, (), ("a100",)),
    ("cpu=1k,gres/gpu=2k", 1024, 0, 2048, None, (), ()),
    ("gres/shard=5,gres/shard:a=5,gres/mps=50,gres/nvme=800g", 0, 0, 0, None,
     ("gres/mps", "gres/nvme", "gres/shard"), ()),
    ("license/ansys=3,license/matlab=1,bb/cray=10,fs/disk=5,energy=71", 0, 0, 0, None,
     ("bb", "energy", "fs", "license"), ()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cpu", "node", "gpu", "mem", "kinds", "types"), TRES)
def test_trackable_resources(text, cpu, node, gpu, mem, kinds, types):
    assert parse_tres(text) == (cpu, node, gpu, "job", mem, kinds, types, False)


@pytest.mark.parametrize(
    "text", ["cpu=x", "gres/gpu=a", "cpu", "words", "=4", "node=", "cpu=4;gres/gpu=1"]
)
def test_texts_of_no_known_form_are_broken(text):
    assert parse_tres(text).broken


GRES = [
    # text, gpus of a machine, other kinds, types
    ("gpu:2", 2, (), ()),
    ("gpu", 1, (), ()),
    ("gpu:v100:2", 2, (), ("v100",)),
    ("gpu:1080:2", 2, (), ("1080",)),
    ("gpu:v100", 1, (), ("v100",)),
    ("gres:gpu:2", 2, (), ()),
    ("gres/gpu:2", 2, (), ()),
    ("gpu:a100:2(IDX:0,1)", 2, (), ("a100",)),
    ("gpu:1,gpu:tesla:2,craynetwork:1", 3, ("gres/craynetwork",), ("tesla",)),
    ("craynetwork:1", 0, ("gres/craynetwork",), ()),
    ("gres/gpu=2", 2, (), ()),
    ("gres/gpu:a100=2", 2, (), ("a100",)),
    ("gpu:a100:2(IDX:0-1)", 2, (), ("a100",)),
    ("gpu:(null):2(IDX:0-1)", 2, (), ()),
    ("gpu:2K", 2048, (), ()),
    ("gpu:v100:1M", 2**20, (), ("v100",)),
    ("PER_NODE:gpu:2", 2, (), ()),
    ("per_node:gres:gpu:a100:2", 2, (), ("a100",)),
    ("PER_NODE:gpu:2,craynetwork:1,gpu:v100:1", 3, ("gres/craynetwork",), ("v100",)),
    ("PER_NODE:craynetwork:1", 0, ("gres/craynetwork",), ()),
]

SCOPED = [
    # text; gpus, and what has as many
    ("gpu:2", 2, "node"),
    ("PER_NODE:gpu:2", 2, "node"),
    ("PER_JOB:gpu:a100:8", 8, "job"),
    ("PER_TASK:gpu:1", 1, "task"),
    ("PER_SOCKET:gpu:1", 1, "socket"),
    ("PER_BOARD:gpu:1", 1, "?"),
    ("PER_JOB:gpu:8,PER_NODE:gpu:4,PER_TASK:gpu:1", 8, "job"),  # the same gpus, three times
    ("PER_TASK:gpu:1,PER_NODE:gpu:4", 4, "node"),
    ("craynetwork:1", 0, "node"),
]


@pytest.mark.parametrize(("text", "gpus", "of"), SCOPED)
def test_generic_resources_of_something_else(text, gpus, of):
    told = parse_gres(text)
    assert (told.gpu, told.gpu_of, told.broken) == (gpus, of, False)


@pytest.mark.parametrize(
    "text", ["gpu:", "gpu:a:b:2", "gpu:a:", ":2", "PER_NODE:", "PER_NODE:gpu:"]
)
def test_generic_resources_of_no_known_form_are_broken(text):
    assert parse_gres(text).broken


@pytest.mark.parametrize(("text", "gpus", "kinds", "types"), GRES)
def test_generic_resources(text, gpus, kinds, types):
    told = parse_gres(text)
    assert (told.gpu, told.kinds, told.types, told.broken) == (gpus, kinds, types, False)


UNITS = [
    # processors, gpus, machines (0: unknown), takes whole machines; units
    (8, 0, 2, False, 8),
    (12, 8, 3, False, 4),  # 8 gpus do not split into three, both split into four: 3 and 2
    (6, 4, 0, False, 2),
    (1, 4, 0, False, 1),
    (10, 3, 2, False, 2),  # 5 and 2 each, where one of the two had 1 gpu
    (6, 2, 3, False, 3),  # more machines than gpus: 2 and 1 each
    (2, 1, 3, False, 2),  # fewer processors than machines
    (1, 0, 0, True, 1),
]


@pytest.mark.parametrize(("processors", "gpus", "machines", "whole", "units"), UNITS)
def test_units_of_jobs(processors, gpus, machines, whole, units):
    columns = (np.array([float(value)]) for value in (processors, gpus, machines))
    assert units_of_jobs(*columns, np.array([whole])).tolist() == [units]


def test_a_unit_has_at_most_what_one_machine_had():
    rng = np.random.default_rng(3)
    machines = rng.integers(0, 6, 3000)
    processors = np.maximum(machines, rng.integers(1, 200, 3000)).astype(float)
    gpus = rng.integers(0, 40, 3000).astype(float)
    whole = rng.random(3000) < 0.2
    units = units_of_jobs(processors, gpus, machines.astype(float), whole)
    assert (units >= 1).all()
    plain = (gpus == 0) & ~whole
    assert (units[plain] == processors[plain]).all()
    on = np.maximum(machines, 1)
    for amount in (processors, gpus):
        told = (machines > 0) | whole
        assert (np.ceil(amount / units) <= np.ceil(amount / on))[told].all()
        assert (amount % units == 0)[~told].all()
    split = (processors % units == 0) & (gpus % units == 0)
    assert (units == on)[~split].all()  # what is rounded up fits where the job ran
    even = (processors % on == 0) & (gpus % on == 0) & (machines > 0) & ~plain
    assert (units == on)[even].all()
    assert even.any()
    assert (~split).any()


GPUS = [
    # fields of the row; instances, and what each asks for
    ({"AllocCPUS": "6", "AllocTRES": "cpu=6,gres/gpu=4,node=1"}, 1, 6, 4),
    ({"AllocCPUS": "1", "AllocTRES": "cpu=1,gres/gpu:a100=4,gres/gpu=4"}, 1, 1, 4),
    ({"AllocCPUS": "16", "NNodes": "2", "AllocTRES": "cpu=16,gres/gpu:a100=8"}, 2, 8, 4),
    ({"AllocCPUS": "16", "NNodes": "", "AllocTRES": "cpu=16,gres/gpu=8,node=2"}, 2, 8, 4),
    ({"AllocTRES": "cpu=8"}, 8, 1, 0),
    ({"AllocTRES": "", "ReqTRES": "cpu=8,gres/gpu=2"}, 1, 8, 2),
    ({"AllocTRES": "cpu=8", "ReqTRES": "cpu=8,gres/gpu=2"}, 8, 1, 0),  # it got none
    ({"NNodes": "2", "AllocGRES": "gpu:tesla:2"}, 2, 4, 2),  # of each machine
    ({"NNodes": "2", "AllocTRES": "cpu=8,node=2", "AllocGRES": "gpu:2"}, 2, 4, 2),
    ({"NNodes": "2", "AllocTRES": "cpu=8,gres/gpu=4", "AllocGRES": "gpu:2"}, 2, 4, 2),
    ({"AllocGRES": "", "ReqGRES": "gpu:1"}, 1, 8, 1),
    ({"AllocCPUS": "64", "NNodes": "2", "AllocTRES": "cpu=64,gres/gpu=1,node=2"}, 2, 32, 1),
    ({"AllocCPUS": "128", "NNodes": "4", "AllocTRES": "cpu=128,gres/gpu=2"}, 4, 32, 1),
]


@pytest.mark.parametrize(("fields", "instances", "processors", "gpus"), GPUS)
def test_gpus_of_a_job(log, fields, instances, processors, gpus):
    trace = read_for(log(fields, gpus=True))
    assert asked(trace) == [(instances, {"processors": processors, "gpu": gpus})]
    assert trace.report.balanced()


UNTOLD = [
    # fields of a job with 8 processors on 2 machines; gpus of the job, whether their number is open
    ({"ReqGRES": "PER_NODE:gpu:2"}, 4, False),
    ({"ReqGRES": "PER_JOB:gpu:2"}, 2, False),
    ({"ReqGRES": "PER_TASK:gpu:1", "NTasks": "8"}, 8, False),
    ({"ReqGRES": "PER_TASK:gpu:2", "NTasks": ""}, 2, True),
    ({"ReqGRES": "PER_TASK:gpu:2"}, 2, True),
    ({"ReqGRES": "PER_SOCKET:gpu:2"}, 2, True),
    ({"ReqGRES": "PER_BOARD:gpu:2"}, 2, True),
    ({"ReqGRES": "gpu:2", "NNodes": ""}, 2, True),
    ({"ReqGRES": "PER_SOCKET:gpu:2", "AllocGRES": "gpu:2"}, 4, False),
    ({"ReqGRES": "PER_TASK:gpu:2", "AllocTRES": "cpu=8,gres/gpu=6"}, 6, False),
    ({"ReqGRES": "PER_NODE:gpu:1", "AllocTRES": "cpu=8,node=2"}, 2, False),  # TRES has no gpus
    ({"ReqGRES": "PER_NODE:gpu:1", "AllocTRES": "cpu=8", "ReqTRES": "gres/gpu=2"}, 0, False),
]


@pytest.mark.parametrize(("fields", "gpus", "untold"), UNTOLD)
def test_gpus_of_older_columns(log, fields, gpus, untold):
    reader = log({"NNodes": "2"} | fields, gpus=True)
    trace = read_for(reader)
    assert sum(count * one["gpu"] for count, one in asked(trace)) == gpus
    assert trace.report.notes.get(rules.GPUS_UNTOLD) == (1 if untold else None)
    assert not any("per_" in note for note in trace.report.notes)
    _, past = reader.recorded()
    held = past.held["gpu"].tolist() if "gpu" in past.held else [0]
    assert held == [gpus] or untold


MEMORY = [
    # fields of a job with 8 processors on 2 machines; instances and GiB of each; None: unknown
    ({"ReqMem": "0"}, 2, None),
    ({"ReqMem": "0n"}, 2, None),
    ({"ReqMem": ""}, 2, None),
    ({"ReqMem": "Unknown"}, 2, None),
    ({"ReqTRES": "cpu=8,mem=0,node=2"}, 2, None),
    ({"ReqMem": "0n", "AllocTRES": "cpu=8,node=2"}, 2, None),
    ({"ReqMem": "0n", "AllocTRES": "cpu=8,mem=0,node=2"}, 2, None),
    ({"ReqMem": "0n", "AllocTRES": "cpu=8,mem=250G,node=2"}, 2, 125),
    ({"ReqMem": "0", "AllocTRES": "mem=256000M,cpu=8"}, 2, 125),
    ({"ReqMem": "16G"}, 8, 2),
    ({"ReqMem": "4Gc"}, 8, 4),
    ({"ReqMem": "16Gn"}, 8, 4),
    ({"ReqMem": "16G", "AllocTRES": "cpu=8,mem=32G"}, 8, 4),  # what it had, not what it asked for
    ({"AllocTRES": "cpu=8,mem=1.5T"}, 8, 192),
    ({"AllocTRES": "cpu=8,mem=4Gn"}, 8, 1),
    ({"AllocTRES": "cpu=8,mem=4Gc"}, 8, 4),
    ({"AllocTRES": "cpu=8,mem=8192"}, 8, 1),
    ({"AllocTRES": "cpu=8,mem=1P"}, 8, 2**17),
    ({"ReqTRES": "cpu=8,mem=16G"}, 8, 2),
]


@pytest.mark.parametrize(("fields", "instances", "gib"), MEMORY)
def test_memory_of_a_job(log, fields, instances, gib):
    trace = read_for(log({"NNodes": "2"} | fields, memory=True))
    assert asked(trace) == [(instances, {"processors": 8 / instances, "mem": gib or 0})]
    assert trace.report.notes.get(rules.MEMORY_UNKNOWN) == (1 if gib is None else None)
    known = not len(trace.workload.whole_memory)
    assert known == (gib is not None)


def test_the_requested_amounts_come_first_if_the_scenario_says_so(log):
    fields = {"ReqCPUS": "4", "ReqMem": "16G", "AllocTRES": "cpu=8,mem=32G,gres/gpu=2",
              "ReqTRES": "cpu=4,mem=16G,gres/gpu=1"}  # fmt: skip
    allocated, requested = (
        asked(read_for(log(fields, processors=first))) for first in ("allocated", "requested")
    )
    assert allocated == [(1, {"processors": 8, "mem": 32, "gpu": 2})]
    assert requested == [(1, {"processors": 4, "mem": 16, "gpu": 1})]


ASKED = [
    # keys, resources of the machines, those that jobs ask for
    ({}, ("processors",), ("processors",)),
    ({}, (), ("processors",)),
    ({}, ("processors", "mem"), ("processors", "mem")),
    ({}, ("processors", "gpu"), ("processors", "gpu")),
    ({}, ("gpu", "mem", "processors"), ("processors", "mem", "gpu")),
    ({"gpus": False}, EVERYTHING, ("processors", "mem")),
    ({"memory": False}, EVERYTHING, ("processors", "gpu")),
    ({"memory": True, "gpus": True}, (), ("processors", "mem", "gpu")),
]


@pytest.mark.parametrize(("keys", "machines", "resources"), ASKED)
def test_jobs_ask_for_what_the_machines_have_unless_keys_say_otherwise(
    log, keys, machines, resources
):
    trace = read_for(log({"AllocTRES": "cpu=8,mem=16G,gres/gpu=2"}, **keys), machines)
    assert trace.workload.resources == resources
    unused = trace.report.notes.get(rules.GPUS_UNUSED)
    assert unused == (None if "gpu" in resources else 1)


def test_machines_with_more_change_nothing_of_a_log_without_it(log):
    rows = [{"AllocTRES": "cpu=8,node=1"}, {"AllocTRES": "cpu=4,node=1", "AllocCPUS": "4"}]
    plain, rich = read_for(log(*rows), ()), read_for(log(*rows))
    assert plain.workload.resources == rich.workload.resources == ("processors",)
    assert rich.workload.instances.tolist() == [8, 4]
    assert plain.report == rich.report


def test_memory_that_no_row_tells_is_not_asked_for_unless_the_scenario_says_so(log):
    rows = [{"ReqMem": "Unknown", "AllocTRES": "cpu=8,mem=0"}, {"ReqMem": "", "AllocTRES": ""}]
    assert read_for(log(*rows)).workload.resources == ("processors",)
    assert read_for(log(*rows, memory=True)).workload.resources == ("processors", "mem")


@pytest.mark.parametrize("text", ["0", "0n", "0c", "0M", "0Gn"])
def test_a_log_in_which_every_job_asked_for_all_memory_tells_of_memory(log, text):
    rows = [{"ReqMem": text}, {"ReqMem": text}]
    trace = read_for(log(*rows), ("processors", "mem"))
    assert asked(trace) == [(1, {"processors": 8, "mem": 0})] * 2
    assert trace.workload.whole_memory.all()
    assert trace.report.notes == {rules.MEMORY_UNKNOWN: 2}
    assert read_for(log(*rows, memory=False)).workload.resources == ("processors",)
    assert read_for(log(*rows), ("processors",)).workload.resources == ("processors",)
    by_tres = read_for(log({"ReqTRES": "cpu=8,mem=0"}), ("processors", "mem"))
    assert by_tres.workload.whole_memory.tolist() == [True]


@pytest.mark.parametrize(("key", "column"), [("memory", "ReqMem"), ("gpus", "AllocTRES")])
def test_a_key_without_its_columns_is_an_error_with_a_remedy(log, key, column):
    with pytest.raises(TraceError, match=f"{key}: true, but the table has no column .*{column}"):
        log({}, **{key: True}).read()


def test_uneven_processors_are_a_repair_or_noted_if_the_row_was_repaired_already(log):
    gpus = {"NNodes": "2", "AllocTRES": "gres/gpu=2"}
    rows = [
        {"AllocCPUS": "7", "Timelimit": "02:00:00"} | gpus,
        {"AllocCPUS": "7", "Timelimit": ""} | gpus,
        {"AllocCPUS": "8", "Timelimit": "02:00:00"} | gpus,
    ]
    trace = read_for(log(*rows))
    assert [count * one["processors"] for count, one in asked(trace)] == [8, 8, 8]
    assert trace.report.repaired == {rules.UNEVEN: 1, rules.NO_REQUEST: 1}
    assert trace.report.notes == {rules.UNEVEN: 1}
    assert trace.report.lines[rules.UNEVEN] == [2, 3]
    assert trace.report.examples[rules.UNEVEN] == "7 processors, 2 gpu: 2 units of 4, 1"
    assert (trace.report.accepted, trace.report.read) == (1, 3)


def test_gpus_that_do_not_split_evenly_are_counted_with_what_becomes_of_them(log):
    few = {"NNodes": "2", "AllocTRES": "gres/gpu=1", "Timelimit": "02:00:00"}
    rows = [
        {"AllocCPUS": "64"} | few,
        {"AllocCPUS": "64", "ReqMem": "0n"} | few,
        {"AllocCPUS": "65"} | few,  # both are rounded up: repaired once, noted once
        {"AllocCPUS": "64"} | few | {"Timelimit": "00:01:00"},  # its limit is raised: noted
    ]
    rows = [{"ReqMem": "8G"} | row for row in rows]
    report = read_for(log(*rows)).report
    assert report.repaired == {rules.UNEVEN_GPUS: 2, rules.UNEVEN: 1, rules.RAISED: 1}
    assert report.notes == {rules.UNEVEN_GPUS: 2, rules.MEMORY_UNKNOWN: 1}
    assert report.lines[rules.UNEVEN_GPUS] == [2, 3, 4, 5]
    assert report.examples[rules.UNEVEN_GPUS] == "64 processors, 1 gpu: 2 units of 32, 1"
    assert report.balanced()
    assert report.accepted == 0


def test_what_nothing_asks_for_is_named_with_its_lines(log):
    rows = [
        {"AllocTRES": "billing=8,cpu=8,energy=50,gres/gpu:a100=1,license/ansys=1"},
        {"AllocTRES": "billing=8,cpu=8,gres/gpu:v100=1,gres/shard:a=2,license/matlab=1"},
        {"AllocTRES": "cpu=8"},
    ]
    report = read_for(log(*rows)).report
    assert report.notes == {
        f"billing: {NO_REQUEST}": 2,
        f"energy: {NO_REQUEST}": 1,
        f"gres/shard: {UNREAD}": 1,
        f"license: {UNREAD}": 2,
        f"gpu of type a100: {ANY_GPU}": 1,
        f"gpu of type v100: {ANY_GPU}": 1,
    }
    assert report.lines[f"license: {UNREAD}"] == [2, 3]


def test_steps_and_rows_that_are_no_jobs_count_nowhere(log):
    rows = [
        {"AllocTRES": "cpu=8,gres/gpu=2"},
        {"JobID": "1.batch", "AllocTRES": "cpu=8,gres/gpu=2,gres/shard=1"},
        {"JobID": "3", "State": "PENDING", "Start": "Unknown", "AllocTRES": "gres/gpu=9"},
    ]
    trace = read_for(log(*rows))
    assert asked(trace) == [(1, {"processors": 8, "gpu": 2})]
    assert not trace.report.notes


def test_a_broken_text_is_named_with_its_line(log):
    rows = [{"AllocTRES": "cpu=8"}, {"AllocTRES": "cpu=8,gres/gpu=two"}]
    with pytest.raises(TraceError, match=r":3: AllocTRES is 'cpu=8,gres/gpu=two'; it should look"):
        log(*rows).read()
    skipping = log(*rows, on_error="skip").read()
    assert skipping.report.dropped == {rules.MALFORMED: 1}


def test_memory_that_nothing_asks_for_is_named(log):
    fields = {"ReqMem": "16G", "AllocTRES": "cpu=8,mem=16G"}
    assert set(read_for(log(fields), ("processors",)).report.unread) == {
        "ReqMem",
        "mem of AllocTRES",
    }
    assert not read_for(log(fields), ("processors", "mem")).report.unread
