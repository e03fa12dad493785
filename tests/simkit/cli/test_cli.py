"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from children import SIMKIT, child

from simkit import plugins
from simkit.experiment.api import simulate
from simkit.results.run_folder import open_run
from simkit.traces.task_table import CLOUDSIMPY

SWF_ROW = "{job} {submit} -1 {run} {procs} -1 -1 {procs} {requested} -1 1 1 -1 -1 -1 -1 -1 -1"


def swf(path, *jobs, header="; MaxProcs: 4\n"):
    """Write a log of (submit, run, processors, requested time)."""
    rows = [
        SWF_ROW.format(job=i, submit=s, run=r, procs=p, requested=q)
        for i, (s, r, p, q) in enumerate(jobs, 1)
    ]
    path.write_text(header + "\n".join(rows) + "\n")
    return path


def scenario(path, log="log.swf", more=""):
    path.write_text(f"workload: {{type: swf, path: {log}}}\n{more}")
    return path


# --- what works ------------------------------------------------------------------------------


def test_run_prints_what_was_read_the_metrics_and_the_folder(simkit):
    result = simkit("run", "quickstart")
    assert (result.code, result.err) == (0, "")
    for text in (
        "lublin_1000.swf.gz",
        "1,000 rows read = 1,000 accepted + 0 repaired + 0 dropped",
        "128 processors",
        "fcfs+easy, estimates requested, walltime ignore, seed 0",
        "wait_time_s",
        "1,000 submitted: 1,000 finished",
        "Run folder  runs/quickstart-",
    ):
        assert text in result.out
    assert "…" not in result.out, "a piped table is cut"
    folder = Path(result.out.split("Run folder")[1].strip())
    assert open_run(folder).status == "complete"


def test_json_is_all_that_goes_to_stdout(simkit):
    result = simkit("run", "quickstart", "--json", "-o", "here")
    printed = json.loads(result.out)
    assert printed["run"] == "here"
    assert printed["digest"] == open_run("here").digest
    assert printed["metrics"]["wait_time_s"]["unit"] == "s"
    assert printed["metrics"]["wait_time_s"]["count"] == 1000


def test_set_and_seed_override_the_file(simkit):
    simkit("run", "quickstart", "-o", "run", "--set", "policy.order=sjf", "--seed", "7")
    info = open_run("run").info
    assert info["scenario"]["policy"]["order"] == "sjf"
    assert info["seed"] == info["scenario"]["seed"] == 7


def test_a_run_in_its_default_folder_is_replaced(simkit):
    first, second = simkit("run", "quickstart"), simkit("run", "quickstart")
    assert first.out.splitlines()[-1] == second.out.splitlines()[-1]
    assert len(list(Path("runs").iterdir())) == 1


def test_rejected_jobs_are_counted(simkit, tmp_path):
    swf(tmp_path / "log.swf", (0, 10, 4, 10), (1, 10, 5, 10))
    result = simkit("run", scenario(tmp_path / "s.yaml"), "-o", "run")
    assert result.code == 0
    assert "note: larger than the machine 1" in result.out
    assert "2 submitted: 1 finished, 1 rejected" in result.out
    rejected = open_run("run").jobs.filter(pl.col("status") == "rejected")
    assert rejected["job_id"].to_list() == [2]
    assert "asks for 5" in rejected["reason"].item()


def test_validate_and_show(simkit):
    assert simkit("validate", "quickstart").code == 0
    shown = simkit("show", "quickstart", "--set", "policy.order=saf")
    assert "order: saf" in shown.out
    Path("again.yaml").write_text(shown.out)
    assert simkit("show", "again.yaml").out == shown.out
    assert json.loads(simkit("show", "quickstart", "--json").out)["name"] == "quickstart"


JOBS = "job_id,submit_time_s,run_time_s,processors\n"


@pytest.mark.parametrize(
    ("workload", "text", "problem"),
    [
        ("type: swf", "1 2 3\n", "log:1: 3 fields, SWF has 18; pad unknown fields with -1, or"),
        ("type: jobs", "PAR1", "log: damaged Parquet file"),
        ("type: jobs", f"{JOBS}1,0,1,4\n2,x,1,4\n", "log:3: submit_time_s is 'x', not a numb"),
    ],
)
def test_validate_reads_the_log(simkit, workload, text, problem):
    Path("log").write_text(text)
    Path("s.yaml").write_text(f"seed: 1\nworkload: {{{workload}, path: log}}\n")
    result = simkit("validate", "s.yaml")
    assert (result.code, result.out) == (2, "")
    first = result.err.splitlines()[0].replace(str(Path.cwd()) + os.sep, "")
    assert first.startswith(f"s.yaml:2: workload.path: {problem}")


def test_every_scenario_that_comes_along_is_valid(simkit, monkeypatch, tmp_path):
    names = json.loads(simkit("scenarios", "--json").out)
    assert "quickstart" in names
    assert all(names.values()), "each file begins with a line that says what it is"
    from simkit.scenario.bundled import scenario_path

    table = ",".join(CLOUDSIMPY.values()) + "\n"
    table += "".join(f"{job},1,{job},60,1,1,0.1\n" for job in range(2100))
    names = [name for name in names if "/power/" not in scenario_path(name).read_text()]
    for name in names:
        for path in re.findall(r"\$\{SIMKIT_DATA\}/([\w./-]+)", scenario_path(name).read_text()):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            text = "; MaxProcs: 8\n1" + 17 * " 1" if ".swf" in path else table
            (tmp_path / path).write_text("0,1,add,,64,0.7,1\n" if "server_event" in path else text)
    monkeypatch.setenv("SIMKIT_DATA", str(tmp_path))
    for name in names:
        assert simkit("validate", name) == (0, f"{scenario_path(name)} is a valid scenario" + (
            ", a sweep of 90 runs\n" if "sweep" in name else "\n"), "")  # fmt: skip


@pytest.mark.parametrize("name", ["green-texas", "green-carbon"])
def test_scenarios_with_files_of_power_are_valid(simkit, name, real_data):
    assert simkit("validate", name).code == 0


def test_a_missing_data_folder_is_told_with_the_command_that_gets_logs(simkit, monkeypatch):
    monkeypatch.delenv("SIMKIT_DATA", raising=False)
    result = simkit("run", "sdsc-sp2")
    assert result.code == 2
    assert "the environment variable SIMKIT_DATA is not set; export SIMKIT_DATA=" in result.err
    assert "`simkit trace fetch NAME --output FOLDER/swf` downloads a public log" in result.err


def test_policies_lists_every_part(simkit):
    found, shown = json.loads(simkit("policies", "--json").out), simkit("policies").out
    for kind in ("order", "backfill", "placement", "fitness"):
        assert found[f"policy.{kind}"] == plugins.names("simkit.policies", kind)
    assert found["estimates"] == plugins.names("simkit.predictors")
    words = {word.strip(",") for word in shown.split()}
    assert {name for names in found.values() for name in names} <= words


def test_schema_and_version(simkit):
    assert "workload" in json.loads(simkit("schema").out)["properties"]
    assert simkit("version").out.startswith("simkit ")
    assert simkit("--version").out == simkit("version").out


def test_trace_commands(simkit, tmp_path):
    made = simkit("trace", "generate", "lublin", "log.swf.gz", "--jobs", 200, "--set", "users=5")
    assert made.out == "log.swf.gz written: 200 jobs\n"
    assert json.loads(simkit("trace", "info", "log.swf.gz", "--json").out)["users"] == 5
    assert "Nothing is wrong" in simkit("trace", "check", "log.swf.gz").out
    assert simkit("trace", "convert", "log.swf.gz", "copy.swf").code == 0
    assert simkit("trace", "info", "copy.swf").code == 0
    swf(tmp_path / "odd.swf", (0, 10, 1, 5), (1, 0, 1, 5))
    checked = simkit("trace", "check", "odd.swf", "--fix", "clean.swf")
    assert "run time 0: 1 row (line 3)" in checked.out
    assert "requested time raised: 1 row (line 2)" in checked.out
    again = json.loads(simkit("trace", "check", "clean.swf", "--json").out)
    assert (again["read"], again["accepted"], again["rules"]) == (1, 1, [])
    assert "SDSC-SP2" in simkit("trace", "list").out


# --- what a user gets wrong ------------------------------------------------------------------


def _truncated(path):
    swf(path, *[(i, 10, 1, 10) for i in range(2000)])
    path.write_bytes(gzip.compress(path.read_bytes())[:-200])


def _text(content):
    return lambda path: path.write_text(content)


BAD_LOGS = [
    # what the file holds, what the message says besides the file's name
    (_truncated, ("cut off",)),
    (_text("1 0 -1 10 1\n"), ("log.swf:1:", "5 fields")),
    (_text(""), ("no jobs",)),
    (lambda path: swf(path, (0, 10, -1, 10)), ("no jobs", "processors missing 1")),
]


@pytest.mark.parametrize(("make", "texts"), BAD_LOGS)
def test_a_bad_log_is_told_in_a_sentence(simkit, tmp_path, make, texts):
    make(tmp_path / "log.swf")
    result = simkit("run", scenario(tmp_path / "s.yaml"), "-o", "run")
    assert result.code == 3
    assert all(text in result.err for text in ("log.swf", *texts)), result.err
    assert not Path("run").exists()


def test_nan_and_negative_processors_are_left_out_and_counted(simkit, tmp_path):
    log = swf(tmp_path / "log.swf", (0, 10, 1, 10), (1, 10, 2, 10), (2, 10, -3, 10))
    log.write_text(log.read_text().replace("2 1 -1 10 2", "2 1 -1 nan 2"))
    result = simkit("run", scenario(tmp_path / "s.yaml"), "-o", "run")
    assert result.code == 0
    assert "3 rows read = 1 accepted + 0 repaired + 2 dropped" in result.out
    assert "dropped: not a number 1" in result.out
    assert "dropped: processors missing 1" in result.out


BAD_SCENARIOS = [
    # text added to the scenario, exit code, what the message says
    ("policy: {order: fcsf}", 2,
     "s.yaml:2: policy.order: 'fcsf' is not known as an order; did you mean 'fcfs'?"),
    ("sweep: {seed: [0, 1]}", 2, "simkit sweep"),
    ("policy: {name: 'math:pi'}", 2, "must be a class or function"),
    ("policy: {name: 'collections:Counter'}", 4,
     "'collections:Counter' has no reset and no schedule"),
    ("estimates: {type: perturbed, factor: -1}", 2, "factor is -1"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "code", "text"), BAD_SCENARIOS)
def test_a_bad_scenario_is_told_in_a_sentence(simkit, tmp_path, more, code, text):
    swf(tmp_path / "log.swf", (0, 10, 1, 10))
    scenario(tmp_path / "s.yaml", more=more)
    result = simkit("run", "s.yaml", "-o", "run")
    assert text in result.err
    assert result.code == code
    assert not Path("run").exists()


def test_a_power_file_in_utc_needs_the_zone_of_its_place(simkit, tmp_path):
    header = "; MaxProcs: 4\n; UnixStartTime: 893466664\n; TimeZoneString: America/Los_Angeles\n"
    swf(tmp_path / "log.swf", (0, 10, 1, 10), (1, 10, 2, 10), header=header)
    days = [datetime(2012, 1, 1) + timedelta(hours=hour) for hour in range(366 * 24)]
    rows = [f"{hour:%Y-%m-%d %H:%M},{hour.hour}" for hour in days]
    Path("sun.csv").write_text("\n".join(["time,kw", *rows]) + "\n")
    file = "{type: csv, path: sun.csv, column: kw, unit: kW, zone: UTC%s}"
    power = (
        "power:\n  machines: {idle_w: 100, full_w: 200}\n  sources:\n    roof:\n"
        f"      signal: {file}\n"
    )
    scenario(tmp_path / "s.yaml", more=power % "")
    for command in (("validate", "s.yaml"), ("run", "s.yaml", "-o", "run")):
        result = simkit(*command)
        assert result.code == 2
        assert f"s.yaml:5: power.sources.roof: {tmp_path / 'sun.csv'}: kw" in result.err
        assert "the run's zone is America/Los_Angeles" in result.err
        assert "declare the zone of the place as site_zone" in result.err
    assert not Path("run").exists()

    scenario(tmp_path / "s.yaml", more=power % ", site_zone: UTC")
    assert simkit("validate", "s.yaml").code == 0
    assert simkit("run", "s.yaml", "-o", "run").code == 0
    assert simkit("verify", "run").code == 0
    document = json.loads(Path("run/run.json").read_text())
    document["scenario"]["power"]["sources"]["roof"]["signal"]["site_zone"] = None
    Path("run/run.json").write_text(json.dumps(document))
    result = simkit("verify", "run")
    assert result.code == 1
    assert "clocks: the file is in UTC, the run's zone is another" in result.out


def test_a_log_without_a_machine_needs_a_cluster(simkit, tmp_path):
    swf(tmp_path / "log.swf", (0, 10, 7, 10), header="; Note: no size\n")
    result = simkit("run", scenario(tmp_path / "s.yaml"))
    assert result.code == 2
    assert "the largest job asks for 7 processors; add `cluster: {processors: N}`" in result.err
    assert simkit("run", "s.yaml", "--set", "cluster.processors=8").code == 0


POLICIES = [
    # the body of `schedule`, what the message says
    ("yield simkit.Place(state.queue[0], ((9, 1),))", "there is no machine 9"),
    ("yield 'go'", "'go' is not an action"),
    ("1 / 0\n        yield", "mine.py:5: Mine failed at 0 s: ZeroDivisionError: division by zero"),
]


@pytest.mark.parametrize(("body", "text"), POLICIES)
def test_a_policy_that_breaks_a_rule(simkit, tmp_path, body, text):
    swf(tmp_path / "log.swf", (0, 10, 1, 10))
    Path("mine.py").write_text(
        "import simkit\nclass Mine:\n    def reset(self, info, rng): pass\n"
        f"    def schedule(self, state):\n        {body}\n"
    )
    scenario(tmp_path / "s.yaml", more="policy: {path: mine.py:Mine}")
    result = simkit("run", "s.yaml", "-o", "run")
    assert result.code == 4
    assert text in result.err
    failed = open_run("run", allow_partial=True)
    assert failed.status == "failed"
    assert text in failed.info["error"]
    assert failed.jobs["status"].to_list() == ["waiting"]


LATE_FAILURES = [
    # what ends the second run: before the simulation, in it
    ["--set", "metrics.warmup=30d"],
    ["--set", "policy={path: mine.py:Mine}"],
]


@pytest.mark.parametrize("settings", LATE_FAILURES)
def test_the_run_before_survives_one_that_fails(simkit, settings):
    Path("mine.py").write_text(
        "class Mine:\n    def reset(self, info, rng): pass\n"
        "    def schedule(self, state):\n        1 / 0\n"
    )
    simkit("run", "quickstart", "-o", "run")
    before = open_run("run").digest
    failed = simkit("run", "quickstart", "-o", "run", "--force", *settings)
    assert failed.code in (2, 4)
    assert open_run("run").digest == before
    assert simkit("verify", "run").code == 0


IDLE = """
class Idle:
    def reset(self, info, rng): pass
    def schedule(self, state): return ()
"""


def test_jobs_left_waiting_are_told_on_stderr(simkit):
    Path("idle.py").write_text(IDLE)
    idle = ("--set", "policy={path: idle.py:Idle}", "-o", "run")
    told = "warning: all 1,000 jobs still wait at the end of the run: the policy idle.py:Idle"
    plain = simkit("run", "quickstart", *idle)
    assert plain.code == 0
    assert told in plain.err
    as_json = simkit("run", "quickstart", "--json", *idle)
    assert json.loads(as_json.out)["metrics"]["jobs"]["waiting"] == 1000
    assert told in as_json.err
    swept = simkit(
        "sweep", "quickstart", "-j", 1, "--json", "--set", "sweep={seed: [0]}", *idle[:2]
    )
    assert json.loads(swept.out)["runs"]
    assert "1,000 jobs still wait at the end of the run" in swept.err


def test_outputs_are_tried_before_the_work(simkit, tmp_path):
    swf(tmp_path / "broken.swf", (0, 10, 1, 10)).write_text("1 2 3\n")
    scenario(tmp_path / "s.yaml", "broken.swf")
    (tmp_path / "file").write_text("")
    result = simkit("run", "s.yaml", "-o", "file/run")
    assert "file is a file, but a run is a folder" in result.err  # not: the log is broken
    swept = simkit("sweep", "quickstart", "--set", "sweep={seed: [0]}", "-o", "file/sweep")
    assert (swept.code, swept.out) == (2, "")
    assert "file is a file, but a run is a folder" in swept.err
    simkit("run", "quickstart", "-o", "run")
    assert "there is no folder no; make it" in simkit("export", "run", "no/x.swf").err
    assert "there is no folder no; make it" in simkit("plot", "run", "-o", "no/x.png").err


@pytest.mark.parametrize("arguments", [["run"], ["rum", "x"], ["run", "quickstart", "--sed", "1"]])
def test_wrong_usage_is_2(simkit, arguments):
    assert simkit(*arguments).code == 2


# --- in a process of its own -----------------------------------------------------------------


def start(folder, *arguments, **options):
    return subprocess.Popen(
        [*SIMKIT, *arguments],
        cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_a_full_disk_half_way(tmp_path):
    """The limit on the size of files stands for the full disk: the error is of the same kind."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = start(tmp_path, "run", "quickstart", "-o", "run", preexec_fn=limit)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "marked as not complete" in err
    assert "Traceback" not in err
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["run.json"]
    assert open_run(tmp_path / "run", allow_partial=True).status == "failed"


SLOW_POLICY = """
import os, pathlib, time
class Slow:
    def reset(self, info, rng): pass
    def schedule(self, state):
        for task in list(state.queue):
            if on := state.fit(task):
                yield __import__("simkit").Place(task, on)
        if len(state.running) > 3:
            pathlib.Path("busy").touch()
            time.sleep(0.002)
"""


@pytest.mark.parametrize(
    ("before", "how"),
    [(False, signal.SIGTERM), (True, signal.SIGINT)],
)
def test_ctrl_c_keeps_the_results_so_far(tmp_path, before, how):
    """They are in the folder, or in one inside it where that holds a finished run."""
    kept = "run/unfinished" if before else "run"
    if before:
        simulate("quickstart", overrides={"name": "s"}, output=tmp_path / "run")
    (tmp_path / "slow.py").write_text(SLOW_POLICY)
    scenario(tmp_path / "s.yaml", "'sample:lublin_1000'", "policy: {path: slow.py:Slow}")
    with child(
        [*SIMKIT, "run", "s.yaml", "-o", "run", *["--force"] * before], tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        end = time.monotonic() + 30
        while not (tmp_path / "busy").exists() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(how)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert f"{kept} has the results so far" in err
    run = open_run(tmp_path / kept, allow_partial=True)
    assert run.status == "interrupted"
    assert 0 < run.jobs.height < 1000
    counts = dict(run.jobs["status"].value_counts().rows())
    assert counts.keys() <= {"finished", "running", "waiting"}
    assert counts["finished"]
    assert counts["running"]  # all that had been submitted is there
    outcomes = dict(run.allocations["outcome"].value_counts().rows())
    assert outcomes == {name: counts[name] for name in ("finished", "running")}
    assert not list((tmp_path / kept).glob("*.part"))
    if before:
        assert "run still has the previous run" in err
        assert open_run(tmp_path / "run").status == "complete"


@pytest.mark.parametrize("command", [["verify"], ["plot"], ["trace", "info"], ["export"]])
def test_a_path_that_is_too_long_is_reported(simkit, command):
    further = ["jobs.csv"] if command == ["export"] else []
    found = simkit(*command, "n" * 300, *further)
    assert found.code in (2, 3)
    assert "n" * 300 in found.err
    assert "Traceback" not in found.err
