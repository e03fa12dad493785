"""`simkit trace info` of traces of tasks on machines, as a person sees it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

TASKS = """\
0,100,1,1,4,Terminated,50,0.25
3600,3800,2,1,2000,Terminated,100,0.5
3600,0,2,2,1,Waiting,,
"""
MACHINES = "0,7,add,,64,1,1\n50,7,softerror,x,0,0,0\n"
CONTAINERS = "0,Create,1,7,16,0.1,0.1,1|2\n"
USAGE = "39600,7,40,50,10,1,2,3\n"


@pytest.fixture
def info(simkit):
    """Return a function that runs `simkit trace info` beside the folder ``trace``."""
    Path("trace").mkdir()
    for name, text in (
        ("batch_task", TASKS), ("server_event", MACHINES), ("container_event", CONTAINERS),
        ("server_usage", USAGE),
    ):  # fmt: skip
        Path("trace", f"{name}.csv").write_text(text)
    return partial(simkit, "trace", "info")


EXPECTED = [
    "Trace       trace (alibaba2017)",
    "            3 rows read = 2 accepted + 0 repaired + 1 dropped",
    "              dropped: task never started 1",
    "Not here    batch_instance, container_usage",
    "instances       2,004",
    "submitted       from 0 s to 01:00:00 on the trace's clock",
    "an hour         2 jobs, 2 tasks, 2,004 instances",
    "busiest hour    1 job, from 0 s on",
    "machines        1 with 64 cpu, 1 mem",
    "sizes           1 of 64 cpu, 1 mem",
    "machine events  1 add, 1 softerror",
    "containers      1 on 1 machine, 1 from before the trace, 0 removed",
    "containers hold at most 16 cpu, 0.1 mem at once "
    "(25.0% of the machines' cpu, 10.0% of the machines' mem)",
    "server usage    1 row of 1 machine from 11:00:00 to 11:00:00; mean cpu 40.0 %; "
    "mean mem 50.0 %",
]


def test_a_person_reads_counts_rates_machines_and_faults(info):
    lines = [line.rstrip() for line in info("trace").out.splitlines()]
    missing = [line for line in EXPECTED if line not in lines]
    assert missing == []
    table = [line.split() for line in lines if line.startswith("instances per task")]
    assert table == [["instances", "per", "task", "1,002", "4", "4", "2,000", "2,000", "2,000"]]


def test_a_script_reads_json(info):
    facts = json.loads(info("trace", "--json").out)
    assert facts["machines"]["count"] == 1
    assert facts["missing_tables"] == ["batch_instance", "container_usage"]


def test_the_format_can_be_given(info):
    Path("trace/batch_task.csv").rename("tasks.txt")
    assert json.loads(info("tasks.txt", "--json", "--format", "alibaba2017").out)["jobs"] == 2
    refused = info("tasks.txt", "--format", "tasks")
    assert refused.code == 3
    assert "tasks.txt" in refused.err


@pytest.mark.parametrize(
    ("place", "words"),
    [("nothing", "no such file"), (".", "is a folder")],
)
def test_what_is_no_trace_is_an_error_without_traceback(info, place, words):
    result = info(place)
    assert result.code == 3
    assert words in result.err
