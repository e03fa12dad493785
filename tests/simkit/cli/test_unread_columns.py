"""Columns that are not read stand on every screen that says how a log was read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SACCT = """\
JobID|Submit|Elapsed|AllocCPUS|Licenses|Comment
1|2024-01-01T00:00:00|00:01:00|1|matlab:1|hi
"""
RUN = "workload: {type: sacct, path: log.txt}\ncluster: {processors: 4}\npolicy: {order: fcfs}\n"
NAMED = ("not read: Licenses (resources asked for)", "not read: 1 other column of names")


@pytest.fixture(autouse=True)
def _log(simkit):
    Path("log.txt").write_text(SACCT)
    Path("run.yaml").write_text(RUN)


@pytest.mark.parametrize(
    "command", [("trace", "check", "log.txt"), ("trace", "info", "log.txt"), ("run", "run.yaml")]
)
def test_the_screen_names_them(simkit, command):
    shown = simkit(*command)
    assert shown.code == 0
    for words in NAMED:
        assert words in shown.out
    assert "Nothing is wrong" not in shown.out


def test_json_and_run_json_name_them(simkit):
    unread = {"Licenses": "resources asked for"}
    checked = json.loads(simkit("trace", "check", "log.txt", "--json").out)
    assert (checked["unread"], checked["unread_plain"]) == (unread, 1)
    facts = json.loads(simkit("trace", "info", "log.txt", "--json").out)
    assert facts["report"]["unread"] == unread
    simkit("run", "run.yaml", "-o", "out")
    assert json.loads(Path("out/run.json").read_text())["trace"]["unread"] == unread


def test_nothing_is_wrong_with_a_log_whose_columns_are_all_read(simkit):
    read = SACCT.replace("Licenses", "Timelimit").replace("matlab:1", "00:02:00")
    Path("log.txt").write_text(read)
    assert "Nothing is wrong with it." in simkit("trace", "check", "log.txt").out
