"""A kind of signal of another package: one class and one entry point make it first-class."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simkit import simulate
from simkit.cli import app
from simkit.errors import PolicyError, ScenarioError, TraceError
from simkit.power.facts import ENERGY_PRICE
from simkit.power.signal import Constant
from simkit.scenario import Scenario
from simkit.scenario.signals import SIGNALS, Align, SignalContext
from simkit.scenario.yaml_document import load_scenario
from simkit.verify import verify_run
from simkit.workload.workload import Span

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "howto" / "power-data.md").read_text("utf-8")
PAGE = PAGE.partition("## Add a kind of signal")[2]
TIDE = "".join(f"{1_577_836_800 + 3600 * hour},{hour % 2}\n" for hour in range(48))
FUNCTION = """
import numpy as np
from simkit.power.signal_trace import PowerTrace
def flat(*, watts):
    return PowerTrace(1577836800.0 + 3600.0 * np.arange(48), np.full(48, watts), "W", "UTC")
"""


def shown(language: str, number: int = 0) -> str:
    """Return a block of the how-to's section in a language, the first unless said otherwise."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the how-to's file, its entry point and a function, and stand next to a file."""
    (tmp_path / "tidal_power.py").write_text(shown("python") + FUNCTION)
    (tmp_path / "larger_of_two.py").write_text(shown("python", 1))
    (tmp_path / "canteen.py").write_text(shown("python", 2))
    points = tomllib.loads(shown("toml"))["project"]["entry-points"]
    assert points == {"simkit.signals": {"tidal": "tidal_power:TidalSignal"}}
    info = tmp_path / "tidal_power-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: tidal-power\nVersion: 1.0\n")
    names = "tidal = tidal_power:TidalSignal\nflat = tidal_power:flat\n"
    names += "larger = larger_of_two:LargerSignal\ncanteen = canteen:CanteenSignal\n"
    (info / "entry_points.txt").write_text(f"[simkit.signals]\n{names}")
    (tmp_path / "tide.csv").write_text(TIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("tidal_power", "larger_of_two", "canteen"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.chdir(tmp_path)


def scenario(**signal: object) -> dict[str, object]:
    return {
        "workload": {"type": "lublin", "jobs": 5, "processors": 4},
        "power": {
            "machines": {"idle_w": 10, "full_w": 20},
            "sources": {"tide": {"signal": {"past_end": "wrap"} | signal}},
            "align": {"offset": 0},
            "grid": {},
        },
    }


def test_a_scenario_runs_and_reads_back():
    keys = scenario(type="tidal", path="tide.csv", w_per_m=50)
    run = simulate(keys)
    assert run.power["generation_w"].max() == 25.0
    loaded = load_scenario(keys)
    assert Scenario.model_validate(json.loads(loaded.model_dump_json())) == loaded


def larger(*parts: object) -> dict[str, object]:
    keys, (first, second) = scenario(), parts
    signal = {"type": "larger", "first": first, "second": second}
    keys["power"]["sources"]["tide"]["signal"] = signal
    return keys


def test_a_kind_may_hold_other_signals():
    tide = {"type": "tidal", "path": "tide.csv", "w_per_m": 50, "past_end": "wrap"}
    power = simulate(larger(10, {"type": "scaled", "signal": tide, "factor": 2})).power
    assert set(power["generation_w"]) == {50.0}  # the tide is as far from its mean in every hour
    low = {"type": "sum", "signals": [10, larger(1, 2)["power"]["sources"]["tide"]["signal"]]}
    assert set(simulate(larger(3, low)).power["generation_w"]) == {12.0}


VALUE = "max(part.value(time_s) for part in self.parts)"
CHANGE = "min(part.next_change(time_s) for part in self.parts)"
BUILD = 'return Larger(context.part(self.first, "first"), context.part(self.second, "second"))'
CONSTANT = "from simkit.power.signal import Constant; return Constant({})"
BROKEN = {
    # what stands in the how-to's file, and in its place → what the message names
    "value raises": (VALUE, "{}['x']", "larger_of_two.py:.*KeyError: 'x'"),
    "value exits": (VALUE, "exit(0)", "larger_of_two.py:.*SystemExit"),
    "value is text": (VALUE, "'high'", "'high'"),
    "value is digits": (VALUE, "'7'", "'7'"),
    "value is not a number": (VALUE, "float('nan')", "nan"),
    "value is infinite": (VALUE, "float('inf')", "inf"),
    "value is below 0": (VALUE, "-1.0", "-1 W"),
    "change raises": (CHANGE, "{}['x']", "larger_of_two.py:.*KeyError: 'x'"),
    "change stays": (CHANGE, "time_s", "next_change"),
    "change goes back": (CHANGE, "time_s - 1", "next_change"),
    "change is text": (CHANGE, "'7'", "'7'"),
    "change is not a number": (CHANGE, "float('nan')", "nan"),
    "build raises": (BUILD, "return {}['x']", "larger_of_two.py:.*KeyError: 'x'"),
    "build gives nothing": (BUILD, "pass", "NoneType"),
    "build gives a negative signal": (BUILD, CONSTANT.format(-1.0), "-1 W"),
    "no unit": ("super().__init__(one.unit, *both)", "pass", "Larger"),
}  # fmt: skip


def replace_in(file: str, old: str, new: str) -> None:
    """Replace a piece of the code of a file."""
    text = Path(file).read_text()
    assert old in text
    Path(file).write_text(text.replace(old, new))


def break_code(old: str, new: str) -> None:
    """Replace a piece of the code of `larger`."""
    replace_in("larger_of_two.py", old, new)


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_kind_whose_code_is_broken_is_refused_before_the_run(mistake):
    old, new, named = BROKEN[mistake]
    break_code(old, new)
    with pytest.raises(ScenarioError, match=rf"^power\.sources\.tide: .*{named}"):
        simulate(larger(1, 2))


BLAMED = r"^power\.sources\.tide: Larger"
LATE = [
    ("time_s + 1e4", "1.0 if time_s < 1e4 else {}['x']", PolicyError,
     r"larger_of_two.py:\d+: the signal Larger failed at"),
    ("time_s + 1e4", "1.0 if time_s < 1e4 else '7'", TraceError, BLAMED + r".value\(.* is '7'"),
    ("time_s + 1e4", "1.0 if time_s < 1e4 else -1", TraceError, BLAMED + r".value\(.* is -1 W"),
    ("time_s + 1e4 if time_s < 1e4 else '7'", "1.0", TraceError, BLAMED + ".next_change.* '7'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "value", "error", "named"), LATE)
def test_a_kind_that_fails_late_is_blamed(change, value, error, named):
    """The jobs last longer than is known beforehand, since they wait."""
    break_code(VALUE, value)
    break_code(CHANGE, change)
    with pytest.raises(error, match=named):
        simulate(waiting())


def waiting() -> dict[str, object]:
    """Return a scenario of two jobs; the second waits for the first."""
    keys = larger(1, 2)
    keys["workload"] = {"type": "swf", "path": "log.swf"}
    row = "{} 0 -1 9000 1 -1 -1 1 9000 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    Path("log.swf").write_text("; MaxProcs: 1\n" + row.format(1) + row.format(2))
    return keys


def test_a_signal_of_simkits_own_class_is_refused_when_it_falls_below_0_late():
    steps = "from simkit.power.signal import Steps; return Steps([0, 1e4], [1, -5], 1e5)"
    break_code(BUILD, steps)
    with pytest.raises(TraceError, match=r"^power\.sources\.tide: Steps.value\(10000\) is -5 W"):
        simulate(waiting())


def test_a_signal_of_simkits_own_class_that_may_be_negative_is_asked_directly():
    break_code(BUILD, CONSTANT.format(-3.0))
    context = SignalContext(Align(), 0.0, None, 0, Span(0.0, 9e3))
    section = SIGNALS.find("larger").of(first=1, second=2)
    made = context.make(section, "power.grid.price_per_kwh", ENERGY_PRICE)
    assert isinstance(made, Constant)


def recurring(**power: object) -> dict[str, object]:
    keys = scenario()
    keys["power"] |= {"sources": {"tide": {"signal": {"type": "canteen", "cooking_w": 2000}}}}
    keys["power"] |= power
    return keys


PATTERN = "Pattern({10 * 3600.0: self.cooking_w, 14 * 3600.0: 0.0}, DAY_S, local=True)"
DATED = {"align": {"zero": "2024-07-05T11:00:00+00:00", "zone": "UTC-06:00"}}


@pytest.mark.parametrize(
    ("pattern", "watts"),
    [
        (PATTERN, [0.0, 2000.0]),  # 5:00 at the site
        (PATTERN.replace("local", "zone='UTC', local"), [2000.0, 0.0]),
        ("Pattern({0.0: 7.0, 86400.0: 9.0}, 7 * DAY_S)", [7.0, 9.0]),  # though it is a Friday
    ],
)
def test_a_pattern_is_laid_on_its_clock_and_verified(pattern, watts):
    replace_in("canteen.py", PATTERN, pattern)
    Path("jobs.csv").write_text("job_id,submit_time_s,run_time_s,processors\n1,0,90000,1\n")
    keys = recurring(**DATED) | {
        "workload": {"type": "jobs", "path": "jobs.csv"}, "cluster": {"processors": 1},
    }  # fmt: skip
    run = simulate(keys, output="run")
    assert list(dict.fromkeys(run.power["generation_w"]))[:2] == watts
    audit = verify_run("run")
    assert audit.ok, audit.checks
    assert not next(check.skipped for check in audit.checks if check.name == "generation")


PATTERNS = {
    "Pattern({}, 60.0)": "empty",
    "Pattern({0.0: 1.0, 5.0: float('nan')}, 60.0)": "5.0 s is nan",
    "Pattern({0.0: 1.0}, 0.0)": "period",
    "Pattern({99.0: 1.0}, 60.0)": "99.0",
    "Pattern({0.0: -1.0}, 60.0)": "-1 W",
    "Pattern({0.0: 1.0}, 60.0, local=True, zone='Mars')": "Mars",
    "{0.0: 1.0}": "dict",
    "Pattern([1.0], 60.0)": "canteen.py:.*TypeError",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_wrong_pattern_is_refused_before_the_run_with_all_else(pattern):
    replace_in("canteen.py", PATTERN, pattern)
    grid = {"carbon_gco2_per_kwh": {"type": "canteen", "cooking_w": 1}}
    with pytest.raises(ScenarioError) as caught:
        simulate(recurring(grid=grid, **DATED))
    places = rf"power\.sources\.tide: .*{PATTERNS[pattern]}", r"power\.grid\.carbon"
    for place in places:
        assert any(re.match(place, line) for line in caught.value.problems), caught.value


def test_a_reader_of_a_kind_that_fails_is_blamed():
    text = Path("tidal_power.py").read_text()
    Path("tidal_power.py").write_text(text.replace("text = Path(self.path)", "text = {}['x']"))
    with pytest.raises(ScenarioError, match=r"^power\.sources\.tide: .*tidal_power.py:\d+: .*'x'"):
        simulate(scenario(type="tidal", path="tide.csv"))
    args = {"path": "tide.csv"}
    with pytest.raises(ScenarioError, match=r"^power\.sources\.tide: .*tidal_power.py:\d+: .*'x'"):
        simulate(scenario(type="plugin", reader="tidal", args=args))


def test_a_file_that_an_override_names_has_one_place():
    Path("bad.csv").write_text("0,abc\n")
    Path("s.yaml").write_text(json.dumps(scenario(type="tidal", path="tide.csv")))
    key = "power.sources.tide.signal.path"
    result = CliRunner().invoke(app, ("validate", "s.yaml", "--set", f"{key}=bad.csv"))
    assert isinstance(result.exception, ScenarioError)
    assert re.match(rf"override: {re.escape(key)}: \S*bad\.csv: ", str(result.exception))


def test_what_is_wrong_within_a_kind_that_holds_others_has_its_place():
    place = r"power\.sources\.tide\.signal"
    with pytest.raises(ScenarioError, match=rf"{place}\.second\.path: there is no file"):
        load_scenario(larger(1, {"type": "tidal", "path": "tides.csv"}))
    keys = larger(1, 2)
    keys["power"]["sources"]["tide"]["peak_w"] = 5
    with pytest.raises(ScenarioError, match=r"power\.sources\.tide\.peak_w: scales a recorded"):
        load_scenario(keys)
    with pytest.raises(ScenarioError, match=r"power\.sources\.tide: is -1 W"):
        simulate(larger(1, {"type": "schedule", "day": {"0:00": -1}}))


def test_a_function_of_the_group_is_a_custom_reader():
    simulate(scenario(type="plugin", reader="flat", args={"watts": 30.0}))
    with pytest.raises(ScenarioError, match=r"'flat' is a function, not a kind of signal; write "):
        load_scenario(scenario(type="flat", watts=30.0))


def test_a_kind_may_be_named_as_a_custom_reader():
    args = {"path": "tide.csv", "w_per_m": 50.0}
    simulate(scenario(type="plugin", reader="tidal", args=args))
    with pytest.raises(ScenarioError, match="w_per_n: unknown key; did you mean 'w_per_m'"):
        simulate(scenario(type="plugin", reader="tidal", args={"path": "tide.csv", "w_per_n": 1}))


@pytest.mark.parametrize("text", ["", "0,abc\n", "0\n"])
def test_a_bad_file_is_refused_with_its_name(text):
    Path("tide.csv").write_text(text)
    with pytest.raises((ScenarioError, TraceError), match=r"tide\.csv: "):
        simulate(scenario(type="tidal", path="tide.csv"))


def test_wrong_keys_are_all_named():
    with pytest.raises(ScenarioError) as caught:
        load_scenario(scenario(type="tidal", path="tides.csv", w_per_m=0, zone="UTC", w_per=1))
    place = "power.sources.tide.signal"
    assert sorted(caught.value.problems) == [
        f"{place}.path: there is no file {Path.cwd() / 'tides.csv'}; did you mean 'tide.csv'?",
        f"{place}.w_per: unknown key; did you mean 'w_per_m'?",
        f"{place}.w_per_m: must be more than 0, not 0",
        f"{place}.zone: does not go with tidal; it is a key of carbon, csv, generation, gleamm, "
        "price, schedule",
    ]
    with pytest.raises(ScenarioError, match="unknown value 'tidl'; did you mean 'tidal'"):
        load_scenario(scenario(type="tidl", path="tide.csv"))


def test_the_command_shows_it():
    words = ("trace", "power", "tidal", "tide.csv", "--set", "w_per_m=50", "--json")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["unit"], facts["values"], facts["max"]) == ("W", 48, 25.0)


def test_relative_paths_of_overrides_start_from_their_folder(tmp_path):
    from simkit.scenario.overrides import anchor_paths

    key = "power.sources.tide.signal.path"
    assert anchor_paths({key: "tide.csv"}, tmp_path) == {key: str(tmp_path / "tide.csv")}
    assert SIGNALS.find("tidal").of(path="tide.csv").read().step_s == 3600
