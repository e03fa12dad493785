"""Recognising a log's format by its first line, and by its name where that does not tell."""

import ast
import gzip
from pathlib import Path

import polars as pl
import pytest

from simkit.errors import TraceError
from simkit.scenario.workload import format_of, recognise
from simkit.traces import power, rules, task_jobs
from simkit.traces.alibaba2017 import tables

ROW = "1 0 -1 10 4 -1 -1 4 20 -1 1 -1 -1 -1 -1 -1 -1 -1\n"

RECOGNISED = [
    # content, name, format
    ("; Version: 2.2\n" + ROW, "a", "swf"),
    ("\n  \n" + ROW, "a", "swf"),
    ("nan 0 -1 10 4\n", "a", "swf"),  # the reader says what is wrong with it
    ("1\t0\t-1\n", "a", "swf"),
    ("", "a", "swf"),
    ("JobID|User|State\n", "a", "sacct"),
    ("JobIDRaw\n", "a", "sacct"),
    ("101|ada|COMPLETED\n", "a", "sacct"),  # without its header: the reader explains
    ("JobID|User|State\n", "a.swf", "sacct"),  # the content counts, not the name
    ("submit_time_s,job_id\n", "a", "jobs"),
    ('"job_id","processors"\n', "a.txt", "jobs"),
    ("id,submit\n", "a.csv", "jobs"),  # the line does not tell, the name does
    ("id,submit\n", "a.csv.gz", "jobs"),
    ("Job_name Submit Runtime\n", "a.swf", "swf"),
    ("submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n", "a.csv", "tasks"),
    ("0,1,1,1,1,Terminated,50,0.1\n", "batch_task.csv", "alibaba2017"),
    ("damaged", "batch_task.csv.gz", "alibaba2017"),  # reading it says what is wrong
    ("\0\0\0", "picture.csv", "jobs"),
]


@pytest.mark.parametrize(("content", "name", "kind"), RECOGNISED)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_format_is_told_by_the_first_line(tmp_path, content, name, kind, pack):
    path = tmp_path / name
    path.write_bytes(pack(content.encode()))
    assert recognise(path) == kind


def test_parquet_is_a_table_of_jobs(tmp_path):
    path = tmp_path / "a"
    pl.DataFrame({"processors": [1]}).write_parquet(path)
    assert recognise(path) == "jobs"


@pytest.mark.parametrize(
    "content", ["hello world\n", "{}\n", "\n\n<html>\n", "Job Submit Runtime\n"]
)
def test_anything_else_is_an_error_that_names_the_formats(tmp_path, content):
    path = tmp_path / "log.txt"
    path.write_text(content)
    with pytest.raises(TraceError) as caught:
        format_of(path)
    text, line = str(caught.value), 1 + content.count("\n") - 1
    assert text.startswith(f"{path}:{line}: the format is not recognised by this line")
    for word in ("--format swf: A log in the Standard Workload Format", "sacct --parsable2"):
        assert word in text


def test_a_file_that_is_no_text_is_an_error(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(TraceError, match="as it is a binary file"):
        format_of(path)


@pytest.mark.parametrize("module", [rules, tables, task_jobs, power], ids=lambda m: m.__name__)
def test_every_rule_has_a_meaning(module):
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    names = [node for node in tree.body if isinstance(node, ast.AnnAssign) and node.value]
    values = [node.value.value for node in names if isinstance(node.value, ast.Constant)]
    sayings = {text for text in values if isinstance(text, str) and " " in text}
    assert sayings <= module.RULES.keys() | {"run times", "unit_in_name: ignore"}
