"""Every corruption of an honest run is found, although its digest is right.

Small runs of the engine, one of each kind, are changed in memory and written again with the digest
recomputed, so that only the rules can tell. `CORRUPTIONS` lists what is done to which run; what no
rule can find is in `UNSEEN`, each with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl
import pytest
from run_records import Records, simulated

from simkit.errors import RunError
from simkit.plugins import code_refused
from simkit.results.run_writer import TABLES
from simkit.scenario import Scenario
from simkit.verify.audited_run import AuditedRun
from simkit.verify.metrics import check_metrics

pytestmark = pytest.mark.sampled

# ---- honest runs --------------------------------------------------------------------------------

POLICY = """
from simkit.policy import Cancel, Kill, Place, Resume, Suspend


class Busy:
    "First fit, and now and then everything else that a policy may do."

    def reset(self, info, rng):
        self.rng, self.reserved = rng, []

    def schedule(self, state):
        for task in list(self.reserved):
            if task not in state.reservations:
                self.reserved.remove(task)
            elif self.rng.random() < 0.3:
                yield Cancel(task)
                self.reserved.remove(task)
        for allocation in list(state.suspended):
            if state.fit(allocation.task) is not None:
                yield Resume(allocation)
        for allocation in list(state.running):
            draw = self.rng.random()
            if draw < 0.10:
                yield Suspend(allocation, keep_work=draw < 0.06)
            elif draw < 0.13:
                yield Kill(allocation.task, "not needed any more")
        for task in state.queue:
            on = state.fit(task)
            if on is None:
                continue
            if self.rng.random() < 0.2:
                self.reserved.append(task)
                yield Place(task, on, start=state.now + 40.0)
            else:
                yield Place(task, on)
"""


def swf(path: Path, *, late: bool = False) -> Path:
    """Write a log of 40 jobs; with `late`, some ask for less time than they run."""
    lines = ["; UnixStartTime: 1000000", "; TimeZoneString: Europe/Berlin", "; MaxProcs: 16"]
    for n in range(1, 41):
        run, size = 20 + n * 37 % 300, 1 + n * 5 % 14
        asked = run // 2 if late and n % 4 == 0 else run + n * 11 % 90
        lines.append(f"{n} {n * 17 - n % 3} -1 {run} {size} -1 -1 {size} {asked} -1 1 {n % 5} 1 1 "
                     "1 -1 -1 -1")  # fmt: skip
    path.write_text("\n".join((*lines, "")))
    return path


def task_table(path: Path) -> Path:
    """Write a table of tasks: bags, with parents, and a job that no machine can hold."""
    lines = ["job_id,task_id,submit_time,duration,instances_num,cpu,memory,parents"]
    for job in range(1, 13):
        for task in (1, 2, 3):
            parent = "" if task == 1 else f"{task - 1}"
            cpu = 99 if job == 12 else 1 + task % 2
            lines.append(f"{job},{task},{job * 9},{10 + job * task % 23},{task + 2},{cpu},0.1,"
                         f"{parent}")  # fmt: skip
    path.write_text("\n".join((*lines, "")))
    return path


def job_table(path: Path) -> Path:
    """Write a table of jobs that wait for times, for other jobs, and for users to think."""
    lines = ["job_id,submit_time_s,run_time_s,processors,release_time_s,preceding_job,think_time_s"]
    for n in range(1, 31):
        release = n * 10 + 55 if n % 4 == 0 else ""
        before = {0: f"{n - 1};{n - 2}", 1: f"{n - 3}", 2: "99"}.get(n % 5, "") if n > 3 else ""
        lines.append(f"{n},{n * 10},{20 + n * 7 % 50},{1 + n % 7},{release},{before},{n % 3 * 15}")
    path.write_text("\n".join((*lines, "")))
    return path


def scenarios(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the scenario of each kind of run."""
    (folder / "busy.py").write_text(POLICY)
    columns = {"job_id": "job_id", "task_id": "task_id", "submit_time_s": "submit_time",
               "run_time_s": "duration", "instances": "instances_num", "cpu": "cpu",
               "mem": "memory", "parents": "parents"}  # fmt: skip
    signal = {"type": "levels", "high_w": 4200, "low_w": 1000, "high_share": 0.6, "step": "30m"}
    return {
        "pool": {
            "workload": {"type": "swf", "path": str(swf(folder / "log.swf"))},
            "policy": {"order": "fcfs", "backfill": "easy"},
        },
        "slots": {
            "workload": {"type": "swf", "path": str(swf(folder / "late.swf", late=True)),
                         "requested_time": "raw"},
            "policy": {"order": "sjf"}, "walltime": "kill",
            "admission": {"slots": 3, "backlog": 6},
            "value": {"qos": {"type": "two-classes"}, "deadlines": {"type": "qos"}},
            "metrics": {"warmup": 50, "cooldown": 20},
        },
        "cloud": {
            "workload": {"type": "tasks", "path": str(task_table(folder / "tasks.csv")),
                         "columns": columns},
            "cluster": {"machines": [{"name": "m", "count": 3, "cpu": 4, "mem": 1}],
                        "failures": {"mtbf": 90, "mttr": 20}},
            "policy": {"fitness": "best-fit"},
        },
        "site": {
            "seed": 1,
            "workload": {"type": "lublin", "jobs": 40, "processors": 16, "offered_load": 0.7},
            "cluster": {"processors": 16},
            "policy": {"order": "fcfs", "backfill": "easy"},
            "power": {
                "machines": {"idle_w": 60, "full_w": 200}, "pue": 1.2, "critical_w": 300,
                "align": {"zero": "2019-04-01T00:00:00+00:00"},
                "sources": {"sun": {"signal": signal, "carbon_gco2_per_kwh": 41}},
                "grid": {"import_limit_w": 400, "price_per_kwh": 0.1, "carbon_gco2_per_kwh": 400},
                "battery": {"capacity_kwh": 4, "charge_c_rate": 0.5, "discharge_c_rate": 0.5,
                            "charge_efficiency": 0.9, "discharge_efficiency": 0.9},
                "supply": {"limit": "power", "running": "suspend"},
            },
        },
        "busy": {
            "workload": {"type": "swf", "path": str(folder / "log.swf")},
            "policy": {"path": f"{folder / 'busy.py'}:Busy"},
        },
        "held": {
            "workload": {"type": "jobs", "path": str(job_table(folder / "jobs.csv"))},
            "cluster": {"processors": 8},
            "policy": {"order": "fcfs", "backfill": "easy"},
        },
    }  # fmt: skip


KINDS: Final = ("pool", "slots", "cloud", "site", "busy", "held")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Records]:
    folder = tmp_path_factory.mktemp("honest")
    return {
        kind: simulated({"name": kind} | scenario, folder / kind)
        for kind, scenario in scenarios(folder).items()
    }


def violated(records: Records, folder: Path) -> set[str]:
    """Return the rules that a run violates; ``refused`` if its scenario is none."""
    try:
        return set(records.audit(folder).found)
    except RunError:
        return {"refused"}


# ---- what is done to them -----------------------------------------------------------------------

Change = Callable[[Records], object]


class Corruption(NamedTuple):
    """A change of the run of a kind."""

    kind: str
    name: str
    change: Change


def other(value: Any) -> Any:
    """Return another value of the same type."""
    if value is None:
        return 1.0
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    return value + 1 if isinstance(value, int) else value * 1.01 + 1.0


def cell(table: str, column: str, row: int | None = None, value: Any = other) -> Change:
    """Change one cell; the row in the middle unless it is given."""

    def change(run: Records) -> None:
        at = run.tables[table].height // 2 if row is None else row
        run.set(table, at, **{column: value})

    return change


def rows(table: str, choose: Callable[[list[int]], list[int]]) -> Change:
    return lambda run: run.take(table, choose)


def info(*path: str, value: Any = other) -> Change:
    """Change a value of run.json."""

    def change(run: Records) -> None:
        place: Any = run.info
        for key in path[:-1]:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[path[-1]] = value(place.get(path[-1])) if callable(value) else value

    return change


def scenario(*path: str, value: Any, portable: bool = True) -> Change:
    """Change a key of the scenario, in both of its forms unless `portable` is false."""

    def change(run: Records) -> None:
        for form in ("scenario", "portable_scenario")[: 1 + portable]:
            place = run.info[form]
            for key in path[:-1]:
                if not isinstance(place.get(key), dict):
                    place[key] = {}
                place = place[key]
            place[path[-1]] = value

    return change


COLUMNS: Final = {
    # the columns of each table, and the kind of run in which one cell of each is changed
    ("pool", "jobs"): (
        "job_id user group executable queue partition submit_time_s start_time_s end_time_s "
        "wait_time_s turnaround_time_s run_time_s requested_time_s estimate_s trace_run_time_s "
        "suspended_time_s lost_time_s attempts status reason processors"
    ),
    ("cloud", "jobs"): "run_time_s ideal_time_s lost_time_s attempts",
    ("slots", "jobs"): "qos value deadline_s reason status estimate_s",
    ("held", "jobs"): "release_time_s start_time_s",
    ("held", "tasks"): "ready_time_s",
    ("cloud", "tasks"): (
        "job_id task_id instances gang ready_time_s start_time_s end_time_s trace_run_time_s "
        "status cpu mem"
    ),
    ("cloud", "allocations"): (
        "job_id task_id machine_id first_instance count attempt start_time_s end_time_s outcome"
    ),
    ("cloud", "timeline"): (
        "time_s waiting backlog running allocated_cpu allocated_mem capacity_cpu capacity_mem"
    ),
    ("slots", "timeline"): "time_s waiting backlog running allocated_processors",
    ("cloud", "events"): "time_s kind detail",
    ("busy", "events"): "time_s kind job_id task_id",
    ("site", "power"): (
        "start_s end_s generation_w import_w discharge_w unserved_w load_w charge_w export_w "
        "curtailment_w losses_w pue price_per_kwh export_price_per_kwh carbon_gco2_per_kwh "
        "generation_price_per_kwh generation_gco2_per_kwh machines_w standing_w load_renewable_w "
        "load_battery_w load_grid_w charge_renewable_w charge_grid_w load_battery_grid_w "
        "carbon_g_per_s cost_per_s load_carbon_g_per_s load_cost_per_s stored_j stored_carbon_g "
        "stored_cost stored_grid_j"
    ),
    ("site", "energy"): "job_id energy_j overhead_j renewable_j battery_j grid_j carbon_g cost",
}


def cells() -> Iterator[Corruption]:
    for (kind, table), columns in COLUMNS.items():
        for column in columns.split():
            yield Corruption(kind, f"{table}.{column} changed", cell(table, column))


ROWS: Final[dict[str, Callable[[list[int]], list[int]]]] = {
    "first row dropped": lambda n: n[1:],
    "last row dropped": lambda n: n[:-1],
    "row doubled": lambda n: [*n[:3], n[2], *n[3:]],
    "rows swapped": lambda n: [n[1], n[0], *n[2:]],
    "rows reversed": lambda n: n[::-1],
    "no rows": lambda _: [],
}


def row_changes() -> Iterator[Corruption]:
    for kind, tables in (
        ("busy", ("jobs", "tasks", "allocations", "timeline", "events")),
        ("site", ("power", "energy")),
    ):
        for table in tables:
            for name, choose in ROWS.items():
                yield Corruption(kind, f"{table}: {name}", rows(table, choose))


def added(table: str) -> Change:
    def change(run: Records) -> None:
        run.tables[table] = run.tables[table].with_columns(pl.lit(1.0).alias("bonus"))

    return change


def column_changes() -> Iterator[Corruption]:
    for kind, tables in (("pool", TABLES[:5]), ("site", TABLES[5:])):
        for table in tables:
            yield Corruption(kind, f"{table}: a column added", added(table))
    yield Corruption("pool", "jobs: columns in another order", lambda run: run.tables.update(
        jobs=run.tables["jobs"].select(pl.all().exclude("user"), "user")))  # fmt: skip
    yield Corruption("pool", "a table of energy without power", lambda run: run.tables.update(
        energy=pl.DataFrame({"job_id": [1]})))  # fmt: skip


def of_run_info() -> Iterator[Corruption]:
    """Changes of run.json that leave the scenario as it is."""
    for key in ("name", "seed", "jobs", "epoch_s", "time_zone", "decisions", "error"):
        yield Corruption("pool", f"run.json: {key}", info(key))
    for key in ("read", "accepted"):
        yield Corruption("pool", f"run.json: trace.{key}", info("trace", key))
    for key in ("sha256", "bytes", "path"):
        yield Corruption("pool", f"run.json: inputs.{key}", info("inputs", "0", key))
    yield Corruption("pool", "run.json: no inputs", info("inputs", value=[]))
    yield Corruption("pool", "run.json: a key added", info("approved", value=True))
    yield Corruption("pool", "run.json: more capacity",
                     info("cluster", "machines", "0", "capacity", value={"processors": 99.0}))  # fmt: skip
    yield Corruption("cloud", "run.json: less capacity",
                     info("cluster", "machines", "0", "capacity", value={"cpu": 1.0, "mem": 1.0}))  # fmt: skip
    yield Corruption("cloud", "run.json: a machine added", lambda run: run.info["cluster"][
        "machines"].append({"id": 3, "name": "m-3", "capacity": {"cpu": 4.0, "mem": 1.0}}))  # fmt: skip
    for key in ("battery.model", "align", "sources.sun.generation_kwh"):
        yield Corruption("site", f"run.json: power.{key}", info("power", key))
    yield Corruption("site", "run.json: no facts about power", lambda run: run.info.pop("power"))


def of_the_scenario() -> Iterator[Corruption]:
    """Changes of the scenario: in both forms, with its hash, so that only the tables tell."""
    for kind, path, value in (
        ("pool", "policy.order", "sjf"), ("pool", "policy.order", "ljf"),
        ("pool", "policy.backfill", "none"), ("pool", "policy.backfill", "conservative"),
        ("slots", "policy.order", "fcfs"), ("slots", "policy.order", "ljf"),
        ("slots", "policy.backfill", "easy"),
        ("pool", "seed", 7), ("pool", "walltime", "kill"), ("slots", "walltime", "ignore"),
        ("pool", "estimates", "actual"), ("slots", "admission.slots", 2),
        ("slots", "admission.backlog", 5), ("slots", "metrics.tau", 1000.0),
        ("pool", "metrics.tau", 1000.0), ("slots", "metrics.warmup", 90.0),
        ("slots", "metrics.cooldown", 300.0), ("pool", "workload.type", "lublin"),
        ("slots", "workload.requested_time", "max"), ("slots", "value.knob", 2.0),
        ("slots", "value.qos.high_share", 0.9), ("pool", "scheduling.every", 60.0),
        ("pool", "scheduling.step", 60.0), ("pool", "cluster.processors", 8),
        ("cloud", "cluster.failures", None), ("cloud", "workload.submit", "last"),
        ("site", "seed", 2), ("site", "power.pue.ratio", 1.3),
        ("site", "power.machines.full_w", 210.0), ("site", "power.machines.idle_w", 50.0),
        ("site", "power.critical_w", 310.0), ("site", "power.grid.price_per_kwh", 0.2),
        ("site", "power.grid.carbon_gco2_per_kwh", 300.0),
        ("site", "power.grid.import_limit_w", 200.0), ("site", "power.battery.capacity_kwh", 2.0),
        ("site", "power.battery.charge_efficiency", 0.95),
        ("site", "power.battery.initial_soc", 0.9), ("site", "power.battery", None),
        ("site", "power.sources.sun.carbon_gco2_per_kwh", 11.0),
        ("site", "power.supply.running", "requeue"), ("site", "power.supply.limit", "none"),
        ("site", "power", None),
    ):  # fmt: skip
        yield Corruption(
            kind, f"scenario: {path} = {value}", scenario(*path.split("."), value=value)
        )
    for path, value in (("walltime", "kill"), ("metrics.tau", 1.0), ("policy.order", "sjf"),
                        ("workload.load", 2.0), ("bonus", 1)):  # fmt: skip
        change = scenario(*path.split("."), value=value, portable=False)
        yield Corruption("pool", f"scenario, not portable: {path} = {value}", change)


def of_metrics(kind: str, name: str, key: str) -> Corruption:
    return Corruption(
        kind, f"metrics: {name}.{key}", lambda run: run.metrics[name].update(
            {key: other(run.metrics[name][key])})
    )  # fmt: skip


METRICS: Final = {
    # numbers of metrics: each is changed, and of each metric the unit, the count and the censored
    "cloud": (
        "jobs.finished tasks.finished wait_time_s.mean wait_time_s.std wait_time_s.p90 "
        "turnaround_time_s.p99 slowdown.mean bounded_slowdown.p50 instance_wait_time_s.mean "
        "per_processor_bounded_slowdown.max task_turnaround_time_s.p90 makespan_s.value "
        "throughput_jobs_per_h.value throughput_tasks_per_h.value "
        "throughput_instances_per_h.value awrt_s.value fairness_jain.value "
        "utilisation_cpu.value offered_load_cpu.value backlog.mean backlog.max "
        "unsuccessful_share.value completed_jobs.value completed_tasks.value "
        "completed_instances.value retries.value attempts.mean attempts.max "
        "lost_instance_s.value lost_cpu_s.value killed_mem_s.value machine_utilisation_cpu.mean "
        "machines_in_use.mean machines_in_use.max machines_in_use.used stranded_cpu.value "
        "fragmentation_idle_time.mean fragmentation_cpu.value"
    ),
    "slots": (
        "job_value.value job_value.in_time value_ratio.value completion_ratio.value "
        "qos_violations.value deadline_misses.share delay_cost.value wait_time_s.mean "
        "utilisation_processors.value offered_load_processors.value"
    ),
    "site": (
        "load_kwh.value load_kwh.critical served_kwh.value served_kwh.grid unserved_kwh.value "
        "unserved_kwh.share unserved_kwh.jobs unserved_kwh.idle carbon_kg.load generation_kwh.used curtailment_kwh.share renewable_fraction.value "
        "self_consumption.value grid_kwh.import grid_import_peak_w.value carbon_kg.value "
        "energy_cost.load battery_kwh.charge battery_kwh.conversion battery_kwh.self_discharge "
        "battery_kwh.stored battery_full_cycles.value"
    ),
}


def metric_changes() -> Iterator[Corruption]:
    for kind, numbers in METRICS.items():
        names = dict.fromkeys(number.partition(".")[0] for number in numbers.split())
        for name in names:
            yield from (of_metrics(kind, name, key) for key in ("unit", "count", "censored"))
        for number in numbers.split():
            yield of_metrics(kind, *number.split("."))


def more_metric_changes() -> Iterator[Corruption]:
    yield Corruption("pool", "metrics: one missing", lambda run: run.metrics.pop("slowdown"))
    for kind in (
        "pool",
        "cloud",
        "busy",
    ):  # a copy has all that a metric needs, but no run has its name
        yield Corruption(kind, "metrics: one added", lambda run: run.metrics.update(
            luck=run.metrics["makespan_s"]))  # fmt: skip
    yield Corruption("busy", "metrics: one that is no object", lambda run: run.metrics.update(
        luck=7.0))  # fmt: skip
    yield Corruption("pool", "metrics: a number added",
                     lambda run: run.metrics["makespan_s"].update(best=1.0))  # fmt: skip


def text_changes() -> Iterator[Corruption]:
    """Changes of what no rule is about."""
    for key in ("formula", "window"):
        yield Corruption("pool", f"{key} of a metric", lambda run, key=key: run.metrics[
            "makespan_s"].update({key: "as it pleases"}))  # fmt: skip
    yield Corruption("pool", "versions", info("versions", "simkit"))
    yield Corruption("pool", "wall time", info("wall_time_s", "simulate"))
    yield Corruption("pool", "memory", info("peak_memory_bytes"))


CORRUPTIONS: Final = [
    *cells(), *row_changes(), *column_changes(), *of_run_info(), *of_the_scenario(),
    *more_metric_changes(), *text_changes(),
]  # fmt: skip
OF_METRICS: Final = [*metric_changes()]
"""These change one number alone, so the rule about metrics is asked alone: that is quick."""

UNSEEN: Final[dict[tuple[str, str], str]] = {
    ("slots", "jobs.estimate_s changed"): "the job was rejected, so no policy saw its estimate",
    ("busy", "events: rows swapped"): "a policy chooses the order of its actions at one instant",
    ("pool", "scenario: walltime = kill"): "no job runs longer than it asked: it is the same run",
    ("cloud", "scenario: workload.submit = last"): "a job's rows name one time: it is the same run",
    ("pool", "formula of a metric"): "the text is for people; no rule depends on it",
    ("pool", "window of a metric"): "the text is for people; no rule depends on it",
    (
        "busy",
        "metrics: one added",
    ): "a policy of the user may bring a metric, by a formula of its own",
    ("pool", "versions"): "what made the run cannot be seen from its results",
    ("pool", "wall time"): "what the run took cannot be seen from its results",
    ("pool", "memory"): "what the run took cannot be seen from its results",
}
"""(kind, name) of a corruption that no rule finds → why."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_honest_run_is_sound(kind: str, honest: dict[str, Records], tmp_path: Path) -> None:
    assert violated(honest[kind].copy(), tmp_path / "run") == set()


def test_the_runs_have_what_is_corrupted(honest: dict[str, Records]) -> None:
    assert {*honest["busy"].tables["events"]["kind"]} >= {
        "suspended", "resumed", "lost", "killed", "reserved", "cancelled",
    }  # fmt: skip
    assert {"lost"} <= {*honest["cloud"].tables["events"]["kind"]}
    assert {*honest["slots"].tables["jobs"]["status"]} == {"finished", "killed", "rejected"}
    assert {"suspended"} <= {*honest["site"].tables["events"]["kind"]}


def test_there_are_many_kinds_of_corruption() -> None:
    names = [(corruption.kind, corruption.name) for corruption in (*CORRUPTIONS, *OF_METRICS)]
    assert len(set(names)) == len(names) >= 300
    assert UNSEEN.keys() <= set(names)
    assert len(UNSEEN) < 15


@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda c: f"{c.kind}-{c.name}")
def test_each_corruption_is_found(
    corruption: Corruption, honest: dict[str, Records], tmp_path: Path
) -> None:
    run = honest[corruption.kind].copy()
    corruption.change(run)
    found = violated(run, tmp_path / "run")
    assert bool(found) is ((corruption.kind, corruption.name) not in UNSEEN)


@pytest.fixture(scope="module")
def audited(honest: dict[str, Records], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The runs as the auditor reads them."""
    folder = tmp_path_factory.mktemp("audited")
    return {k: AuditedRun.read(honest[k].copy().save(folder / k)) for k in METRICS}


@pytest.mark.parametrize("corruption", OF_METRICS, ids=lambda c: f"{c.kind}-{c.name}")
def test_each_number_of_the_metrics_is_judged(
    corruption: Corruption, honest: dict[str, Records], audited: dict[str, AuditedRun]
) -> None:
    run = honest[corruption.kind].copy()
    corruption.change(run)
    changed = replace(audited[corruption.kind], metrics=run.metrics)
    assert check_metrics(changed).found == 1


OWN = {"name": "my_package:Mine"}
BRINGERS: Final = [
    # a policy, whether it may bring metrics of its own
    ({"order": "sjf", "backfill": "easy"}, False),
    ({"fitness": "tetris", "compat": "cloudsimpy"}, False),
    ({"name": "slotted-sjf"}, False),
    ({"agent": "/elsewhere/deeprm-70"}, False),
    ({"recorded": {}}, False),
    ({"lookahead": ["tetris", "sjf"]}, False),
    ({"agent": "/elsewhere/mine"}, True),
    (OWN, True),
    ({"path": "mine.py:Mine"}, True),
    ({"order": "mine.py:Mine"}, True),
    ({"backfill": "my_package:Mine"}, True),
    ({"fitness": "tetris", "compat": "my_package:Mine"}, True),
    ({"lookahead": ["tetris", OWN]}, True),
    ({"start": "sjf", "switch": [{"at": "1d", "to": OWN}]}, True),
]


@pytest.mark.parametrize(("policy", "may"), BRINGERS)
def test_only_a_policy_of_ones_own_brings_metrics(
    policy: dict[str, Any], may: bool, honest: dict[str, Records], audited: dict[str, AuditedRun]
) -> None:
    with code_refused():
        sections = {"policy": policy, "scheduling": {"every": 1}, "admission": {}}
        scenario = Scenario.model_validate(honest["slots"].info["scenario"] | sections)
    metrics = honest["slots"].metrics
    run = replace(audited["slots"], scenario=scenario, metrics=metrics | {
        "luck": metrics["makespan_s"], "custom": {"tail": {"value": 7.0}}})  # fmt: skip
    check = check_metrics(run)
    unknown = [v for v in check.violations if v.message == "a run has no such metric"]
    assert [v.row for v in unknown] == ([] if may else [{"metric": "luck"}])
    assert check.notes.get("not audited, the policy's own") == (["luck"] if may else None)
