"""The scenario's power section: short forms, defaults, and every rule with its place and remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simkit.errors import ScenarioError
from simkit.power.facts import BatteryFacts
from simkit.scenario import Scenario, json_schema, scenario_hash
from simkit.scenario.bundled import scenario_path
from simkit.scenario.power import Power
from simkit.scenario.signals import SIGNALS
from simkit.scenario.yaml_document import load_scenario, scenario_to_yaml

LUBLIN = {"type": "lublin", "jobs": 100, "processors": 64}
MACHINES = {"idle_w": 100, "full_w": 250}
GREEN = ("green-quickstart", "green-texas", "green-carbon")


def power(**keys) -> Power:
    return scenario(**keys).power


def scenario(**keys) -> Scenario:
    section = {"machines": MACHINES, "grid": {}} | keys
    return load_scenario({"workload": LUBLIN, "power": section})


def problems(**keys) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        scenario(**keys)
    return [line.removeprefix("power.") for line in caught.value.problems]


def source(signal, **keys):
    return {"sources": {"roof": {"signal": signal} | keys}}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file with a name; what is in it is read only when the site is built."""
    monkeypatch.chdir(tmp_path)
    Path("site.csv").touch()
    return "site.csv"


FILES = [
    {"type": "csv", "column": "kw", "unit": "kW", "zone": "America/Chicago", "label": "end",
     "sampling": "instant", "step": "5m", "gaps": {"rule": "hold", "longest": "1h"}},
    {"type": "gleamm", "part": "wind", "zone": "UTC-6", "gaps": "interpolate"},
    {"type": "nsrdb", "rated_w": 100e3, "tilt_deg": 30},
    {"type": "wind-toolkit", "rated_w": 2e6, "cut_in_m_s": 4, "turbines": 3, "past_end": "wrap"},
    {"type": "wind-toolkit", "turbine": "E-53/800"},
    {"type": "generation", "source": "wind", "negative": "zero"},
    {"type": "carbon"},
    {"type": "price", "column": "price", "zone": "UTC"},
]  # fmt: skip
OTHERS = [
    1500,
    {"type": "schedule", "day": {"7:00": 3, "22:30": 1, "9h": 2}},
    {"type": "schedule", "week": {"weekdays": {"0:00": 1}, "weekend": {"0:00": 2}}},
    {"type": "sum", "signals": [1, {"type": "scaled", "signal": {"type": "levels", "high_w": 2,
                                                                 "low_w": 1}, "factor": 0.5}]},
    {"type": "plugin", "reader": "my.module:read", "args": {"year": 2020}},
]  # fmt: skip
CHOICES = {
    "schedule": {"day": {"7:00": 3}}, "wind-toolkit": {"rated_w": 2e6}, "epw-wind": {"rated_w": 1},
    "csv": {"column": "kw", "unit": "kW"}, "price": {"column": "price"},
}  # fmt: skip
"""Kind of signal → what its rules ask for besides the keys without a default."""


def least_of(kind):
    """Return an entry of a kind of signal with the keys that have no default."""
    schema = SIGNALS.classes()[kind].model_json_schema()
    values = {"number": 1, "array": [1], "string": "site.csv"}
    entry = {}
    for key in set(schema["required"]) - {"type"}:
        of_key = schema["properties"][key]
        named = of_key.get("enum") or ["my.module:read"] if key == "reader" else of_key.get("enum")
        entry[key] = named[0] if named else values[of_key.get("type", "number")]
    return {"type": kind} | entry | CHOICES.get(kind, {})


@pytest.mark.parametrize("signal", [*FILES, *OTHERS, *SIGNALS.names()], ids=str)
def test_every_kind_of_signal_reads_back_as_its_json_and_as_its_yaml(signal, file):
    if signal in FILES:
        signal = signal | {"path": file}
    elif isinstance(signal, str):
        signal = least_of(signal)
    first = scenario(**source(signal))
    again = Scenario.model_validate(json.loads(json.dumps(first.model_dump(mode="json"))))
    assert again == first
    assert scenario_hash(again) == scenario_hash(first)
    Path("shown.yaml").write_text(scenario_to_yaml(first))
    assert load_scenario("shown.yaml") == first


@pytest.mark.parametrize(
    ("short", "long"),
    [
        # a number is a constant signal
        ({"critical_w": 5e3}, {"critical_w": {"type": "constant", "value": 5000}}),
        # YAML's keys are text; times of day are seconds
        (
            source({"type": "schedule", "day": {"7:00": 1, "8h": 2}}),
            source({"type": "schedule", "day": {"25200": 1, "28800.0": 2}}),
        ),
        (source({"type": "gleamm-sample", "gaps": "hold"}),
         source({"type": "gleamm-sample", "gaps": {"rule": "hold", "longest": "3h"}})),
        ({"align": "epoch"}, {"align": {"type": "epoch"}}),
        ({"align": {"offset": "10d"}}, {"align": {"type": "offset", "offset": 864_000}}),
        ({"pue": 1.3}, {"pue": {"ratio": 1.3}}),
        ({"controller": "source-order"}, {"controller": {"type": "source-order"}}),
        (
            {"controller": {"name": "source-order", "args": {"reserve": 0.2}}},
            {"controller": {"type": "source-order", "reserve": 0.2}},
        ),
    ],
)  # fmt: skip
def test_short_forms_equal_their_long_forms(short, long):
    assert scenario(**short) == scenario(**long)


def test_power_is_absent_by_default():
    assert load_scenario({"workload": LUBLIN}).power is None


def test_numbers_with_an_exponent_are_numbers(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        f"workload: {json.dumps(LUBLIN)}\n"
        "power: {machines: {idle_w: 1e2, full_w: 2.5e+2}, grid: {import_limit_w: 120e3}}\n"
    )
    grid = load_scenario(path).power.grid
    assert grid.import_limit_w.value == 120_000


BATTERY = {"capacity_kwh": 100}
LEVELS = {"type": "levels", "high_w": 2, "low_w": 1}
SAMPLE = {"type": "gleamm-sample"}


@pytest.mark.parametrize(("keys", "expected"), [
    # --- sources
    (source({"type": "solar"}), "sources.roof.signal.type"),
    (source(SAMPLE | {"zone": "UTC"}), "sources.roof.signal.zone"),
    (source(SAMPLE, peak_w=1, times_load=1), "sources.roof"),
    (source(5, peak_w=1), "sources.roof.peak_w"),
    (source(SAMPLE, times_load=-1), "sources.roof.times_load"),
    ({"sources": {"a b": {"signal": 1}, "c": 2}}, ["sources.a b", "sources.c"]),
    ({"sources": [1]}, "sources"),
    ({"grid": None}, "power"),
    # --- signals
    (source({"type": "sum", "signals": [1, LEVELS | {"low_w": 3}]}),
     "sources.roof.signal.signals.1.low_w"),
    (source({"type": "sum", "signals": []}), "sources.roof.signal.signals"),
    (source(LEVELS | {"high_share": 90}), "sources.roof.signal.high_share"),
    (source({"type": "schedule"}), "sources.roof.signal"),
    (source({"type": "schedule", "day": {"24:00": 1, "7:00": "x", "7h": 2, "420m": 3}}),
     [f"sources.roof.signal.day.{time}" for time in ("24:00", "7:00", "420m")]),
    (source({"type": "schedule", "week": {"monday": {"0:00": 1}}}), "sources.roof.signal.week"),
    (source(SAMPLE | {"gaps": "fill"}), "sources.roof.signal.gaps"),
    (source({"type": "csv", "path": "none.csv", "column": "a", "unit": "kW", "zone": "Mars"}),
     ["sources.roof.signal.zone", "sources.roof.signal.path"]),
    # --- grid and critical load
    ({"grid": {"import_limit_w": -1, "carbon_gco2_per_kwh": -2, "price_per_kwh": -3}},
     ["grid.import_limit_w", "grid.carbon_gco2_per_kwh"]),
    ({"critical_w": -5}, "critical_w"),
    # --- battery
    ({"battery": {"capacity_kwh": -5}}, "battery.capacity_kwh"),
    ({"battery": BATTERY | {"floor": 0.9, "ceiling": 0.2, "initial_soc": 0.1}}, "battery.floor"),
    ({"battery": BATTERY | {"ceiling": 0.4, "initial_soc": 0.5}}, "battery.initial_soc"),
    ({"battery": BATTERY | {"charge_slope_h": 0.1}}, "battery.charge_slope_h"),
    ({"battery": BATTERY | {"model": "clc"}}, "battery.model"),
    # --- the dissertation's battery makes power out of nothing
    ({"battery": BATTERY | {"model": "rare"}}, "battery.model"),
    # --- controller
    ({"controller": "source-ordr"}, "controller"),
    # --- machines
    ({"machines": {"idle_w": 100, "full_w": 50}}, "machines.full_w"),
    ({"machines": {"table": [100, 90]}}, "machines.table"),
    ({"machines": {"table": [5]}}, "machines.table"),
    ({"machines": {"idle_w": 1, "per_resource": {"gpu": -1}}}, "machines.per_resource.gpu"),
    ({"machines": {"groups": {"big": {"idle_w": 5, "full_w": 1}, "rest": {"idle_w": 5}}}},
     ["machines.groups.big.full_w", "machines.groups.rest.full_w"]),
    # --- PUE
    ({"pue": 0.9}, "pue"),
    ({"pue": {"by_load": {"0": 1.5, "1": 0.9}, "temperature": 20}}, ["pue.by_load", "pue"]),
    ({"pue": {"by_load": {"0": 10000.0}, "temperature": 20,
     "added_by_temperature": {"20": 2000000000.0}}}, ["pue.by_load", "pue.added_by_temperature"]),
    ({"pue": 2 ** 31}, "pue"),
    ({"pue": {"by_load": {"low": 1.5}}}, "pue.by_load.low"),
    # --- supply
    ({"supply": {"running": "checkpoint"}}, "supply"),
    ({"supply": {"checkpoints": {"every": "1h"}, "peak_w": 5}}, ["supply.checkpoints",
     "supply.peak_w"]),
    # --- forecast
    ({"forecast": {"type": "perfect", "horizon": "1h", "step": "2h"}}, "forecast.step"),
    ({"forecast": {"type": "perfect", "period": "1d"}}, "forecast.period"),
    ({"forecast": {"type": "given"}}, "forecast.signal"),
    # --- align
    ({"align": "year"}, "align"),
    ({"align": {"type": "epoch", "offset": "1d", "zero": "5d"}}, ["align.offset", "align.zero"]),
])  # fmt: skip
def test_a_broken_rule_is_told_with_its_place(keys, expected):
    places = {line.partition(": ")[0] for line in problems(**keys)}
    assert places == ({expected} if isinstance(expected, str) else set(expected))


@pytest.mark.parametrize(
    ("window", "start"),
    [
        ({}, 0.5),
        ({"ceiling": 0.4}, 0.4),  # as much as may be in it
        ({"floor": 0.6}, 0.6),  # as little
        ({"floor": 0.1, "ceiling": 0.9}, 0.5),
        ({"floor": 0.6, "initial_soc": 0.2}, 0.2),  # as it is said
    ],
)
def test_a_battery_starts_half_full_or_as_near_to_it_as_its_window_lets(window, start):
    section = power(battery=BATTERY | window).battery
    assert section.initial_soc == section.model_dump()["initial_soc"] == start
    assert BatteryFacts(
        capacity_kwh=1.0 / 3.6e6, floor=section.floor, ceiling=section.ceiling, initial_soc=start
    )


def test_arguments_without_a_type_are_the_default_controllers():
    section = power(controller={"reserve": 0.2}).controller
    assert (section.type, section.args) == ("source-order", {"reserve": 0.2})
    assert section.model_dump() == {"type": "source-order", "reserve": 0.2}


def test_a_windows_own_mistakes_are_told_alone():
    for window, said in (
        ({"ceiling": 1.4}, "battery.ceiling"),
        ({"floor": "low"}, "battery.floor"),
    ):
        (found,) = problems(battery=BATTERY | window)
        assert found.startswith(said)


def test_the_date_of_the_runs_zero_is_kept_as_it_is_written():
    align = power(align={"zero": "2019-04-01T00:00:00-06:00"}).align
    assert align.model_dump(mode="json")["zero"] == "2019-04-01T00:00:00-06:00"
    assert power(align=align.model_dump(mode="json")).align == align
    assert power(align={"zero": " 2019-04-01T06:00:00Z "}).align.zero == align.zero  # one instant


def test_problems_are_told_with_their_lines(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        f"workload: {json.dumps(LUBLIN)}\n"
        "power:\n"
        "  machines: {idle_w: 1, full_w: 2}\n"
        "  sources:\n"
        "    roof:\n"
        "      signal: {type: gleamm-sample, part: sun}\n"
        "    farm:\n"
        "      signal: 1\n"
        "      peak_W: 3\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert caught.value.problems == (
        f"{path}:6: power.sources.roof.signal.part: unknown value 'sun'; known: both, solar, wind",
        f"{path}:9: power.sources.farm.peak_W: unknown key; did you mean 'peak_w'?",
    )


def test_a_value_inside_a_source_can_be_laid_over():
    base = {"workload": LUBLIN, "power": {"machines": MACHINES} | source(SAMPLE, times_load=1)}
    key = "power.sources.roof.times_load"
    assert load_scenario(base, overrides={key: 0.5}).power.sources["roof"].times_load == 0.5
    with pytest.raises(ScenarioError, match=f"^override: {key}: must be more than 0, not -1$"):
        load_scenario(base, overrides={key: -1})


def test_the_schema_takes_a_number_for_a_signal():
    kinds = json_schema()["$defs"]["Power"]["properties"]["critical_w"]["anyOf"]
    assert {"type": "number"} in kinds


@pytest.mark.parametrize("name", GREEN)
def test_ready_scenarios_are_valid(name, tmp_path, monkeypatch):
    text = scenario_path(name).read_text(encoding="utf-8")
    for word in text.split('"'):
        if word.startswith("${SIMKIT_DATA}/"):
            place = tmp_path / word.removeprefix("${SIMKIT_DATA}/")
            place.parent.mkdir(exist_ok=True)
            place.touch()
    monkeypatch.setenv("SIMKIT_DATA", str(tmp_path))
    assert load_scenario(scenario_path(name)).power is not None
