"""Runs in which power decides what may run: the engine's pass the audit, changed ones do not.

The site has 300 W of critical load, a PUE of 1.2, a weak grid and a sun that changes every half
hour between more than enough and less than half of it. The pool has 32 processors, or there are 16
machines of two.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import simkit
from simkit.verify import verify_run
from simkit.verify.audited_run import redone_s

pytestmark = pytest.mark.sampled

BATTERY = {
    "capacity_kwh": 6, "charge_c_rate": 0.5, "discharge_c_rate": 1.0, "charge_efficiency": 0.95,
    "discharge_efficiency": 0.9, "floor": 0.1, "ceiling": 0.95, "initial_soc": 0.5,
    "self_discharge_per_day": 0.05,
}  # fmt: skip
CHECKPOINTS = {"every": "20m", "restart": "2m"}
PLACES = {
    "pool": ({"processors": 32}, {}),
    "booting pool": ({"processors": 32}, {"off_w": 5, "boot": "90s", "boot_w": 80}),
    "machines": ({"machines": [{"count": 16, "processors": 2}]}, {"off_w": 5}),
    "booting machines": (
        {"machines": [{"count": 16, "processors": 2}]},
        {"off_w": 5, "boot": "90s", "boot_w": 80, "shutdown": "30s"},
    ),
}
"""Name → cluster, and what is added to the power of its machines."""
RUNNING = ("drain", "suspend", "checkpoint", "requeue")


def green(
    place: str = "pool", running: str = "suspend", limit: str = "power", backfill: str = "none",
    *, battery: bool = False, forecast: bool = False, value: bool = False, jobs: int = 100,
    **power: Any,
) -> dict[str, Any]:  # fmt: skip
    """Return a scenario with power; keys of its power may be given anew."""
    cluster, facts = PLACES[place]
    units = 32 if "processors" in cluster else 16
    supply: dict[str, Any] = {"limit": limit, "running": running}
    if running == "checkpoint":
        supply["checkpoints"] = CHECKPOINTS
    signal = {"type": "levels", "high_w": 260 * units, "low_w": 80 * units, "high_share": 0.6,
              "step": "30m"}  # fmt: skip
    site: dict[str, Any] = {
        "machines": {"idle_w": 60, "full_w": 200} | facts,
        "pue": 1.2,
        "critical_w": 300,
        "align": {"zero": "2019-04-01T00:00:00+00:00"},
        "sources": {"sun": {"signal": signal, "carbon_gco2_per_kwh": 41}},
        "grid": {"import_limit_w": 400, "price_per_kwh": 0.1, "carbon_gco2_per_kwh": 400},
        "supply": supply,
    }
    if battery:
        site["battery"] = BATTERY
    if forecast:
        site["forecast"] = {"type": "persistence", "period": 0, "horizon": "6h", "step": "30m"}
    return {
        "name": "green", "seed": 1, "cluster": cluster, "power": site | power,
        "workload": {"type": "lublin", "jobs": jobs, "processors": 32, "offered_load": 0.7,
                     "users": 5},
        "policy": {"order": "fcfs", "backfill": backfill},
    } | ({"value": {}} if value else {})  # fmt: skip


def audited(scenario: dict[str, Any], folder: Path) -> Any:
    simkit.simulate(scenario, output=folder)
    return verify_run(folder)


def holds(scenario: dict[str, Any], folder: Path) -> None:
    """Every rule holds, and the rules about power were checked."""
    audit = audited(scenario, folder)
    assert [str(violation) for violation in audit.violations] == []
    left_out = {"trace", "fcfs-order", "schedule"}  # for reasons of their own
    if "machines" in scenario["cluster"]:
        left_out |= {"stops"}  # in which order is known in pools alone
        if scenario["power"]["machines"].get("boot") and "battery" in scenario["power"]:
            left_out |= {"supply"}  # what a battery adds while machines boot is not known
    assert audit.not_audited.keys() <= left_out
    done = {check.name for check in audit.done} | audit.not_audited.keys() & {"supply", "stops"}
    supply = scenario["power"]["supply"]
    assert done >= {"ledger", "sources", "machine-power", "bills", "capacity", "timeline", "times"}
    for rule in ("supply", "stops"):
        assert (rule in done) is (supply["limit"] != "none")
    for rule in ("battery", "reserve"):
        assert (rule in done) is ("battery" in scenario["power"])


ONE_OF_EACH = [
    # place, running, limit, backfill, battery, forecast, value
    (place, running, ("power", "resources")[(i + i // 4) % 2], ("none", "easy")[i // 2 % 2],
     (i + i // 8) % 2 == 0, i % 3 == 0, i % 5 < 2)
    for i, (place, running) in enumerate(product(PLACES, RUNNING))
] + [("pool", "suspend", "none", "easy", True, True, True)]  # fmt: skip


def scenario_of(
    place: str, running: str, limit: str, backfill: str, battery: bool, forecast: bool, value: bool
) -> dict[str, Any]:
    facts = {"battery": battery, "forecast": forecast, "value": value}
    return green(place, running, limit, backfill, **facts)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_what_the_engine_does_passes(case: Any, tmp_path: Path) -> None:
    holds(scenario_of(*case), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("running", RUNNING)
def test_all_combinations_pass(place: str, running: str, tmp_path: Path) -> None:
    switches = [(False, True)] * 3
    limits, backfills = ("none", "power", "resources"), ("none", "easy")
    for number, case in enumerate(product(limits, backfills, *switches)):
        holds(scenario_of(place, running, *case), tmp_path / str(number))


CURVES = {"by_load": {0: 1.6, 0.5: 1.3, 1: 1.2}}
CLC = BATTERY | {"model": "clc", "charge_slope_h": 0.05, "discharge_slope_h": 0.08}


@pytest.mark.parametrize(
    ("place", "power"),
    [
        # nothing but machines: of renewables and battery no overhead is left to pay for
        ("pool", {"pue": 1.0, "critical_w": 0, "grid": None, "battery": BATTERY}),
        # a PUE that falls with the load: that of a full site counts
        ("pool", {"pue": CURVES}),
        # a battery whose limits fall with its content
        ("pool", {"battery": CLC}),
        # power by a table of measurements
        ("pool", {"machines": {"table": [60, 120, 160, 190, 200], "off_w": 3, "boot": "40s"}}),
        # boots that end off the grid of times, in between other events
        ("booting machines", {"machines": {"idle_w": 60, "full_w": 200, "boot": 90.1,
                                           "shutdown": 30.1, "off_w": 5}}),
        # no grid: nights without power
        ("machines", {"grid": None}),
        # as much of the grid as is wanted
        ("pool", {"grid": {"import_limit_w": None}}),
        # less is there as the peak of the supply is higher
        ("pool", {"supply": {"limit": "resources", "peak_w": 7000, "running": "requeue"}}),
    ],
)  # fmt: skip
def test_sites_of_other_kinds_pass(place: str, power: dict[str, Any], tmp_path: Path) -> None:
    holds(green(place, **power), tmp_path / "run")


@pytest.mark.parametrize(
    ("place", "happens"),
    [
        ("pool", {"maintenance": [{"start": "14h", "duration": "3h", "processors": 12}]}),
        ("machines", {"maintenance": [{"start": "14h", "duration": "3h"}]}),
        ("machines", {"failures": {"mtbf": "30h", "mttr": "2h"}}),
    ],
)
def test_power_and_other_outages_go_together(
    place: str, happens: dict[str, Any], tmp_path: Path
) -> None:
    scenario = green(place)
    scenario["cluster"] = scenario["cluster"] | happens
    audit = audited(scenario, tmp_path / "run")
    assert [str(violation) for violation in audit.violations] == []
    done = {check.name for check in audit.done}
    assert "machine-capacity" in done
    assert ("supply" in done) is (place == "pool")  # why a machine is away is not known


def test_without_a_limit_every_row_has_its_reason(tmp_path: Path) -> None:
    """Machines fail, boot and shut down; signals change every half hour, and nobody decides."""
    scenario = green("booting machines", limit="none", battery=True)
    scenario["cluster"] = scenario["cluster"] | {"failures": {"mtbf": "30h", "mttr": "2h"}}
    audit = audited(scenario, tmp_path / "run")
    assert [str(violation) for violation in audit.violations] == []
    notes = next(check for check in audit.done if check.name == "timeline").notes
    assert "rows without a change are not judged" not in notes


def test_an_import_limit_that_changes_is_audited(tmp_path: Path) -> None:
    limit = {"type": "schedule", "day": {"0:00": 400, "12:00": 3000}}
    holds(green(grid={"import_limit_w": limit}), tmp_path / "run")


def test_a_head_that_waits_for_forecast_power_is_not_audited(tmp_path: Path) -> None:
    audit = audited(green(backfill="easy", forecast=True), tmp_path / "run")
    assert audit.not_audited["schedule"] == "power limits the capacity"


# ---- changed runs -----------------------------------------------------------------------------

Change = Callable[[Path], None]

RUNS = {
    "pool": green(),
    "battery": green(battery=True),
    "boot": green("booting pool"),
    "machines": green("machines", "requeue"),
    "booting machines": green("booting machines"),
    "checkpoint": green("pool", "checkpoint"),
    "maintenance": green() | {
        "cluster": {"processors": 32, "maintenance": [
            {"start": "14h", "duration": "3h", "processors": 12}
        ]},
    },
    "free": green(limit="none"),
    "value": green(value=True),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from the name of a run to its folder."""
    base = tmp_path_factory.mktemp("runs")

    def folder(name: str) -> Path:
        path = base / name
        if not path.exists():
            assert audited(RUNS[name], path).ok
        return path

    return folder


def set_rows(table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Change:
    def write(folder: Path) -> None:
        path = folder / f"{table}.parquet"
        change(pl.read_parquet(path)).write_parquet(path)

    return write


Edit = Callable[[dict[str, Any]], dict[str, Any] | None]


def edited(table: str, pick: Callable[[list[dict[str, Any]]], list[int]], nth: int, change: Edit
           ) -> Change:  # fmt: skip
    """Change the n-th of the rows that are picked; None takes it away."""

    def edit(frame: pl.DataFrame) -> pl.DataFrame:
        rows: list[Any] = frame.to_dicts()
        at = pick(rows)[nth]
        rows[at] = change(rows[at])
        return pl.DataFrame([row for row in rows if row is not None], schema=frame.schema)

    return set_rows(table, edit)


def nth_event(nth: int, *, rises: bool, change: Edit) -> Change:
    """Change the n-th event by which capacity rises, or falls, counted from 1."""

    def pick(rows: list[dict[str, Any]]) -> list[int]:
        before: dict[int, float] = {}
        found = []
        for at, row in enumerate(rows):
            if row["kind"] == "capacity":
                now = json.loads(row["detail"])["capacity"]["processors"]
                was = before.get(row["machine_id"], 32 if now > 2 else 2)
                before[row["machine_id"]] = now
                found += [at] if (now > was) is rises else []
        return found

    return edited("events", pick, nth - 1, change)


def nth_switch(nth: int, change: Edit, state: str = "") -> Change:
    """Change the n-th event of a switch, or of those to one state."""
    return edited("events", lambda rows: [
        at for at, row in enumerate(rows) if row["kind"] == "switched" and state in row["detail"]
    ], nth, change)  # fmt: skip


def stopped(nth: int, **values: Any) -> Change:
    """Change the allocation that was stopped as the n-th."""
    return edited("allocations", lambda rows: [
        at for at, row in enumerate(rows) if row["outcome"] in ("suspended", "lost")
    ], nth, lambda row: row | values)  # fmt: skip


def detail(**facts: Any) -> Edit:
    """Change the detail of an event; a function is called with the old value."""

    def change(row: dict[str, Any]) -> dict[str, Any]:
        old = json.loads(row["detail"])
        new = {k: v(old[k]) if callable(v) else v for k, v in facts.items()}
        return row | {"detail": json.dumps(old | new)}

    return change


def amount(more: float) -> Edit:
    return detail(capacity=lambda has: {"processors": has["processors"] + more})


def later(seconds: float) -> Edit:
    return lambda row: row | {"time_s": row["time_s"] + seconds}


def gone(row: dict[str, Any]) -> None:
    """Take a row away."""


def fails_by_power(folder: Path) -> None:
    detail = {"capacity": {"processors": 31.0}, "running": "suspend", "cause": "power"}
    row = {"time_s": 40000.0, "kind": "capacity", "job_id": None, "task_id": None,
           "machine_id": 0, "detail": json.dumps(detail)}  # fmt: skip
    set_rows("events", lambda e: pl.concat([e, pl.DataFrame([row], schema=e.schema)]))(folder)


def in_another_order(folder: Path) -> None:
    """Reverse the order of the jobs' qualities of service."""
    set_rows("jobs", lambda jobs: jobs.with_columns(qos=1.01 - pl.col("qos")))(folder)


def later_fall(folder: Path) -> None:
    """Leave all but one processor on where most tasks were stopped."""

    def all_there(events: pl.DataFrame) -> pl.DataFrame:
        rows = events.to_dicts()
        counts = events.filter(pl.col("kind") == "suspended")["time_s"].value_counts(sort=True)
        for row in rows:
            if row["kind"] == "capacity" and row["time_s"] == counts["time_s"][0]:
                detail = json.loads(row["detail"])
                detail["capacity"]["processors"] = 31.0
                row["detail"] = json.dumps(detail)
        return pl.DataFrame(rows, schema=events.schema)

    set_rows("events", all_there)(folder)


def scenario(*path: str, value: Any) -> Change:
    """Change a setting of the recorded scenario."""

    def write(folder: Path) -> None:
        manifest = json.loads((folder / "run.json").read_text())
        section = manifest["scenario"]
        for name in path[:-1]:
            section = section[name]
        section[path[-1]] = value
        (folder / "run.json").write_text(json.dumps(manifest))

    return write


def a_decision_without_a_change(folder: Path) -> None:
    """Repeat a row of the timeline between two others."""

    def edit(timeline: pl.DataFrame) -> pl.DataFrame:
        middle = timeline.height // 2
        before, after = timeline["time_s"][middle - 1 : middle + 1]
        row = timeline[middle - 1].with_columns(time_s=pl.lit((before + after) / 2))
        return pl.concat([timeline[:middle], row, timeline[middle:]])

    set_rows("timeline", edit)(folder)
    manifest = json.loads((folder / "run.json").read_text())
    manifest["decisions"] += 1
    (folder / "run.json").write_text(json.dumps(manifest))


def of_stopped_job(**columns: Callable[[float], float]) -> Change:
    """Change columns of a job that went on from a checkpoint."""

    def edit(jobs: pl.DataFrame) -> pl.DataFrame:
        row = int(np.flatnonzero(jobs["lost_time_s"].to_numpy() > 0)[0])
        for name, change in columns.items():
            cells = jobs[name].to_list()
            cells[row] = change(cells[row])
            jobs = jobs.with_columns(pl.Series(name, cells, dtype=pl.Float64))
        return jobs

    return set_rows("jobs", edit)


MUTATIONS = [
    # what is done to which run, how, the rule that is violated
    ("a processor too many", "pool", nth_event(2, rises=True, change=amount(1)), "supply"),
    ("a processor too few", "pool", nth_event(2, rises=True, change=amount(-1)), "supply"),
    ("one that goes late", "pool", nth_event(2, rises=False, change=later(60)), "supply"),
    ("one that comes soon", "pool", nth_event(2, rises=True, change=later(-60)), "supply"),
    ("another treatment", "pool", nth_event(1, rises=False, change=detail(running="drain")), "supply"),
    ("a larger grid", "pool", scenario("power", "grid", "import_limit_w", value=900), "supply"),
    ("no grid", "pool", scenario("power", "grid", value=None), "supply"),
    ("cooler machines", "pool", scenario("power", "pue", "ratio", value=1.1), "supply"),
    ("a higher peak", "pool", scenario("power", "supply", value={
        "limit": "resources", "peak_w": 7000.0, "running": "suspend", "hold": 300.0,
    }), "supply"),
    ("no limit", "pool", scenario("power", "supply", "limit", value="none"), "supply"),
    ("without a limit, less", "free", fails_by_power, "supply"),
    ("a decision because of a signal", "free", a_decision_without_a_change, "timeline"),
    ("more than stored", "battery", nth_event(2, rises=False, change=amount(1)), "supply"),
    ("less than stored", "battery", nth_event(2, rises=False, change=amount(-1)), "supply"),
    ("held longer", "battery", scenario("power", "supply", "hold", value=1e4), "supply"),
    ("on before it booted", "boot", nth_event(1, rises=True, change=later(-60)), "supply"),
    ("on long after it booted", "boot", nth_event(1, rises=True, change=later(60)), "supply"),
    ("a machine that stays on", "machines",
     nth_event(1, rises=False, change=gone), "supply"),
    ("a machine that stays off", "machines",
     nth_event(1, rises=True, change=gone), "supply"),
    ("a machine that never boots", "booting machines",
     nth_event(1, rises=True, change=gone), "supply"),
    ("a machine that goes late", "booting machines",
     nth_event(1, rises=False, change=later(300)), "supply"),
    ("maintenance that took nothing", "maintenance",
     scenario("cluster", "maintenance", 0, "processors", value=4), "supply"),
    ("maintenance that took more", "maintenance",
     scenario("cluster", "maintenance", 0, "processors", value=30), "machine-capacity"),
    ("a boot that is not recorded", "boot",
     nth_switch(4, gone), "machine-power"),
    ("no switch is recorded", "boot", set_rows("events", lambda e: e.filter(pl.col("kind") != "switched")), "machine-power"),
    ("more of a pool boots", "boot",
     nth_switch(4, detail(booting=lambda n: n + 1.0)), "machine-power"),
    ("less of a pool boots", "boot",
     nth_switch(4, detail(booting=lambda n: n - 1.0)), "machine-power"),
    ("a pool is on before it booted", "boot", nth_switch(
        0, lambda row: detail(on=lambda n: n + json.loads(row["detail"])["booting"], booting=0.0)(
            row), '"booting": 22.0'), "machine-power"),
    ("a pool boots later", "boot", nth_switch(4, later(7)), "machine-power"),
    ("a boot that is not recorded, of a machine", "booting machines",
     nth_switch(2, gone, "booting"), "machine-power"),
    ("a boot that never ends", "booting machines",
     nth_switch(2, gone, '"on"'), "machine-power"),
    ("a machine that boots sooner", "booting machines",
     nth_switch(2, later(-5), "booting"), "machine-power"),
    ("another machine boots", "booting machines",
     nth_switch(2, lambda row: row | {"machine_id": (row["machine_id"] + 1) % 16}, "booting"),
     "machine-power"),
    ("a machine is off while it shuts down", "booting machines",
     nth_switch(2, detail(state="off"), "shutting"), "machine-power"),
    ("a boot that draws less", "booting machines",
     scenario("power", "machines", "boot_w", value=70.0), "machine-power"),
    ("a boot that takes longer", "booting machines",
     scenario("power", "machines", "boot", value=100.0), "machine-power"),
    ("machines that draw more when off", "machines",
     scenario("power", "machines", "off_w", value=6.0), "machine-power"),
    ("a pool that draws more when off", "pool",
     scenario("power", "machines", "off_w", value=1.0), "machine-power"),
    ("lost in place of kept", "pool", stopped(3, outcome="lost"), "stops"),
    ("kept in place of lost", "machines", stopped(3, outcome="suspended"), "stops"),
    ("stopped while power is there", "pool", stopped(3, end_time_s=40000.0), "stops"),
    ("the young before the old", "pool", stopped(0, start_time_s=1.0), "stops"),
    ("the valuable before others", "value", in_another_order, "stops"),
    ("stopped without need", "pool", later_fall, "stops"),
    ("less lost", "checkpoint", of_stopped_job(lost_time_s=lambda s: s - 60), "times"),
    ("run again as run", "checkpoint", of_stopped_job(run_time_s=lambda s: s + 60), "times"),
    ("rarer checkpoints", "checkpoint",
     scenario("power", "supply", "checkpoints", "every", value=3600.0), "run-time"),
    ("a restart that costs nothing", "checkpoint",
     scenario("power", "supply", "checkpoints", "restart", value=0.0), "times"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("run", "change", "rule"), [pytest.param(*case, id=text) for text, *case in MUTATIONS]
)
def test_a_changed_run_is_caught(
    run: str, change: Change, rule: str, made: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(made(run), tmp_path / "run")
    change(folder)
    assert rule in verify_run(folder).found


@pytest.mark.parametrize(
    ("pieces", "again"),
    [
        # work is saved every 100 s, and going on costs 20 s; what is done again or restarts
        ([(250, False)], 0),
        ([(250, True), (270, False)], 50 + 20),
        ([(40, True), (200, False)], 40),  # no checkpoint yet, none to restart from
        ([(200, True), (50, False)], 20),  # just at one
        ([(250, True), (10, True), (320, False)], 50 + 10 + 20),  # the restart was cut short
        ([(30, True), (10, True), (10, True), (500, False)], 30 + 10 + 10),
        ([(250, True), (150, True), (500, False)], 50 + 20 + 30 + 20),
        ([(250, False), (70, True), (500, False)], 20 + 20),  # the policy's stops keep all work
    ],
)
def test_what_is_done_again(pieces: list[tuple[float, bool]], again: float) -> None:
    assert redone_s(pieces, 100.0, 20.0) == again
