"""Runs that had other power than they say: each is consistent in itself, and its rule finds it.

A scenario is run, and its records are claimed to be those of another one, whose signals, battery or
machines differ in one respect. The audit makes the signals again, so it sees every difference; the
honest run of the claimed scenario passes.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from run_records import Records, claimed, simulated

from simkit.verify import verify_run

pytestmark = pytest.mark.sampled

ZERO = "2019-03-30T20:00:00+01:00"
"""The clock of Berlin is put forward some hours after this."""
DAY = {"0:00": 0.1, "7:00": 0.3, "21:30": 0.05}
BATTERY = {
    "capacity_kwh": 4, "charge_c_rate": 0.5, "discharge_c_rate": 0.5, "charge_efficiency": 0.9,
    "discharge_efficiency": 0.95, "floor": 0.1, "ceiling": 0.95,
}  # fmt: skip
SUN: Final = {"type": "schedule", "day": {"0:00": 100, "6:00": 900, "10:15": 2600, "18:00": 300}}


def table(folder: Path, name: str, rows: int = 96, **cells: str) -> str:
    """Write a table of half hours before and after the zero, and change some cells of it."""
    lines = ["time,power_kw,price,co2,degc"]
    start = np.datetime64("2019-03-30T12:00")
    for n in range(rows):
        time = str(start + np.timedelta64(30 * n, "m")).replace("T", " ")
        hill = 1.5 + np.sin(n / 5)
        line = [time, f"{hill:.4f}", f"{40 * hill:.3f}", f"{300 * hill:.2f}", f"{12 * hill:.2f}"]
        if n not in (22, 23) or name != "gaps.csv":
            lines.append(",".join(line))
    for line_and_column, cell in cells.items():
        number, column = (int(part) for part in line_and_column.removeprefix("c").split("_"))
        parts = lines[number].split(",")
        parts[column] = cell
        lines[number] = ",".join(parts)
    path = folder / name
    path.write_text("\n".join((*lines, "")))
    return str(path)


def jobs(folder: Path) -> str:
    """Write a table of a dozen jobs, over a day and a half."""
    lines = ["job_id,submit_time_s,run_time_s,processors,requested_time_s"]
    lines += [f"{n},{10_000 * n},{7200 + 3000 * (n % 4)},{2 + n % 5},{20_000 + n}"
              for n in range(12)]  # fmt: skip
    path = folder / "jobs.csv"
    path.write_text("\n".join((*lines, "")))
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return name → path: a table, one with a cell changed, one with a gap, one that is short."""
    folder = tmp_path_factory.mktemp("tables")
    return {
        "jobs": jobs(folder),
        "table": table(folder, "table.csv"),
        "changed": table(folder, "changed.csv", c30_1="0.9", c30_2="33", c30_3="111", c30_4="40"),
        "gaps": table(folder, "gaps.csv"),
        "short": table(folder, "short.csv", 30),
        "dropped": table(folder, "dropped.csv", c31_0=""),
        "later": table(folder, "later.csv", c80_1="0.4"),
    }


def csv(file: str, column: str = "power_kw", **keys: Any) -> dict[str, Any]:
    """A signal from a table of the folder of files; "{table}" becomes its path."""
    unit = {"power_kw": "kW", "price": "EUR/MWh", "co2": "gCO2/kWh", "degc": "degC"}[column]
    return {"type": "csv", "path": "{" + file + "}", "column": column, "unit": unit, "zone": "UTC",
            "site_zone": "UTC", "past_end": "wrap"} | keys  # fmt: skip


def day(**changes: float) -> dict[str, Any]:
    """A tariff of the day, with other values from some hours on."""
    return {"type": "schedule",
            "day": DAY | {f"{hour.removeprefix('h')}:00": v for hour, v in changes.items()}}  # fmt: skip


def scenario(power: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    """Return a scenario of a few jobs on eight processors with a site; its parts may be given."""
    power = deepcopy(power)
    site: dict[str, Any] = {
        "machines": {"idle_w": 60, "full_w": 200},
        "align": {"type": "epoch", "zero": ZERO, "zone": "Europe/Berlin"},
        "sources": {"sun": {"signal": SUN, "carbon_gco2_per_kwh": 41}},
        "grid": {"price_per_kwh": 0.2, "carbon_gco2_per_kwh": 300},
        "pue": 1.2,
    }
    cluster = power.pop("cluster", {"processors": 8})
    for key in ("grid", "align"):
        power[key] = site[key] | power.get(key, {})
    text = json.dumps({
        "seed": 1, "cluster": cluster, "power": site | power,
        "workload": {"type": "jobs", "path": "{jobs}"},
        "policy": {"order": "fcfs", "backfill": "easy"},
    })  # fmt: skip
    for name, path in files.items():
        text = text.replace("{" + name + "}", path)
    found: dict[str, Any] = json.loads(text)
    return found


def grid(key: str, value: Any, **power: Any) -> dict[str, Any]:
    """A site whose grid has a signal; exports are possible, and the battery is small."""
    grid = {"export_limit_w": 500, "import_limit_w": 1200} | {key: value}
    return {"grid": grid} | power


def source(signal: Any, **facts: Any) -> dict[str, Any]:
    return {"sources": {"sun": {"signal": signal, **facts}}}


def with_battery(controller: dict[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
    """A site with a battery and a tariff by night and day."""
    power = {"battery": BATTERY | facts, "grid": {"price_per_kwh": day()}}
    return power | ({"controller": controller} if controller else {})


def limited(**power: Any) -> dict[str, Any]:
    """A site whose power limits what may run."""
    return {"supply": {"limit": "power", "running": "suspend"},
            "grid": {"import_limit_w": 300}} | power  # fmt: skip


EACH = ("half of a number", "a schedule: one value 3 % lower", "a file: a cell changed")
"""Cheats that are tried wherever a signal may stand; the others at the price: one code reads all."""


def pairs(key: str, column: str, top: float) -> list[Any]:
    """Cheats with one signal of the grid, in its unit: (what was done, what is said)."""
    times = {"0:00": 0.3 * top, "7:00": top, "21:30": 0.1 * top}

    def tariff(**keys: Any) -> dict[str, Any]:
        return {"type": "schedule", "day": times} | keys

    week = {"weekdays": times, "sat": {"0:00": 0.5 * top}, "sun": {"0:00": 0.2 * top}}
    random = {"type": "levels", "high_w": top, "low_w": 0.5 * top, "high_share": 0.5, "step": "1h"}
    cases = [
        ("half of a number", 0.5 * top, top),
        ("a schedule: one value 3 % lower", tariff(day=times | {"7:00": 0.97 * top}), tariff()),
        ("a schedule: an entry a quarter of an hour late",
         tariff(day={"0:00": 0.3 * top, "7:15": top, "21:30": 0.1 * top}), tariff()),
        ("a schedule on another clock", tariff(zone="Europe/London"), tariff()),
        ("a schedule without daylight saving", tariff(zone="UTC+01:00"), tariff()),
        ("a week: Sunday like Saturday", {"type": "schedule", "week": week | {"sun": week["sat"]}},
         {"type": "schedule", "week": week}),
        ("levels: another share", random | {"high_share": 0.6}, random),
        ("levels: another step", random | {"step": "59m"}, random),
        ("a part of a sum left out", {"type": "sum", "signals": [tariff()]},
         {"type": "sum", "signals": [tariff(), 0.01 * top]}),
        ("another factor", {"type": "scaled", "factor": 1, "signal": tariff()},
         {"type": "scaled", "factor": 0.99, "signal": tariff()}),
        ("means of two hours", {"type": "means", "step": "2h", "signal": csv("table", column)},
         {"type": "means", "step": "1h", "signal": csv("table", column)}),
        ("a file: a cell changed", csv("changed", column), csv("table", column)),
        ("a file: times as ends", csv("table", column, label="end"), csv("table", column)),
        ("a file: read at instants", csv("table", column, sampling="instant"),
         csv("table", column)),
        ("a file: another zone", csv("table", column, zone="UTC+01:00"), csv("table", column)),
        ("a file: a gap held", csv("gaps", column, gaps={"rule": "hold"}),
         csv("gaps", column, gaps={"rule": "interpolate"})),
        ("a file: its end holds", csv("short", column, past_end="hold"), csv("short", column)),
    ]  # fmt: skip
    return [(f"{key}: {name}", grid(key, did), grid(key, says), "grid")
            for name, did, says in cases if key == "price_per_kwh" or name in EACH]  # fmt: skip


PRICES = [
    *pairs("price_per_kwh", "price", 0.3),
    ("paid half", grid("price_per_kwh", 0.15), grid("price_per_kwh", 0.3), "grid"),
    ("what exports earn", grid("export_price_per_kwh", 0.3), grid("export_price_per_kwh", 0.1),
     "grid"),
    ("the run's clock: an hour", grid("price_per_kwh", day(), align={"zone": "Europe/London"}),
     grid("price_per_kwh", day()), "grid"),
    ("the run's zero: a day", grid("price_per_kwh", csv("table", "price"),
                                   align={"zero": "2019-03-31T21:00:00+02:00"}),
     grid("price_per_kwh", csv("table", "price")), "grid"),
    ("by offset: half an hour", grid("price_per_kwh", csv("table", "price"),
                                     align={"type": "offset", "offset": "30m"}),
     grid("price_per_kwh", csv("table", "price"), align={"type": "offset", "offset": "1h"}),
     "grid"),
]  # fmt: skip
CARBON = pairs("carbon_gco2_per_kwh", "co2", 400.0)
LIMITS = [
    *[(name, did, says, "grid|dispatch") for name, did, says, _ in
      pairs("import_limit_w", "power_kw", 900.0)],
    ("exports beyond their limit", grid("export_limit_w", 600), grid("export_limit_w", 500),
     "grid"),
    ("exports that end at noon are not taken", grid("export_limit_w", 0),
     grid("export_limit_w", {"type": "schedule", "day": {"0:00": 400, "12:00": 0}}), "dispatch"),
    ("a grid that is not used", grid("import_limit_w", 0), grid("import_limit_w", 1200),
     "dispatch"),
]  # fmt: skip
LOADS = [
    *[(name.replace("import_limit_w", "critical_w"), {"critical_w": did["grid"]["import_limit_w"]},
       {"critical_w": says["grid"]["import_limit_w"]}, "site-load")
      for name, did, says, _ in pairs("import_limit_w", "power_kw", 900.0)],
    ("a PUE of 1.1", {"pue": 1.1}, {"pue": 1.2}, "site-load"),
    ("a PUE that does not rise at part load", {"pue": 1.2},
     {"pue": {"by_load": {0: 1.5, 0.5: 1.3, 1: 1.2}}}, "site-load"),
    ("a flatter PUE", {"pue": {"by_load": {0: 1.5, 0.5: 1.29, 1: 1.2}}},
     {"pue": {"by_load": {0: 1.5, 0.5: 1.3, 1: 1.2}}}, "site-load"),
    *[(f"a PUE of warm days: {name}",
       {"pue": {"by_load": {0: 1.5, 1: 1.2}, "temperature": did, "added_by_temperature": added}},
       {"pue": {"by_load": {0: 1.5, 1: 1.2}, "temperature": csv("table", "degc"),
                "added_by_temperature": {10: 0, 30: 0.4}}}, "site-load")
      for name, did, added in (
          ("another cell", csv("changed", "degc"), {10: 0, 30: 0.4}),
          ("cooler", csv("table", "degc", zone="UTC-01:00"), {10: 0, 30: 0.4}),
          ("another curve", csv("table", "degc"), {10: 0, 30: 0.39}),
      )],
]  # fmt: skip
SAMPLE = {"type": "gleamm-sample", "part": "both"}
CALENDAR = {"align": {"type": "calendar", "zero": "2020-02-28T21:00:00-06:00",
                      "zone": "America/Chicago"}}  # fmt: skip
GLEAMM = {"type": "gleamm", "path": "{table}", "solar": "power_kw", "wind": "price",
          "unit": "kW", "unit_in_name": "ignore", "zone": "UTC", "past_end": "wrap"}  # fmt: skip
GENERATION = [
    *[(name.replace("import_limit_w", "sun"), source(did["grid"]["import_limit_w"]),
       source(says["grid"]["import_limit_w"]), "generation")
      for name, did, says, _ in pairs("import_limit_w", "power_kw", 900.0)],
    ("peak 1 % higher", source(csv("table"), peak_w=2020), source(csv("table"), peak_w=2000),
     "generation"),
    ("peak of a mean", source({"type": "means", "signal": csv("table")}, peak_w=2020),
     source({"type": "means", "signal": csv("table")}, peak_w=2000), "generation"),
    ("times the load", source(csv("table"), times_load=1.0),
     source(csv("table"), times_load=0.8), "generation"),
    ("times a load with a critical part", source(csv("table"), times_load=1.0),
     source(csv("table"), times_load=0.99) | {"critical_w": 100}, "generation"),
    ("a row of the file dropped", source(csv("dropped", gaps="hold")),
     source(csv("table", gaps="hold")), "generation"),
    ("the last row of the file", source(csv("later")), source(csv("table")), "generation"),
    ("energies read as powers", source(csv("table", unit_in_name="ignore")),
     source(csv("table", unit_in_name="ignore", unit="kWh")), "generation"),
    ("the sample: solar for both", source(SAMPLE | {"part": "solar"}, peak_w=3000) | CALENDAR,
     source(SAMPLE, peak_w=3000) | CALENDAR, "generation"),
    ("the sample: not the leap day's", source(SAMPLE, peak_w=3000) | CALENDAR,
     source(SAMPLE, peak_w=3000) | {"align": CALENDAR["align"] | {
         "zero": "2020-02-29T21:00:00-06:00"}}, "generation"),
    ("the sample: an hour of standard time", source(SAMPLE, peak_w=3000) | CALENDAR,
     source(SAMPLE, peak_w=3000) | {"align": CALENDAR["align"] | {"zone": "America/New_York"}},
     "generation"),
    ("a site's file: the other part", source(GLEAMM | {"part": "wind"}),
     source(GLEAMM | {"part": "solar"}), "generation"),
    ("the carbon of the source", source(SUN, carbon_gco2_per_kwh=11),
     source(SUN, carbon_gco2_per_kwh=41), "generation"),
    ("the price of the source", source(SUN, price_per_kwh=0.01),
     source(SUN, price_per_kwh=0.02), "generation"),
    ("two sources: the cleaner one gave more",
     {"sources": {"a": {"signal": 600, "carbon_gco2_per_kwh": 10},
                  "b": {"signal": 400, "carbon_gco2_per_kwh": 100}}},
     {"sources": {"a": {"signal": 400, "carbon_gco2_per_kwh": 10},
                  "b": {"signal": 600, "carbon_gco2_per_kwh": 100}}}, "generation"),
    ("a source that is not there", {"sources": {}}, source(0.5), "generation"),
]  # fmt: skip
NIGHT = {"charge_below_price": 0.1, "charge_to": 0.8}
CLC = {"model": "clc", "charge_slope_h": 0.2, "discharge_slope_h": 0.2}
CONTROL = [
    ("a larger battery", with_battery(capacity_kwh=5), with_battery(), "battery"),
    ("charges faster", with_battery(charge_c_rate=0.2), with_battery(charge_c_rate=0.1),
     "battery|dispatch"),
    ("gives faster", with_battery(discharge_c_rate=0.6), with_battery(discharge_c_rate=0.1),
     "battery|dispatch"),
    ("charges slower than it can", with_battery(charge_c_rate=0.1), with_battery(), "dispatch"),
    ("gives slower than it can", with_battery(discharge_c_rate=0.1), with_battery(), "dispatch"),
    ("loses less", with_battery(charge_efficiency=0.95), with_battery(), "battery"),
    ("does not leak", with_battery(), with_battery(self_discharge_per_day=0.05), "battery"),
    ("is emptied further", with_battery(floor=0.0), with_battery(), "battery"),
    ("is filled further", with_battery(ceiling=1.0), with_battery(), "battery"),
    ("begins fuller", with_battery(initial_soc=0.9), with_battery(), "battery"),
    ("linear for C/L/C", with_battery(), with_battery(**CLC), "battery|dispatch"),
    ("another slope", with_battery(**CLC), with_battery(**CLC | {"discharge_slope_h": 0.3}),
     "battery|dispatch"),
    ("no reserve", with_battery(), with_battery({"reserve": 0.5}), "reserve"),
    ("a reserve that was not asked for", with_battery({"reserve": 0.5}), with_battery(),
     "dispatch"),
    ("the grid first", with_battery({"first": "grid", "peak_w": 400}), with_battery(), "dispatch"),
    ("no peak shaving", with_battery({"first": "grid"}),
     with_battery({"first": "grid", "peak_w": 400}), "dispatch"),
    ("charged by day", with_battery({"charge_below_price": 0.3, "charge_to": 0.8}),
     with_battery(NIGHT), "dispatch"),
    ("not charged at night", with_battery(), with_battery(NIGHT), "dispatch"),
    ("charged too far", with_battery(NIGHT | {"charge_to": 0.9}), with_battery(NIGHT),
     "dispatch"),
    ("boots at once", limited(), limited(machines={"idle_w": 60, "full_w": 200, "boot": "5m"}),
     "supply"),
    ("boots for less", limited(machines={"idle_w": 60, "full_w": 200, "boot": "5m"}),
     limited(machines={"idle_w": 60, "full_w": 200, "boot": "5m", "boot_w": 220}),
     "machine-power"),
    ("draws when off", limited(),
     limited(machines={"idle_w": 60, "full_w": 200, "off_w": 5}), "machine-power"),
    ("drains", limited(supply={"limit": "power", "running": "drain"}), limited(), "supply"),
    ("starts over", limited(supply={"limit": "power", "running": "requeue"}), limited(),
     "supply"),
    ("more than the power carries", limited(supply={"limit": "none"}), limited(), "supply"),
    ("the battery counts with what it holds for ten minutes",
     limited(battery=BATTERY, supply={"limit": "power", "running": "suspend", "hold": "10m"}),
     limited(battery=BATTERY, supply={"limit": "power", "running": "suspend", "hold": "2h"}),
     "supply"),
    ("another peak of the supply",
     limited(supply={"limit": "resources", "running": "suspend", "peak_w": 1000}),
     limited(supply={"limit": "resources", "running": "suspend", "peak_w": 1600}), "supply"),
    ("a limit that varies is not kept",
     limited(grid={"import_limit_w": {"type": "schedule", "day": {"0:00": 1200, "9:00": 900}}}),
     limited(grid={"import_limit_w": {"type": "schedule", "day": {"0:00": 1200, "9:00": 300}}}),
     "supply"),
    ("a curve of power", {"machines": {"table": [60, 110, 200]}},
     {"machines": {"table": [60, 120, 200]}}, "machine-power"),
]  # fmt: skip


def claim(did: dict[str, Any], says: dict[str, Any], files: dict[str, str], at: Path) -> Records:
    """Return the records of a run under the name of another, the facts of its sources with them."""
    run = claimed(scenario(did, files), scenario(says, files), at)
    facts = json.loads((at / "did" / "run.json").read_text())["power"]
    kept = {key: fact for key, fact in facts.items() if key.endswith(".generation_kwh")}
    run.info["power"] = {key: kept.get(key, fact) for key, fact in run.info["power"].items()}
    return run


@pytest.mark.parametrize(
    ("did", "says", "rule"),
    [pytest.param(did, says, rule, id=name)
     for name, did, says, rule in (*PRICES, *CARBON, *LIMITS, *LOADS, *GENERATION, *CONTROL)],
)  # fmt: skip
def test_other_power_than_is_said_is_found(
    did: dict[str, Any], says: dict[str, Any], rule: str, files: dict[str, str], tmp_path: Path
) -> None:
    cheat = claim(did, says, files, tmp_path).audit(tmp_path / "cheat")
    assert set(rule.split("|")) & cheat.found.keys(), cheat.found
    honest = verify_run(tmp_path / "says", inputs={str(Path(files["table"]).parent)})
    assert [str(violation) for violation in honest.violations] == []
    signals = {"generation", "grid", "site-load", "dispatch"}
    assert signals.isdisjoint(honest.not_audited)


READER = """
import numpy as np
from simkit.power.signal_trace import PowerTrace


def flat(path=""):
    return PowerTrace(np.arange(200) * 3600.0 + 1553900000, np.full(200, {value}), "{unit}", "UTC")
"""


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("sources.sun", "generation"), ("critical_w", "site-load"),
        ("grid.price_per_kwh", "grid"), ("grid.carbon_gco2_per_kwh", "grid"),
        ("grid.import_limit_w", "dispatch"), ("grid.export_limit_w", "dispatch"),
    ],
)  # fmt: skip
def test_a_signal_that_is_not_made_again_is_named(
    key: str, rule: str, files: dict[str, str], tmp_path: Path
) -> None:
    unit = {"price": "price/kWh", "carbon": "gCO2/kWh"}.get(key.split(".")[-1].split("_")[0], "W")
    reader = tmp_path / "reader.py"
    reader.write_text(READER.format(value=900.0, unit=unit))
    signal = {"type": "plugin", "reader": f"{reader}:flat", "past_end": "wrap"}
    section, _, name = key.partition(".")
    if section == "sources":
        power = source(signal)
    else:
        power = grid(name, signal) if name else {section: signal}
    run = simulated(scenario(power, files), tmp_path / "run")
    audit = run.audit(tmp_path / "again")
    assert audit.found == {}
    assert not audit.fully_audited
    assert audit.not_audited[rule] == f"power.{key}: signals of type plugin are not recomputed"


def test_a_typical_year_is_not_laid_on_one_year_again(
    files: dict[str, str], tmp_path: Path
) -> None:
    months = ["time,power_kw"]
    for year, month in ((2007, 1), (2004, 2)):
        first, after = (np.datetime64(f"{year}-{n:02d}") for n in (month, month + 1))
        for hour in np.arange(first, after, dtype="datetime64[h]"):
            months.append(
                f"{str(hour).replace('T', ' ')}:00,{1 + int(hour.astype(int)) % 7 / 7:.3f}"
            )
    (tmp_path / "typical.csv").write_text("\n".join((*months, "")))
    places = files | {"typical": str(tmp_path / "typical.csv")}
    power = source(csv("typical")) | {"align": {"type": "offset", "offset": "1h"}}
    audit = simulated(scenario(power, places), tmp_path / "run").audit(tmp_path / "again")
    assert audit.found == {}
    reason = "power.sources.sun: a typical year is not laid on one year again"
    assert audit.not_audited["generation"] == reason


def test_a_file_of_a_known_format_is_read_again_and_its_zone_is_no_violation(
    files: dict[str, str], tmp_path: Path
) -> None:
    hours = np.arange("2019-01-01", "2020-01-01", dtype="datetime64[h]").tolist()
    lines = [f"{hour:%d.%m.%Y %H:%M};{20 + hour.hour}" for hour in hours]
    path = tmp_path / "smard.csv"
    path.write_text("\n".join(("Datum von;Preis [€/MWh]", *lines, "")))
    gaps = {"rule": "hold", "longest": "3h"}
    price = {"type": "price", "path": str(path), "format": "smard", "gaps": gaps,
             "column": "Preis [€/MWh]"}  # fmt: skip
    power = grid("price_per_kwh", price) | {"align": {"type": "calendar"}}
    audit = simulated(scenario(power, files), tmp_path / "run").audit(tmp_path / "again")
    assert audit.found == {}
    assert "grid" in {check.name for check in audit.done}
    assert "grid.price_per_kwh" in audit.not_audited["clocks"]


def test_a_custom_controller_is_not_audited(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from simkit.power.controller import SourceOrder\nclass Own(SourceOrder): pass\n"
    )
    power = with_battery() | {"controller": {"type": f"{tmp_path / 'own.py'}:Own"}}
    audit = simulated(scenario(power, files), tmp_path / "run").audit(tmp_path / "again")
    assert audit.found == {}
    assert "custom controller" in audit.not_audited["dispatch"]


def moved(column: str, by: float, to: str) -> Any:
    """Move a power from one column of the ledger to another, where both are large enough."""

    def change(run: Records) -> None:
        power = run.tables["power"]
        rows = (power[column] > 2 * abs(by)) & (power[to] > 2 * abs(by))
        at = int(np.flatnonzero(rows.to_numpy())[0])
        here = pl.int_range(pl.len()) == at
        run.tables["power"] = power.with_columns(
            pl.when(here).then(pl.col(column) - by).otherwise(column).alias(column),
            pl.when(here).then(pl.col(to) + by).otherwise(to).alias(to),
        )

    return change


def exchanged(column: str, other: str = "") -> Any:
    """Exchange a part of two columns between the bills of two jobs, or one column of them."""

    def change(run: Records) -> None:
        energy, row = run.tables["energy"], pl.int_range(pl.len())
        if not other:
            order = [0, 1, 2, 4, 3, *range(5, energy.height)]
            run.tables["energy"] = energy.with_columns(pl.col(column).gather(order))
            return
        more = pl.when(row == 3).then(500.0).when(row == 4).then(-500.0).otherwise(0.0)
        run.tables["energy"] = energy.with_columns(
            (pl.col(column) + more).alias(column), (pl.col(other) - more).alias(other)
        )

    return change


def without_row(nth: int) -> Any:
    """Leave out a row of the ledger, the first or the last."""

    def change(run: Records) -> None:
        power = run.tables["power"]
        run.tables["power"] = power[1:] if nth == 0 else power[:nth]

    return change


CURVE = {"machines": {"table": [60, 130, 160, 200]}}
TWO_GROUPS = CURVE | {"cluster": {"machines": [{"count": 2, "processors": 8}]}}


@pytest.mark.parametrize(
    ("power", "change", "rule"),
    [
        (with_battery(charge_c_rate=0.1), moved("curtailment_w", 100.0, "charge_w"), "dispatch"),
        (with_battery(discharge_c_rate=0.1), moved("import_w", 10.0, "discharge_w"), "dispatch"),
        (grid("export_limit_w", 900), moved("export_w", 50.0, "curtailment_w"), "dispatch"),
        (grid("import_limit_w", 500), moved("unserved_w", 20.0, "import_w"), "dispatch"),
        ({}, without_row(0), "ledger"),
        ({}, without_row(-1), "ledger"),
        ({}, exchanged("renewable_j", "grid_j"), "bills"),
        (CURVE, exchanged("renewable_j", "grid_j"), "bills"),
        (TWO_GROUPS, exchanged("renewable_j", "grid_j"), "bills"),
        (CURVE, exchanged("carbon_g"), "bills"),
    ],
)
def test_a_ledger_or_bill_that_was_edited_is_found(
    power: dict[str, Any], change: Any, rule: str, files: dict[str, str], tmp_path: Path
) -> None:
    run = simulated(scenario(power, files), tmp_path / "run")
    assert run.copy().audit(tmp_path / "honest").found == {}
    change(run)
    assert rule in run.audit(tmp_path / "cheat").found
