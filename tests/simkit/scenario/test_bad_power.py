"""A user's mistakes about power: told clearly before the run, with nothing written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import Simkit

HOURS = 96


@pytest.fixture
def simkit(capsys, monkeypatch, tmp_path):
    """Return a function that runs a command in a folder with files of power."""
    monkeypatch.chdir(tmp_path)
    write_files()
    return Simkit(capsys, monkeypatch)


def write_files() -> None:
    """Write a site's four days, with several things wrong; every seventh hour is 0 kW."""
    rows = [f"2020-01-{1 + h // 24:02d} {h % 24:02d}:00,{h % 7}" for h in range(HOURS)]
    files = {
        "site.csv": ["time,kw", *rows],
        "megawatt.csv": ["time,Wind [MW]", *rows],
        "zoned.csv": ["time,kw", *(row.replace(",", "+01:00,") for row in rows)],
        "gap.csv": ["time,kw", *rows[:10], *rows[16:]],
        "night.csv": ["time,kw", *(row.replace(",0", ",-2") for row in rows)],
        "empty.csv": [],
    }
    for name, lines in files.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines))


def csv(**keys: str | None) -> str:
    """Return a signal from a file, in YAML."""
    usual = {"type": "csv", "path": "site.csv", "column": "kw", "unit": "kW", "zone": "UTC"}
    shown = {key: value for key, value in (usual | keys).items() if value is not None}
    return "{" + ", ".join(f"{key}: {value}" for key, value in shown.items()) + "}"


def scenario(**keys: str) -> None:
    """Write bad.yaml: a small run on the wind of a file, with these keys of `power`."""
    usual = {
        "machines": "{idle_w: 10, full_w: 20}",
        "align": "{type: epoch, zero: 2020-01-01T00:00:00+00:00}",
        "sources": "{wind: {signal: " + csv() + "}}",
    }
    lines = [f"  {key}: {value}" for key, value in (usual | keys).items()]
    head = "workload: {type: lublin, jobs: 20, processors: 16, offered_load: 1.0}\npower:"
    Path("bad.yaml").write_text("\n".join([head, *lines]) + "\n")


def wind(text: str) -> dict[str, str]:
    return {"sources": "{wind: {signal: " + text + "}}"}


WIND = "power.sources.wind"
# keys of the scenario; all that the message must say: thing, value, rule and remedy
BY_THE_FILES = [
    # a path that does not exist
    (wind(csv(path="sit.csv")),
     (f"bad.yaml:5: {WIND}.signal.path", "there is no file", "did you mean 'site.csv'?")),
    # another unit than the column's name says; an unknown one; one of something else
    (wind(csv(path="megawatt.csv", column='"Wind [MW]"')),
     ("megawatt.csv: column 'Wind [MW]' names MW, but unit 'kW' is declared", "declare MW")),
    (wind(csv(unit="kw")), (f"{WIND}: ", "unit 'kw' is unknown; did you mean 'kW'?")),
    ({"grid": "{price_per_kwh: " + csv() + "}"},
     ("power.grid.price_per_kwh: ", "values in W, but a price is in price/kWh", "give another")),
    # no zone; another zone than the times say
    (wind(csv(zone=None)), (f"{WIND}: ", "times without a time zone; declare zone: UTC")),
    (wind(csv(path="zoned.csv")),
     ("the times carry their own offset from UTC, but zone 'UTC' is declared", "leave zone out")),
    # a gap where none may be; one that is longer than may be
    (wind(csv(path="gap.csv")),
     ("gap.csv: kw: gaps from 2020-01-01 10:00 UTC for 06:00:00", "the rule allows none",
      "fill them with the rule hold")),
    (wind(csv(path="gap.csv", gaps="hold")),
     ("for 06:00:00; gaps up to 03:00:00 are allowed; raise longest",)),
    # the truth, and a custom forecast, shorter than the horizon
    ({"forecast": "{type: perfect, horizon: 30d}"},
     (f"{WIND}: covers 0 to 345600 s of the run, but the forecast looks from 0 to",
      "its horizon of 2592000 s", "give a shorter horizon, a longer file")),
    (wind("1e3") | {"forecast": "{type: given, horizon: 30d, signal: " + csv() + "}"},
     ("power.forecast: covers 0 to 345600 s", "give a shorter horizon")),
    # a file that does not last as long as the jobs
    ({"align": "{offset: 3d20h}"}, (f"{WIND}: covers", "the jobs run from 0 to")),
    # less than a year by the calendar
    ({"align": "{zero: 2020-01-01T00:00:00+00:00}"},
     ("site.csv: kw: covers from 2020-01-01 00:00 to 2020-01-05 00:00",
      "the run needs power from 2020-01-01 00:00 to 2020-01-01",
      "align calendar needs every hour of a year", "align by epoch or offset")),
    # a run without a date
    ({"align": "calendar"}, ("needs the date of the run's zero", "add power.align: {zero:")),
    # a column that is not there; an empty file
    (wind(csv(column="kv")), ("site.csv:1: no column 'kv'; known: kw, time",)),
    (wind(csv(path="empty.csv")), ("empty.csv: the file is empty",)),
    # negative generation in a file, and in a pattern
    (wind(csv(path="night.csv")),
     ("night.csv: kw: 14 values below 0, the smallest is -2000 W", "negative: zero")),
    (wind("{type: schedule, day: {7:00: -3}}"),
     (f"{WIND}: is -3 W; power must be at least 0", "without a sign")),
    # power by a resource that nobody has
    ({"machines": "{idle_w: 10, per_resource: {gpu: 300}}"},
     ("power.machines: draws power for 'gpu', which no machine has; known: processors",)),
    # an argument that the controller does not take
    ({"controller": "{type: source-order, reserv: 0.2}"},
     ("power.controller: 'source-order' takes no argument 'reserv'; did you mean 'reserve'?",)),
    # the default controller, with an argument that may not be so
    ({"controller": "{reserve: 2}"},
     ("power.controller.reserve: must be at most 1, not 2",)),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "said"), BY_THE_FILES)
def test_a_run_is_refused_before_it_begins_in_the_words_of_validate(simkit, keys, said):
    scenario(**keys)
    before = sorted(Path().rglob("*"))
    refused = simkit("run", "bad.yaml", "--output", "out")
    assert (refused.code, refused.out) == (2, "")
    assert [part for part in said if part not in refused.err] == []
    assert "Traceback" not in refused.err
    assert sorted(Path().rglob("*")) == before
    assert simkit("validate", "bad.yaml").err == refused.err


def test_what_has_no_mistakes_is_valid_and_runs(simkit):
    """What the table above differs from."""
    scenario()
    assert simkit("validate", "bad.yaml").out == "bad.yaml is a valid scenario\n"
    done = simkit("run", "bad.yaml", "--output", "out")
    assert (done.code, done.err) == (0, "")


def test_validate_reads_the_files_of_each_run_of_a_sweep(simkit):
    path = scenario()
    Path("bad.yaml").write_text(
        Path("bad.yaml").read_text()
        + "sweep: {power.sources.wind.signal.unit: [kW, kWx], seed: [0, 1]}\n"
    )
    refused = simkit("validate", "bad.yaml")
    assert refused.code == 2
    assert refused.err.count("unit 'kWx' is unknown") == 1, path


def test_run_shows_notes_and_warnings_of_signals(simkit):
    Path("price.csv").write_text(
        "time,Price [EUR/kWh],de_mwh\n"
        + "".join(f"2020-01-0{1 + n // 24} {n % 24:02d}:00,0.3,40\n" for n in range(96))
    )
    keys = {"type": "price", "path": "price.csv", "column": "de_mwh", "unit": "price/MWh"}
    priced = "{" + ", ".join(f"{key}: {value}" for key, value in (keys | {"zone": "UTC"}).items())
    scenario(grid="{price_per_kwh: " + priced + "}}")
    done = simkit("run", "bad.yaml", "--output", "out")
    assert done.code == 0
    assert "warning: " in done.err
    assert "column 'de_mwh' names MWh, but unit 'price/MWh' is declared" in done.err
    named = "{type: price, path: price.csv, column: 'Price [EUR/kWh]', zone: UTC}"
    scenario(grid="{price_per_kwh: " + named + "}")
    done = simkit("run", "bad.yaml", "--output", "out", "--force")
    assert (done.code, done.err) == (0, "")
    assert "grid.price_per_kwh: unit EUR/kWh, from the name of column" in done.out


def test_all_that_is_wrong_with_the_files_is_told_at_once(simkit):
    scenario(
        machines="{idle_w: 10, per_resource: {gpu: 300}}",
        sources="{a: {signal: " + csv(unit="kw") + "}, b: {signal: " + csv(path="gap.csv") + "}}",
        controller="{type: source-order, reserv: 0.2}",
    )
    lines = simkit("run", "bad.yaml", "--output", "out").err.splitlines()
    assert all(re.match(r"bad\.yaml:\d+: ", line) for line in lines)
    assert [line.split(": ")[1] for line in lines] == [
        "power.machines", "power.sources.a", "power.sources.b", "power.controller",
    ]  # fmt: skip
