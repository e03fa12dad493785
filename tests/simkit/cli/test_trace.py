"""The commands `simkit trace …` on logs of all formats."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

SACCT = """\
JobID|User|Partition|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS
1|ada|short|COMPLETED|2024-01-01T08:00:00|2024-01-01T08:00:05|2024-01-01T09:00:05|01:00:00|02:00:00|4
2|bob|short|COMPLETED|2024-01-01T08:10:00|2024-01-01T08:20:00|2024-01-01T08:20:00|00:00:00|02:00:00|3
3|bob|long|FAILED|2024-01-01T08:30:00|2024-01-01T08:31:00|2024-01-01T10:31:00|02:00:00|01:00:00|8
"""


@pytest.fixture
def trace(simkit):
    """Return a function that runs `simkit trace` beside a file of Slurm's accounting."""
    Path("log.txt").write_text(SACCT)
    return partial(simkit, "trace")


def rows(path):
    return [line.split() for line in Path(path).read_text().splitlines() if line[0] != ";"]


def test_the_format_needs_no_option(trace):
    assert json.loads(trace("info", "log.txt", "--json").out)["partitions"] == 2
    checked = trace("check", "log.txt").out
    assert "3 rows read = 1 accepted + 1 repaired + 1 dropped" in checked
    assert "\nrun time 0: 1 row (line 3)\n" in checked
    assert trace("convert", "log.txt", "log.swf").code == 0
    assert json.loads(trace("info", "log.swf", "--json").out)["jobs"] == 2


def test_a_format_that_is_given_counts(trace):
    result = trace("info", "log.txt", "--format", "swf")
    assert result.code == 3
    assert "SWF has 18" in result.err


def test_convert_keeps_waits_and_statuses_and_counts_names_from_1(trace):
    result = trace("convert", "log.txt", "log.swf")
    assert "3 rows read = 1 accepted + 1 repaired + 1 dropped" in result.out
    assert "log.swf written: 2 rows\n" in result.out
    assert "MaxProcs 12 is the largest number of processors used at once" in result.out
    wait, status, user, partition = 2, 10, 11, 15
    picked = [[row[field] for field in (wait, status, user, partition)] for row in rows("log.swf")]
    assert picked == [["5", "1", "1", "1"], ["60", "0", "2", "2"]]


def test_convert_takes_the_machines_size_and_the_time_zone(trace):
    result = trace(
        "convert", "log.txt", "log.swf", "--processors", 64, "--time-zone", "Europe/Berlin",
        "--keep-zero-run",
    )  # fmt: skip
    assert result.out.endswith("log.swf written: 3 rows\n")
    facts = json.loads(trace("info", "log.swf", "--json").out)
    assert facts["machine"] == "64 processors"
    assert facts["time zone"] == "Europe/Berlin"
    assert facts["first submit"] == "2024-01-01 07:00 UTC"


def test_fix_writes_a_clean_swf_log_of_any_format(trace):
    result = trace("check", "log.txt", "--fix", "clean.swf")
    assert "clean.swf written: 2 rows\n" in result.out
    again = json.loads(trace("check", "clean.swf", "--json").out)
    assert (again["read"], again["accepted"], again["rules"]) == (2, 2, [])


def test_fix_does_not_put_swf_in_the_place_of_another_format(trace):
    result = trace("check", "log.txt", "--fix", "log.txt")
    assert result.code == 3
    assert "is the log itself" in result.err
    assert Path("log.txt").read_text() == SACCT


def test_the_list_marks_what_was_not_compared_with_a_file(trace):
    out = trace("list").out
    assert "~ has not been compared with the file" in out
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "~" not in lines["SDSC-SP2"]
    assert "~201,387" in lines["LANL-CM5"]
    entries = {entry["name"]: entry for entry in json.loads(trace("list", "--json").out)}
    assert (entries["SDSC-SP2"]["checked"], entries["LANL-CM5"]["checked"]) == (True, False)


QUEUES = """\
; MaxProcs: 8
; Queues: how jobs are sorted
; Queue:  1 express   (limit: 2 hours)
; Queue: 2  normal
; Queue: 9 nobody
; Queue:
; Partition: 3 gpu
1 0 5 100 4 -1 -1 4 200 -1 1 1 1 -1 1 3 -1 -1
2 10 0 50 -1 -1 -1 2 60 -1 1 2 1 -1 2 3 -1 -1
3 20 0 30 2 -1 -1 2 60 -1 0 2 1 -1 2 4 -1 -1
4 30 0 30 2 -1 -1 2 60 -1 0 2 1 -1 -1 3 -1 -1
"""


def test_info_counts_jobs_by_the_queues_and_partitions_of_the_header(trace):
    Path("log.swf").write_text(QUEUES)
    facts = json.loads(trace("info", "log.swf", "--json").out)
    assert facts["jobs by queue"] == [
        {"number": -1, "jobs": 1},
        {"number": 1, "name": "express (limit: 2 hours)", "jobs": 1},
        {"number": 2, "name": "normal", "jobs": 2},
    ]
    assert facts["jobs by partition"] == [
        {"number": 3, "name": "gpu", "jobs": 3, "peak": {"processors": 8}},
        {"number": 4, "jobs": 1, "peak": {"processors": 2}},
    ]
    lines = [line.split() for line in trace("info", "log.swf").out.splitlines()]
    shown = [line for line in lines if any(word.endswith("%") for word in line)]
    assert shown == [
        ["unknown", "1", "25.0%"],
        ["1", "express", "(limit:", "2", "hours)", "1", "25.0%"],
        ["2", "normal", "2", "50.0%"],
        ["3", "gpu", "3", "75.0%", "8"],
        ["4", "1", "25.0%", "2"],
    ]
