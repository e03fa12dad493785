"""From the scenario's power section to a site: numbers, clocks, scaling, and refusals at once."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import ScenarioError
from simkit.power.controller import SourceOrder
from simkit.power.facts import BatteryFacts, Checkpoints, Supply
from simkit.power.forecast import GivenForecast, NoisyForecast, PerfectForecast, Persistence
from simkit.power.machine_model import PowerModel
from simkit.power.signal_patterns import Levels
from simkit.power.site import Site, Source
from simkit.scenario.yaml_document import load_scenario
from simkit.workload import Workload
from simkit.workload.cluster import Cluster
from simkit.workload.workload import Span

HOUR, DAY = 3600.0, 86_400.0
NEW_YEAR = 1_577_836_800.0
"""Unix time of 2020-01-01, UTC."""
POOL = Cluster.pool({"processors": 10.0})
MACHINES = {"idle_w": 100, "full_w": 200}


def jobs(epoch_s=NEW_YEAR, submit=(0.0, HOUR), run=(HOUR, HOUR), **facts) -> Workload:
    number = len(submit)
    return Workload(
        ("processors",),
        np.arange(number),
        np.array(submit),
        np.arange(number + 1),
        np.zeros(number, np.int64),
        np.ones(number, np.int64),
        np.ones((number, 1)),
        np.array(run),
        np.full(number, math.nan),
        np.ones(number, dtype=bool),
        epoch_s=epoch_s,
        **facts,
    )


def build(cluster=POOL, workload=None, seed=0, **keys) -> Site:
    power = {"machines": MACHINES, "grid": {}} | keys
    data = {"workload": {"type": "lublin", "jobs": 1, "processors": 1}, "power": power}
    section = load_scenario(data).power
    return section.build(cluster, jobs() if workload is None else workload, seed)


def problems(**keys) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as caught:
        build(**keys)
    return caught.value.problems


def source(signal, **keys):
    return {"sources": {"roof": {"signal": signal} | keys}}


@pytest.fixture
def csv(tmp_path, monkeypatch):
    """Return a function that writes a file of hourly kW from 2020-01-01, UTC, on."""
    monkeypatch.chdir(tmp_path)

    def write(*kilowatts, name="site.csv", skip=()):
        rows = [
            f"2020-01-{1 + hour // 24:02d} {hour % 24:02d}:00,{value}"
            for hour, value in enumerate(kilowatts)
            if hour not in skip
        ]
        Path(name).write_text("\n".join(["time,kw", *rows]) + "\n")
        return {"type": "csv", "path": name, "column": "kw", "unit": "kW", "zone": "UTC"}

    return write


EPOCH = {"align": "epoch"}

# --- the whole ---------------------------------------------------------------------------------


def test_everything_of_a_site_is_what_the_scenario_says(csv):
    site = build(
        **EPOCH,
        sources={
            "roof": {"signal": csv(1, 2, 3, 4), "price_per_kwh": 0.02, "carbon_gco2_per_kwh": 41},
            "lake": {"signal": 500},
        },
        grid={"import_limit_w": 5e5, "price_per_kwh": 0.1, "export_price_per_kwh": 0.05},
        battery={"capacity_kwh": 10, "charge_c_rate": 0.5, "floor": 0.1, "initial_soc": 0.2},
        controller={"type": "source-order", "first": "grid", "reserve": 0.3},
        pue=1.5,
        critical_w=50,
        supply={"limit": "power", "running": "checkpoint", "hold": "1m",
                "checkpoints": {"every": "1h", "restart": "2m"}},
    )  # fmt: skip
    roof, lake = site.sources
    assert (roof.name, roof.price_per_kwh, roof.carbon_gco2_per_kwh) == ("roof", 0.02, 41)
    assert roof.power.values([0, HOUR, 3 * HOUR]).tolist() == [1000, 2000, 4000]
    assert lake == Source("lake", lake.power)
    assert lake.power.value(1e9) == 500
    # constants of the grid are numbers, which are faster than signals
    assert site.grid.offer(0.0) == (5e5, 0.0, 0.1, 0.05, 0.0)
    assert site.grid.price_per_kwh == 0.1
    assert site.battery == BatteryFacts(
        capacity_kwh=10.0, charge_c_rate=0.5, floor=0.1, initial_soc=0.2
    )
    assert site.controller == SourceOrder(first="grid", reserve=0.3)
    assert (site.pue.pue(1.0, 0.0), site.critical_w) == (1.5, 50.0)
    assert site.supply == Supply(
        limit="power",
        peak_w=None,
        running="checkpoint",
        checkpoints=Checkpoints(every=3600, restart=120),
        hold=60,
    )
    assert site.foresight is None
    assert [path.name for path in site.inputs] == ["site.csv"]
    assert site.reports["power.sources.roof"].accepted == 4
    assert site.facts == {
        "align": "epoch", "epoch_s": NEW_YEAR, "machines.full_w": 2000.0,
        "load_w": 3050.0, "battery.model": "linear",
    }  # fmt: skip


# --- clocks ------------------------------------------------------------------------------------


def test_a_file_lies_on_the_runs_clock():
    sample = {"type": "gleamm-sample", "part": "wind"}
    # the run's zero is 8 a.m. on 5 March by the sample's clock, in another year
    zone = {"zero": "2030-03-05T08:00:00-06:00"}
    calendar = build(workload=jobs(math.nan), align=zone, **source(sample))
    offset = build(align={"offset": f"{63 * 24 + 8}h"}, **source(sample))
    times = np.arange(0, DAY, 600.0)
    assert (calendar.sources[0].power.values(times) == offset.sources[0].power.values(times)).all()


def test_the_date_of_the_runs_zero_is_the_logs_or_the_scenarios(csv):
    file = csv(1, 2, 3, 4, 5)
    early = jobs(NEW_YEAR + HOUR)
    assert build(workload=early, **EPOCH, **source(file)).sources[0].power.value(0.0) == 2000
    given_zero = {"align": {"type": "epoch", "zero": "2020-01-01T02:00:00Z"}}
    assert build(workload=early, **given_zero, **source(file)).sources[0].power.value(0.0) == 3000


def year_of_sun(path):
    """Write a year of hourly kW in UTC, of a place in California: most at 20:00 UTC."""
    first = datetime(2019, 1, 1, tzinfo=UTC)
    hours = [first + timedelta(hours=hour) for hour in range(365 * 24)]
    rows = [f"{at:%Y-%m-%d %H:%M},{100 - abs((at.hour - 8) % 24 - 12)}" for at in hours]
    path.write_text("\n".join(["time,kw", *rows]) + "\n")
    return {"type": "csv", "path": str(path), "column": "kw", "unit": "kW", "zone": "UTC"}


def test_a_file_in_utc_must_say_where_its_sun_shines(tmp_path):
    file = year_of_sun(tmp_path / "sun.csv")
    west = jobs(time_zone="America/Los_Angeles")
    found = problems(workload=west, **source(file))
    assert found == (
        f"power.sources.roof: {tmp_path / 'sun.csv'}: kw: its times are in UTC and nothing says "
        "where its place is, but the run's zone is America/Los_Angeles; align calendar would take "
        "12:00 UTC for 12:00 in America/Los_Angeles: declare the zone of the place as site_zone "
        "(site_zone: UTC if that is meant), or align by epoch or offset",
    )
    # the run starts on 31 December at 16:00 in California; noon is in 20 h
    placed = build(workload=west, **source(file | {"site_zone": "America/Los_Angeles"}))
    assert placed.sources[0].power.value(20 * HOUR) == 100e3
    assert placed.facts["sources.roof.zone"] == "America/Los_Angeles"
    # that is what the file's clock is taken for without asking: the sun is highest at 20:00
    by_utc = build(workload=west, **source(file | {"site_zone": "UTC"}))
    assert by_utc.sources[0].power.value(4 * HOUR) == 100e3
    build(workload=west, align={"zone": "UTC"}, **source(file))
    build(workload=west, align={"offset": 0}, **source(file | {"past_end": "wrap"}))


def test_a_run_without_a_date_needs_one_for_files_and_schedules(csv):
    tariff = {"type": "schedule", "day": {"7:00": 0.3, "22:00": 0.1}}
    undated = jobs(math.nan)
    assert problems(workload=undated, grid={"price_per_kwh": tariff}, **source(csv(1, 2, 3))) == (
        "power.sources.roof: align calendar needs the date of the run's zero, which the workload "
        "does not have; add power.align: {zero: 2019-01-01T00:00:00+00:00}, or {offset: 0}",
        "power.grid.price_per_kwh: a schedule follows the local clock, but the date of the run's zero "
        "is unknown; add power.align: {zero: 2019-01-01T00:00:00+00:00}",
    )
    assert build(workload=undated, align={"offset": 0}, **source(csv(1, 2, 3))).sources


@pytest.mark.parametrize(
    ("keys", "time_zone", "seven"),
    [
        # the zero's distance from UTC
        ({"zero": "2020-01-01T00:00:00-06:00"}, None, 7),
        ({"zero": "2020-01-01T00:00:00+05:30"}, None, 7),
        ({"zero": "2020-01-01T00:00:00Z"}, None, 7),
        # what is said outright goes before it, and so does the log
        ({"zero": "2020-01-01T00:00:00-06:00", "zone": "UTC"}, "America/Chicago", 1),
        ({"zero": "2020-01-01T00:00:00-05:00"}, "America/Chicago", 8),
    ],
)
def test_a_schedule_goes_by_the_clock_in_which_the_runs_zero_is_written(keys, time_zone, seven):
    tariff = {"type": "schedule", "day": {"7:00": 0.3, "22:00": 0.1}}
    site = build(
        workload=jobs(time_zone=time_zone),
        align={"type": "epoch", **keys},
        grid={"price_per_kwh": tariff},
    )
    price = site.grid.price_per_kwh
    assert [price.value(seven * HOUR - 1), price.value(seven * HOUR)] == [0.1, 0.3]
    assert price.value((seven + 15) * HOUR) == 0.1


# --- how long a signal must last ---------------------------------------------------------------


def test_the_span_is_from_zero_to_the_earliest_end_of_the_last_job():
    assert Span.of(jobs(submit=(10.0, 20.0), run=(100.0, 5.0))) == (0.0, 110.0)
    assert Span.of(jobs(submit=(-7.0,), run=(1.0,))) == (-7.0, -6.0)
    assert Span.of(jobs(submit=(), run=())) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("hours", "keys", "needed"),
    [
        (2, {}, None),  # the last job ends after two hours at the earliest
        (1, {}, 2 * HOUR),
        (1, {"past_end": "hold"}, None),
        (1, {"past_end": "wrap"}, None),
        # who foresees the truth looks further
        (4, {"forecast": {"type": "perfect", "horizon": "3h"}}, 5 * HOUR),
        (5, {"forecast": {"type": "perfect", "horizon": "3h"}}, None),
        (4, {"forecast": {"type": "noisy", "horizon": "3h"}}, 5 * HOUR),
        (2, {"forecast": {"type": "persistence", "horizon": "3h"}}, None),
    ],
)
def test_a_signal_must_last_as_long_as_the_jobs_and_the_forecast(csv, hours, keys, needed):
    past_end = {"past_end": keys["past_end"]} if "past_end" in keys else {}
    keys = {key: value for key, value in keys.items() if key == "forecast"}
    roof = source(csv(*range(1, hours + 1), name="roof.csv") | {"step": "1h"} | past_end)
    if needed is None:
        assert build(**EPOCH, **roof, **keys).sources[0].name == "roof"
        return
    who, shorter = "the jobs run", ""
    if keys:
        who, shorter = "the forecast looks", "a shorter horizon, "
    (line,) = problems(**EPOCH, **roof, **keys)
    assert line.startswith(
        f"power.sources.roof: covers 0 to {hours * HOUR:g} s of the run, but {who} from 0 to "
        f"{needed:g} s"
    )
    assert f"; give {shorter}a longer file, past_end: hold or wrap, or another align" in line


def test_a_given_forecast_must_reach_the_horizon_after_the_last_job(csv):
    def keys(hours):
        given_power = csv(*range(hours), name="day-ahead.csv")
        return {"forecast": {"type": "given", "horizon": "3h", "signal": given_power}}

    assert build(**EPOCH, **source(1), **keys(5)).foresight.horizon_s == 3 * HOUR
    (line,) = problems(**EPOCH, **source(1), **keys(4))
    assert line.startswith("power.forecast: covers 0 to 14400 s of the run, but the forecast")


# --- what a signal may be ----------------------------------------------------------------------


def test_power_below_zero_is_refused_or_taken_for_zero(csv):
    file = csv(1, -0.5, 2)
    (line,) = problems(**EPOCH, **source(file))
    assert "1 value below 0, the smallest is -500 W; power must be at least 0" in line
    repaired = build(**EPOCH, **source(file | {"negative": "zero"})).sources[0].power
    assert repaired.values([0, HOUR, 2 * HOUR]).tolist() == [1000, 0, 2000]
    # a price may be below 0
    tariff = {"type": "schedule", "day": {"0:00": -0.1}}
    assert build(grid={"price_per_kwh": tariff}).grid.price_per_kwh.value(0.0) == -0.1
    assert problems(grid={"carbon_gco2_per_kwh": tariff}) == (
        "power.grid.carbon_gco2_per_kwh: is -0.1 gCO2/kWh; carbon intensity must be at least "
        "0: give the amount without a sign",
    )


def test_sums_and_factors(csv):
    both = {"type": "sum", "signals": [csv(1, 2, 3), {"type": "scaled", "factor": 0.5,
                                                      "signal": csv(4, 2, 2, name="b.csv")}]}  # fmt: skip
    site = build(**EPOCH, **source(both))
    assert site.sources[0].power.values([0, HOUR, 2 * HOUR]).tolist() == [3000, 3000, 4000]
    assert list(site.reports) == [
        "power.sources.roof.signals.0", "power.sources.roof.signals.1.signal",
    ]  # fmt: skip


def test_a_reader_of_ones_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import numpy as np\nfrom simkit.power.signal_trace import PowerTrace\n"
        "def read(watts=7.0):\n"
        "    return PowerTrace(np.array([1577836800.0, 1577840400.0]), np.full(2, watts), 'W', "
        "'UTC')\n"
        "def wrong(): return 5\n"
    )
    signal = {"type": "plugin", "reader": f"{path}:read", "args": {"watts": 9.0}}
    assert build(**EPOCH, **source(signal)).sources[0].power.value(0.0) == 9
    (line,) = problems(**EPOCH, **source(signal | {"args": {"wats": 1}}))
    assert "takes no argument 'wats'; did you mean 'watts'?" in line
    (line,) = problems(**EPOCH, **source({"type": "plugin", "reader": f"{path}:wrong"}))
    assert (
        "returned a int; a reader of signals returns a simkit.power.signal_trace.PowerTrace" in line
    )


# --- scaling -----------------------------------------------------------------------------------


def test_a_source_has_the_peak_that_is_asked_for(csv):
    site = build(**EPOCH, **source(csv(1, 4, 2), peak_w=120e3))
    assert site.sources[0].power.value(HOUR) == 120_000
    assert site.facts["sources.roof.factor"] == 30


@pytest.mark.parametrize(
    ("keys", "load_w"),
    [
        ({}, 2000),  # ten processors of 200 W
        ({"pue": 1.5, "critical_w": 500}, 3500),
        # the mean over the two hours of the jobs
        ({"critical_w": {"type": "schedule", "day": {"0:00": 0, "1:00": 100}}}, 2050),
        # PUE at full load; warmer in the second hour
        ({"pue": {"by_load": {"0": 3, "1": 1.2}, "added_by_temperature": {"20": 0, "30": 0.2},
                  "temperature": {"type": "schedule", "day": {"0:00": 20, "1:00": 30}}}}, 2600),
    ],
)  # fmt: skip
def test_times_load_is_of_all_machines_busy_with_pue_and_critical_load(csv, keys, load_w):
    site = build(**EPOCH, **source(csv(1, 2, 3), times_load=0.5), **keys)
    assert site.facts["load_w"] == pytest.approx(load_w, rel=1e-12)
    assert site.sources[0].power.mean(0.0, 3 * HOUR) == pytest.approx(load_w / 2)
    assert site.facts["sources.roof.factor"] == pytest.approx(load_w / 2 / 2000)


# --- levels ------------------------------------------------------------------------------------


def test_levels_are_high_as_often_as_asked_and_depend_on_seed_and_place():
    levels = {"type": "levels", "high_w": 100, "low_w": 60, "high_share": 0.9, "step": "1h"}
    both = {"sources": {"a": {"signal": levels}, "b": {"signal": levels}}}
    a, b = (part.power for part in build(**both).sources)
    hours = HOUR * np.arange(10_000)
    assert set(np.unique(a.values(hours))) == {60, 100}
    # within five standard deviations of the mean of independent draws
    assert abs((a.values(hours) == 100).mean() - 0.9) < 5 * math.sqrt(0.09 / 10_000)
    assert (a.values(hours) != b.values(hours)).any()
    again, _ = (part.power for part in build(**both).sources)
    assert (a.values(hours) == again.values(hours)).all()
    other, _ = (part.power for part in build(**both, seed=1).sources)
    assert (a.values(hours) != other.values(hours)).any()


@given(st.lists(st.floats(-1e8, 1e8), min_size=1, max_size=20), st.floats(1.0, 1e5))
def test_a_level_depends_on_its_step_alone(times, step):
    def fresh():
        return Levels(2.0, 1.0, high_share=0.5, step_s=step, seed=[3, 4])

    signal = fresh()
    together = signal.values(times)
    assert together.tolist() == [fresh().value(time) for time in times]
    for time in times:
        change = signal.next_change(time)
        assert change > time
        assert signal.value(math.nextafter(change, -math.inf)) == signal.value(time)


# --- machines ----------------------------------------------------------------------------------

MIXED = Cluster(
    ("cpu", "gpu"),
    ("big-0", "big-1", "small"),
    np.array([[64.0, 4.0], [64.0, 4.0], [8.0, 0.0]]),
)


def test_a_pool_draws_the_power_of_all_its_processors():
    facts = {"off_w": 5, "boot": "2m", "boot_w": 150, "shutdown": 30}
    (model,) = build(machines=MACHINES | facts).models
    expected = PowerModel.linear(
        1000.0, 2000.0, "processors", off_w=50.0, boot=120.0, boot_w=1500.0, shutdown=30.0
    )
    assert model == expected
    assert build(machines=MACHINES).models[0].boot_power_w == 1000


def test_machines_draw_by_cpu_or_what_is_named_each_for_itself():
    models = build(cluster=MIXED, machines=MACHINES).models
    assert models == (PowerModel.linear(100.0, 200.0, "cpu"),) * 3
    table = {"table": [50, 80, 90]}
    assert build(cluster=MIXED, machines=table).models == (PowerModel.table([50, 80, 90]),) * 3


def test_a_machine_without_a_resource_draws_nothing_by_it():
    by_resource = {"idle_w": 100, "per_resource": {"cpu": 150, "gpu": 300}}
    models = build(cluster=MIXED, machines=by_resource).models
    assert [model.full_w for model in models] == [550, 550, 250]
    assert models[0] is models[1]
    assert models[2].resources == ("cpu",)


def test_groups_and_the_rest():
    groups = {"big": {"idle_w": 10, "per_resource": {"gpu": 90}}, "default": MACHINES}
    models = build(cluster=MIXED, machines={"groups": groups}).models
    assert [model.full_w for model in models] == [100, 100, 200]
    one = {"big-1": {"idle_w": 1, "full_w": 2}, "default": MACHINES}
    models = build(cluster=MIXED, machines={"groups": one}).models
    assert [model.full_w for model in models] == [200, 2, 200]


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        (MACHINES | {"resource": "processors"},
         ["power.machines: draws power for 'processors', which no machine has; known: cpu, gpu"]),
        ({"idle_w": 1, "per_resource": {"gpus": 3, "cpu": 1}},
         ["power.machines: draws power for 'gpus', which no machine has; did you mean 'gpu'?"]),
        # machines that have none of it, though others do
        ({"groups": {"small": MACHINES | {"resource": "gpu"}, "default": MACHINES}},
         ["power.machines.groups.small: draws power for 'gpu', which these machines lack; "
          "they have cpu"]),
        # names that do not exist, and machines that are in no group
        ({"groups": {"bigg": MACHINES, "default": MACHINES}},
         ["power.machines.groups.bigg: there is no such group of machines; did you mean 'big'?"]),
        ({"groups": {"big": MACHINES}},
         ["power.machines.groups: no group has machine 'small'; add a group default"]),
    ],
)  # fmt: skip
def test_machines_that_do_not_fit_the_cluster_are_refused(machines, expected):
    assert list(problems(cluster=MIXED, machines=machines)) == expected


def test_machines_with_several_unusual_resources_must_be_told_which_counts():
    odd = Cluster(("tape", "disk"), ("m",), np.ones((1, 2)))
    assert problems(cluster=odd) == (
        "power.machines: resource: the machines have tape, disk; name the one whose use "
        "draws power",
    )


# --- controller --------------------------------------------------------------------------------


def test_a_controller_of_ones_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from simkit.power.controller import SetPoints, SourceOrder\n"
        "class Mine(SourceOrder):\n    pass\n"
        "class Nothing:\n    pass\n"
    )
    site = build(controller={"type": f"{path}:Mine", "reserve": 0.5})
    assert (type(site.controller).__name__, site.controller.reserve) == ("Mine", 0.5)
    (line,) = problems(controller=f"{path}:Nothing")
    assert line.startswith("power.controller: ")
    assert "has no levels or no settle(state)" in line
    (line,) = problems(controller={"type": "source-order", "reserve": 2})
    assert line.startswith("power.controller.reserve: ")


# --- forecasts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forecast", "kinds"),
    [
        ({"type": "perfect"}, (PerfectForecast,) * 3),
        ({"type": "persistence"}, (Persistence,) * 3),
        ({"type": "noisy"}, (NoisyForecast,) * 3),
        # an error in W is of power alone
        ({"type": "noisy", "kind": "absolute", "spread": 50},
         (NoisyForecast, PerfectForecast, PerfectForecast)),
        ({"type": "given", "signal": 5, "price": 0.3}, (GivenForecast, GivenForecast, type(None))),
    ],
)  # fmt: skip
def test_generation_price_and_carbon_are_foreseen(forecast, kinds):
    foresight = build(forecast=forecast, **source(7)).foresight
    found = (foresight.generation, foresight.price, foresight.carbon)
    assert tuple(type(part) for part in found) == kinds
    assert (foresight.horizon_s, foresight.step_s) == (2 * DAY, HOUR)
    without = build(forecast=forecast, grid=None, **source(7)).foresight
    assert (without.price, without.carbon) == (None, None)


def test_the_sum_of_all_sources_is_foreseen(csv):
    sources = {"a": {"signal": csv(1, 2, 3, 4)}, "b": {"signal": 500}}
    site = build(**EPOCH, sources=sources, forecast={"type": "perfect", "horizon": "2h"})
    assert site.foresight.generation.predict(0.0, 2 * HOUR, HOUR).tolist() == [1500, 2500]
    given_power = {"type": "given", "signal": 5, "horizon": "2h"}
    site = build(**EPOCH, sources=sources, forecast=given_power)
    assert site.foresight.generation.predict(0.0, 2 * HOUR, HOUR).tolist() == [5, 5]
    dark = build(forecast={"type": "perfect"})
    assert dark.foresight.generation.predict(0.0, HOUR, HOUR).tolist() == [0]


def test_errors_of_a_noisy_forecast_come_from_the_seed():
    def predicted(seed):
        site = build(**source(100), forecast={"type": "noisy"}, seed=seed)
        return site.foresight.generation.predict(0.0, DAY, HOUR).tolist()

    assert predicted(0) == predicted(0) != predicted(1)


# --- ready scenarios ---------------------------------------------------------------------------


def test_without_a_grid_nothing_is_imported():
    site = build(grid=None, **source(5))
    assert site.grid.offer(0.0).import_limit_w == 0
    assert build().grid.offer(0.0).import_limit_w == math.inf
