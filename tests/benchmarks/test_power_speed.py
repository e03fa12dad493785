"""What power costs, next to the same run without it; the figures are in docs/benchmarks.md.

    pytest tests/benchmarks/test_power_speed.py -m slow -s

A year of 1,000 machines and 200,000 jobs, with power data every five minutes, a battery and a grid
with an hourly price. And SDSC-SP2 with signals by the hour and by the minute that limit nothing,
and with a limit and a forecast; what is measured there is all of `simkit run` but reading and
writing files. Asserted are ratios alone, since machines differ and are noisy.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from energy_meter import imbalance

import simkit
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.experiment import carry_out, prepare
from simkit.gym.episodes import Nowhere
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy.ordered import OrderedPolicy
from simkit.power.facts import BatteryFacts, Supply
from simkit.power.forecast import Persistence
from simkit.power.machine_model import PowerModel
from simkit.power.signal import CARBON, PRICE, Steps
from simkit.power.site import Foresight, Grid, Site, Source
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

MACHINES, PROCESSORS, JOBS = 1000, 32, 200_000
YEAR_S = 365 * 86_400.0
LOAD = 0.7
LEAST_SPEED = 0.6
"""Of the speed without power."""


def year_of_jobs() -> Workload:
    """Return gangs of 1 to 1,024 processors, with log-normal run times, at a load of 70 %."""
    rng = np.random.default_rng(0)
    run = rng.lognormal(8.5, 1.2, JOBS).clip(60, 5 * 86_400)
    size = rng.choice([1, 4, 16, 32, 64, 128, 256, 1024], JOBS)
    run *= LOAD * MACHINES * PROCESSORS * YEAR_S / (run * size).sum()
    return Workload.from_jobs({
        "job_id": np.arange(JOBS),
        "submit_time_s": np.sort(rng.uniform(0, YEAR_S, JOBS)),
        "run_time_s": run,
        "requested_time_s": 2 * run,
        "processors": size,
    })  # fmt: skip


def site() -> Site:
    """Return sun every five minutes, a battery, and a grid with an hourly price."""
    rng = np.random.default_rng(1)
    steps = np.arange(round(YEAR_S / 300))
    watts = 240e3 * np.sin(steps * 2 * np.pi / 288).clip(0) * rng.uniform(0.3, 1, len(steps))
    sun = Steps(steps * 300.0, watts, YEAR_S, past_end="wrap")
    prices = rng.uniform(0.02, 0.3, 8760)
    price = Steps(np.arange(8760) * 3600.0, prices, YEAR_S, unit=PRICE, past_end="wrap")
    return Site(
        (PowerModel.linear(100.0, 250.0, "processors"),) * MACHINES,
        (Source("sun", sun),),
        grid=Grid(math.inf, 0.0, price, 0.0, 400.0),
        battery=BatteryFacts(
            capacity_kwh=1000.0,
            charge_c_rate=0.5,
            discharge_c_rate=0.5,
            charge_efficiency=0.95,
            discharge_efficiency=0.95,
        ),
    )


def replay(workload: Workload, power: Site | None) -> tuple[float, Simulation]:
    """Return the CPU time in s that a replay took, and the simulation."""
    names = tuple(f"m{row}" for row in range(MACHINES))
    cluster = Cluster(("processors",), names, np.full((MACHINES, 1), float(PROCESSORS)))
    simulation = Simulation(
        workload, cluster, Recorder(workload, cluster.resources, Nowhere()), site=power
    )
    begin = time.process_time()
    simulation.run(OrderedPolicy(FCFS(), Easy()))
    return time.process_time() - begin, simulation


@pytest.mark.slow
def test_power_leaves_six_tenths_of_the_speed() -> None:
    workload = year_of_jobs()
    without = min(replay(workload, None)[0] for _ in range(2))
    seconds, simulation = replay(workload, site())
    assert simulation.power is not None
    totals = simulation.power.energy.ledger.totals()
    print(
        f"\nwithout power {without:.1f} s, with power {seconds:.1f} s: "
        f"{without / seconds:.2f} of the speed; {simulation.decisions_made:,} decisions, "
        f"{totals['load_j'] / 3.6e9:,.0f} MWh, imbalance {imbalance(totals):.1e}"
    )
    assert imbalance(totals) <= 1e-12
    assert without / seconds >= LEAST_SPEED


# ---- one log on one pool -------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("SIMKIT_DATA", ROOT.parent / "shared" / "data"))
SPAN_S = 800 * 86_400.0
POOL = PowerModel.linear(128 * 100.0, 128 * 250.0, "processors")
MOST = {"hourly": 1.5, "one-minute": 3.5, "limit and forecast": 10.5}
"""Times the CPU of the run without power, with some room for noise."""


def signal(every_s: float, low: float, high: float, seed: int, unit: str = "W") -> Steps:
    """Return random numbers, a new one every so often."""
    steps = round(SPAN_S / every_s)
    values = np.random.default_rng(seed).uniform(low, high, steps)
    return Steps(np.arange(steps) * every_s, values, SPAN_S, unit=unit, past_end="wrap")


def sunshine(every_s: float) -> Steps:
    """Return up to 30 kW by day, as much as the pool draws when it is busy."""
    times = np.arange(round(SPAN_S / every_s)) * every_s
    clouds = np.random.default_rng(2).uniform(0.3, 1.0, len(times))
    watts = 30e3 * np.sin(times * 2 * np.pi / 86_400).clip(0) * clouds
    return Steps(times, watts, SPAN_S, past_end="wrap")


def unlimited(every_s: float) -> Site:
    """Return sun, price and carbon intensity that change every so often."""
    price = signal(every_s, 0.02, 0.3, 1, PRICE)
    grid = Grid(math.inf, 0.0, price, 0.0, signal(every_s, 100.0, 600.0, 3, CARBON))
    return Site((POOL,), (Source("sun", sunshine(every_s)),), grid)


def limited() -> Site:
    """Return sun and a weak grid that carry part of the pool, with a forecast."""
    sun = sunshine(3600.0)
    return Site(
        (POOL,), (Source("sun", sun),), Grid(24e3, 0.0, 0.1, 0.0, 400.0), supply=Supply(limit="power"),
        foresight=Foresight(48 * 3600.0, 3600.0, Persistence(sun, 86_400.0)),
    )  # fmt: skip


@pytest.mark.slow
def test_what_signals_cost_on_one_log(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (DATA / "swf").is_dir():
        pytest.skip(f"{DATA} is absent; set SIMKIT_DATA to the folder that holds swf/")
    monkeypatch.setenv("SIMKIT_DATA", str(DATA))
    log = ROOT / "scenarios" / "sdsc-sp2.yaml"
    # The engine that has power: the site is put in afterwards.
    experiment = prepare(simkit.load_scenario(log, overrides={"engine": "simpy"}))

    def cpu_s(power: Site | None) -> float:
        """Return the CPU time of a run in memory: simulation, bills and metrics."""
        begin = time.process_time()
        carry_out(replace(experiment, site=power))
        return time.process_time() - begin

    without = min(cpu_s(None) for _ in range(3))
    sites = {"hourly": unlimited(3600.0), "one-minute": unlimited(60.0),
             "limit and forecast": limited()}  # fmt: skip
    ratios = {name: min(cpu_s(power) for _ in range(2)) / without for name, power in sites.items()}
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    print(f"\nwithout power {without:.2f} s of CPU; times as much: {shown}")
    assert all(ratios[name] <= most for name, most in MOST.items())
