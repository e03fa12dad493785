"""A trace format of another package: one file and one entry point make it first-class."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from simkit import plugins, simulate
from simkit.cli import app
from simkit.errors import ScenarioError, TraceError
from simkit.scenario.yaml_document import load_scenario
from simkit.traces.columns import Column, ColumnMap
from simkit.traces.jobs_table import JobsTable
from simkit.traces.tables.table import RowRule, TableColumns

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "howto" / "add-a-trace-format.md").read_text("utf-8")
LOG = "tally;submit;minutes;processors;state\n1;0;10;4;done\n2;60;1;8;failed\n3;120;5;2;done\n"
TALLY = {"workload": {"type": "tally", "path": "jobs.txt"}, "cluster": {"processors": 8}}


def shown(language: str) -> str:
    """Return the first block of the how-to in a language."""
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the how-to's file and entry point, and stand next to a log."""
    (tmp_path / "tally_log.py").write_text(shown("python"))
    points = tomllib.loads(shown("toml"))["project"]["entry-points"]
    assert [*points] == ["simkit.readers"]
    ((name, place),) = points["simkit.readers"].items()
    info = tmp_path / "tally_log-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: tally-log\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[simkit.readers]\n{name} = {place}\n")
    (tmp_path / "jobs.txt").write_text(LOG)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tally_log", raising=False)
    monkeypatch.chdir(tmp_path)
    assert "tally" in plugins.names("simkit.readers")


def command(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_scenario_runs():
    assert len(simulate(TALLY).jobs) == 3
    assert len(simulate(TALLY, overrides={"workload.keep_failed": False}).jobs) == 2


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ("", "jobs.txt: no jobs"),
        ("2;60;1;8;failed\n", "jobs.txt: no jobs: the only row is left out"),
        ("1;0;ten;4;done\n", "jobs.txt:2: minutes is 'ten'"),
        ("1;0;-1;4;done\n", r"jobs.txt:2: run_time_s \(column 'minutes'\) is -60"),
        ("1;0;10;done\n2;60;1;8;done\n", "jobs.txt:2: 4 fields"),
    ],
)
def test_a_bad_file_is_refused_with_its_name(rows, place):
    Path("jobs.txt").write_text(LOG.partition("\n")[0] + "\n" + rows)
    with pytest.raises(TraceError, match=place):
        simulate(TALLY, overrides={"workload.keep_failed": False})


def test_rules_repair_and_leave_out_and_every_row_is_counted(monkeypatch):
    from tally_log import TallyLog

    def row_rules(self: TallyLog, rows: TableColumns) -> list[RowRule]:
        run = rows.numbers("run_time_s")
        return [
            RowRule("long", run > 500, {"run_time_s": np.full(len(run), 500.0)}),
            RowRule("short", run < 100),
            RowRule("never", run > 500, {"run_time_s": run}),
        ]

    monkeypatch.setattr(TallyLog, "row_rules", row_rules)
    trace = TallyLog.of(path="jobs.txt").read()
    report = trace.report
    assert trace.workload.run_time_s.tolist() == [500, 300]
    assert (report.read, report.accepted, report.jobs) == (3, 1, 2)
    assert (report.repaired, report.dropped) == ({"long": 1}, {"short": 1})


OWN = (
    Column("start_time_s", theirs="start"),
    Column("run_time_s", theirs="ms", per=1000),
    Column("submit_time_s", theirs="submit"),
    Column("job_id", theirs="number"),
)
CORES = Column("processors", theirs="cores")


def own_jobs(*more: Column, text: str, **keys: object) -> JobsTable:
    """Return a format with columns in an order of its own, and its file."""
    Path("own.csv").write_text(text)
    return format_of(*OWN, *more).of(path="own.csv", **keys)


def format_of(*columns: Column) -> type[JobsTable]:
    return type("Own", (JobsTable,), {"column_map": ColumnMap.of(*columns)})


def test_a_map_may_have_any_order_and_names():
    text = "start,ms,submit,number,cores,mem\n2020-01-01 02:00,1000,2020-01-01 01:00,9,4,8\n"
    trace, recorded = own_jobs(CORES, text=text, zone="UTC").recorded()
    assert (trace.workload.job_id.tolist(), trace.workload.submit_time_s.tolist()) == ([9], [0])
    assert trace.workload.resources == ("processors",)  # mem is another column
    assert recorded.start_s.tolist() == [3600]


def test_factors_of_columns_of_its_own():
    fpga = Column("fpga", "amount", "boards")
    text = "start,ms,submit,number,boards\n0,1000,0,1,4\n"
    trace = own_jobs(fpga, text=text, factors={"fpga": 0.5}).read()
    assert trace.workload.request.tolist() == [[2]]
    with pytest.raises(TraceError, match=r"factors\.boards: .*fpga"):
        own_jobs(fpga, text=text, factors={"boards": 0.5})
    with pytest.raises(
        TraceError, match=r"no column 'boards'; .* needs number, submit, ms, boards"
    ):
        own_jobs(fpga, text="start,ms,submit,number\n0,1,0,1\n").read()


def test_names_of_ours_have_their_kinds_and_meanings():
    text = "start,ms,submit,number,cores,user\n5,1000,0,1,4,ann\n"
    trace = own_jobs(CORES, Column("user"), text=text).read()
    assert trace.workload.labels["user"] == ("ann",)
    assert trace.report.unread == {"start": "recorded start"}


@pytest.mark.parametrize(
    ("row", "keys", "start_s", "run_s"),
    [
        ("0,5,15", {}, 5, 10),
        ("2020-01-01 00:00,2020-01-01 01:00,2020-01-01 03:00", {"zone": "UTC"}, 3600, 7200),
        ("0,5,15", {"factors": {"submit_time_s": 60}}, 300, 600),
    ],
)
@pytest.mark.parametrize("asked", [CORES, Column("fpga", "amount", "cores")])
def test_jobs_may_run_from_their_start_to_their_end(row, keys, start_s, run_s, asked):
    end = Column("end_time_s", theirs="end")
    own = format_of(OWN[0], *OWN[2:], end, asked)
    Path("own.csv").write_text(f"submit,start,end,number,cores\n{row},1,4\n")
    trace, recorded = own.of(path="own.csv", **keys).recorded()
    assert (trace.workload.run_time_s.tolist(), recorded.start_s.tolist()) == ([run_s], [start_s])
    assert trace.report.unread == {}
    Path("own.csv").write_text("submit,start,end,number,cores\n0,,15,1,4\n0,9,8,1,4\n")
    with pytest.raises(TraceError, match=r"(?s)csv:2: .*'end - start'.*csv:3: .*'end - start'"):
        own.of(path="own.csv").read()


@pytest.mark.parametrize(
    ("columns", "problems"),
    [
        ((), "job_id submit_time_s run_time_s processors"),
        (OWN, "processors"),
        ((*OWN[::2], OWN[3], CORES), "run_time_s"),
        ((*OWN, Column("procesors")), "processors 'procesors'"),
        ((*OWN, CORES, CORES, Column("users")), "processors 'users'"),
        ((*OWN, CORES, Column("user", "amount")), "user"),
    ],
)
def test_a_map_without_jobs_is_refused(columns, problems):
    with pytest.raises(TraceError) as caught:
        format_of(*columns)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(problems.split())
    for line, name in zip(lines, problems.split(), strict=True):
        assert line.startswith("Own.column_map: ")
        assert name in line


@pytest.mark.parametrize(
    "wrong", [{"kind": "whole"}, {"per": 0}, {"per": np.nan}, {"kind": "text", "per": 2}]
)
def test_a_column_that_cannot_be_is_refused(wrong):
    with pytest.raises(TraceError, match="cores"):
        Column("cores", **wrong)


def test_wrong_keys_are_all_named_with_their_lines():
    Path("s.yaml").write_text(
        "workload:\n  type: tally\n  path: job.txt\n  keep_faild: true\n  users: 3\n  load: 0\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load_scenario("s.yaml")
    assert list(caught.value.problems) == [
        f"s.yaml:3: workload.path: there is no file {Path.cwd() / 'job.txt'}; "
        "did you mean 'jobs.txt'?",
        "s.yaml:4: workload.keep_faild: unknown key; did you mean 'keep_failed'?",
        "s.yaml:5: workload.users: does not go with tally; it is a key of bernoulli, bimodal, "
        "lublin, poisson, uniform",
        "s.yaml:6: workload.load: must be more than 0, not 0",
    ]


def test_the_commands_recognise_it():
    assert json.loads(command("trace", "info", "jobs.txt", "--json"))["jobs"] == 3
    checked = command("trace", "check", "jobs.txt", "--set", "keep_failed=false", "--json")
    rule = {found["rule"]: found for found in json.loads(checked)["rules"]}["job failed"]
    assert (rule["rows"], rule["lines"]) == (1, [3])
    assert rule["meaning"].startswith("The job failed")
    command("trace", "convert", "jobs.txt", "jobs.swf")
    assert json.loads(command("trace", "info", "jobs.swf", "--json"))["jobs"] == 3


def test_a_log_in_the_place_of_a_scenario_is_recognised():
    result = CliRunner().invoke(app, ["run", "jobs.txt"])
    assert "simkit init jobs.txt" in str(result.exception) + result.output
    command("init", "jobs.txt")
    assert "type: tally" in Path("jobs.yaml").read_text()
    command("run", "jobs.yaml", "--no-progress")


@pytest.mark.thorough
def test_the_json_schema_has_it():
    schema = json.loads(command("schema"))
    family = schema["properties"]["workload"]["$ref"].rpartition("/")[2]
    ref = schema["$defs"][family]["discriminator"]["mapping"]["tally"]
    section = schema["$defs"][ref.rpartition("/")[2]]
    assert section["properties"]["type"]["const"] == "tally"
    assert section["properties"]["keep_failed"]["description"] == "Keep jobs that failed."


def test_the_reference_has_its_table(generate_scenario):
    table = generate_scenario.scenario().partition("### workload: type tally\n")[2]
    assert table.strip().startswith("The accounting of the batch system Tally.")
    assert "| `keep_failed` | true or false |  | `true` | Keep jobs that failed. |" in table
