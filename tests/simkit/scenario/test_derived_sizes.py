"""What a few keys stand for is estimated and refused in words before any of it is made."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from command_line import Simkit

from simkit.errors import SimkitError
from simkit.experiment import prepare
from simkit.experiment.sweep import expand_sweep, plan_sweep
from simkit.scenario.yaml_document import load_scenario

JOBS = "workload: {type: lublin, jobs: 20, processors: 64}\n"
LOG = "workload: {type: swf, path: 'sample:lublin_1000', resample: {weeks: %d}}\n"
COLUMNS = ("job_id", "task_id", "submit_time_s", "run_time_s", "instances", "cpu")
BAGS = (
    "workload: {type: tasks, path: bags.csv, columns: {"
    + ", ".join(f"{name}: {name}" for name in COLUMNS)
    + "}}\ncluster: {machines: [{count: 2, cpu: 8}]}\npolicy: {fitness: first-fit}\n"
)
US = "1.0e-6"
POWER = (
    JOBS + "power:\n"
    "  machines: {idle_w: 1, full_w: 2}\n"
    "  align: {type: epoch, zero: 2020-01-01T00:00:00+00:00}\n"
    "  grid: {price_per_kwh: %s}\n"
)
LEVELS = f"{{type: levels, high_w: 1, low_w: 0, step: {US}}}"
DAY = "{type: schedule, day: {0:00: 1, 3:00: 2}}"
FILE = "{type: csv, path: prices.csv, time: time, zone: UTC, column: v, unit: price/kWh, %s}"
FORECAST = "  forecast: {type: %s, horizon: 40000d, step: %s}\n"

HOSTILE = [
    # scenario, key that is named, key that raises the limit
    (JOBS.replace("20", "100000000"), "workload.jobs", "jobs"),
    (JOBS.replace("64}", "64, users: 100000000}"), "workload.users", "jobs"),
    ("workload: {type: poisson, jobs: 100000000, processors: 8, offered_load: 1}\n",
     "workload.jobs", "jobs"),
    ("workload: {type: rare, jobs: 100000000, offered_load: 1}\n", "workload.jobs", "jobs"),
    ("workload: {type: schedqrm, jobs: 100000000}\n", "workload.jobs", "jobs"),
    ("workload: {type: sofia, positions: 1000000000}\n", "workload.positions", "jobs"),
    ("workload: {type: deeprm, rate: 0.5, steps: 1000000000}\n", "workload.steps", "jobs"),
    ("workload: {type: deeprm, rate: 0.5, original_set: 100000000}\n",
     "workload.original_set", "jobs"),
    (LOG % 10**9, "resample: 1,000,000,000 weeks", "jobs"),
    (JOBS + "cluster: {machines: [{cpu: 1}, {count: 100000000, cpu: 1}]}\n",
     "cluster.machines.1.count", "machines"),
    (JOBS + "cluster:\n  machines: [{name: a, count: 180000, processors: 64}]\n  maintenance:\n"
     + "".join(f"    - {{start: {n}d, duration: 1h, machines: [a]}}\n" for n in range(130)),
     "cluster.maintenance", "steps"),
    (JOBS + "cluster:\n  machines: [{name: a, count: 180000, processors: 64}]\n  partitions:\n"
     + "".join(f"    - {{name: p{n}, machines: [a]}}\n" for n in range(130)),
     "cluster.partitions", "steps"),
    (BAGS, "workload", "instances"),
    (JOBS + f"scheduling: {{step: {US}}}\n", "scheduling.step", "steps"),
    (JOBS + "cluster: {processors: 64, maintenance: "
     f"[{{start: 0, duration: {US}, every: 2.0e-6}}]}}\n", "cluster.maintenance", "steps"),
    (JOBS + "cluster: {machines: [{count: 64, processors: 1}], "
     "failures: {mtbf: 0.001, mttr: 0.001}}\n", "cluster.failures", "steps"),
    (POWER % LEVELS, "power.grid.price_per_kwh", "steps"),
    (POWER % f"{{type: means, step: {US}, signal: {DAY}}}", "power.grid.price_per_kwh", "steps"),
    (POWER % f"{{type: sum, signals: [0, {LEVELS}]}}", "power.grid.price_per_kwh", "steps"),
    (POWER % f"{{type: scaled, factor: 2, signal: {LEVELS}}}", "power.grid.price", "steps"),
    (POWER % (FILE % "past_end: wrap"), "power.grid.price_per_kwh", "steps"),
    (POWER % (FILE % "typical_year: false, past_end: hold, gaps: {rule: interpolate, longest: 40000d}"),
     "power.grid.price_per_kwh", "steps"),
    (POWER % 1 + FORECAST % ("perfect", US), "power.forecast.step", "steps"),
    (POWER % 1 + FORECAST % ("persistence", US), "power.forecast.step", "steps"),
    (POWER % 1 + f"  critical_w: {LEVELS}\n", "power.critical_w", "steps"),
    (POWER % 1 + f"  sources: {{sun: {{signal: {LEVELS}}}}}\n", "power.sources.sun", "steps"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["2020-01-01T00:00:00,1", "2020-01-01T00:00:00.000100,2", "2020-01-01T00:00:00.000200,3"]
    Path("prices.csv").write_text("\n".join(["time,v", *rows, "2050-01-01T00:00:00,3", ""]))
    Path("bags.csv").write_text(",".join(COLUMNS) + "\n1,1,0,5,1000,1\n2,1,0,5,100000000,1\n")
    Path("small.csv").write_text(",".join(COLUMNS) + "\n1,1,0,5,9,1\n")


def write(text: str) -> Path:
    Path("s.yaml").write_text(text)
    return Path("s.yaml")


@pytest.mark.parametrize(("text", "key", "limit"), HOSTILE)
def test_what_a_small_file_blows_up_to_is_refused_at_once(text: str, key: str, limit: str) -> None:
    if "past_end: wrap" in text:
        Path("prices.csv").write_text("\n".join(Path("prices.csv").read_text().split("\n")[:4]))
    scenario = load_scenario(write(text))
    begin = time.process_time()
    with pytest.raises(SimkitError) as refused:
        prepare(scenario)
    assert time.process_time() - begin < 5
    (line,) = str(refused.value).splitlines()
    assert key in line
    assert "are allowed; use " in line
    assert line.endswith(f"or raise limits.{limit}")


@pytest.mark.parametrize(
    ("text", "limit"),
    [(JOBS, "jobs"), (BAGS.replace("bags.csv", "small.csv"), "instances"), (JOBS + "cluster: {machines: [{count: 9, processors: 64}]}\n", "machines"),
     (JOBS + "scheduling: {step: 60}\n", "steps"), (LOG % 3, "jobs"),
     (POWER % LEVELS.replace(US, "60"), "steps")],
)  # fmt: skip
def test_the_limit_that_is_named_decides(text: str, limit: str) -> None:
    prepare(load_scenario(write(text)))
    with pytest.raises(SimkitError, match=f"at most 8 are allowed; .* or raise limits.{limit}"):
        prepare(load_scenario(write(text), overrides={f"limits.{limit}": 8}))
    prepare(load_scenario(write(text), overrides={f"limits.{limit}": None}))


def test_validate_refuses_at_line_and_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(JOBS + "cluster:\n  machines:\n  - {count: 100000000, cpu: 1}\n")
    done = Simkit(capsys, monkeypatch)("validate", "s.yaml")
    assert done.code == 2
    assert done.err == (
        "s.yaml:4: cluster.machines.0.count: makes 100,000,000 machines in all, and at most "
        "200,000 are allowed; use fewer, or raise limits.machines\n"
    )


def test_a_sweep_of_too_many_runs_is_refused_and_one_of_many_seeds_is_quick(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(JOBS + f"sweep: {{seed: [{','.join(map(str, range(10_001)))}]}}\n")
    done = Simkit(capsys, monkeypatch)("validate", "s.yaml")
    said = "stands for 10,001 runs, and at most 10,000 are allowed; split it, or raise limits.runs"
    assert (done.code, done.err) == (2, f"s.yaml:2: sweep: {said}\n")
    sweep = {"seed": range(9_000), "policy.order": ["fcfs"]}
    data = {"workload": {"type": "lublin", "jobs": 20, "processors": 64}}
    begin = time.process_time()
    points = expand_sweep(data, sweep=sweep)
    assert time.process_time() - begin < 10  # a validation of each takes a minute
    assert [point.scenario.seed for point in points] == [*range(9_000)]
    assert points[7].scenario == expand_sweep(data, sweep={"seed": [7]})[0].scenario
    assert len(plan_sweep(data, "out", sweep=sweep).folders) == 9_000


def test_seeds_that_are_none_are_still_refused() -> None:
    for wrong in (-1, 1.5, True, "x"):
        with pytest.raises(SimkitError, match="sweep.seed.1"):
            expand_sweep(
                {"workload": {"type": "lublin", "jobs": 5, "processors": 8}},
                sweep={"seed": [0, wrong]},
            )
