"""What power costs: a year of 1,000 machines and 200,000 jobs, with and without it, in one run.

    pytest tests/benchmarks/test_power_speed.py -m slow -s

The same jobs under the same policy, once without power and once with power data every five
minutes, a battery, a grid with an hourly price, and the ledger; the figures are recorded in
docs/benchmarks.md. Asserted is the ratio alone, since machines differ and are noisy.
"""

from __future__ import annotations

import math
import time

import numpy as np
import polars as pl
import pytest
from energy_meter import imbalance

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS
from simkit.policy.ordered import OrderedPolicy
from simkit.power.battery import BatteryFacts
from simkit.power.grid import Grid
from simkit.power.machine_model import PowerModel
from simkit.power.signal import PRICE
from simkit.power.signal_steps import Steps
from simkit.power.site import Site, Source
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

MACHINES, PROCESSORS, JOBS = 1000, 32, 200_000
YEAR_S = 365 * 86_400.0
LOAD = 0.7
LEAST_SPEED = 0.6
"""Of the speed without power."""


class NoSink:
    """Takes the tables and forgets them: the records are made, not written."""

    def write(self, table: str, rows: pl.DataFrame) -> None:
        pass


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
        battery=BatteryFacts(1e6 * 3600, 0.5, 0.5, 0.95, 0.95),
    )


def replay(workload: Workload, power: Site | None) -> tuple[float, Simulation]:
    """Return the seconds that a replay took, and the simulation."""
    names = tuple(f"m{row}" for row in range(MACHINES))
    cluster = Cluster(("processors",), names, np.full((MACHINES, 1), float(PROCESSORS)))
    simulation = Simulation(
        workload, cluster, Recorder(workload, cluster.resources, NoSink()), site=power
    )
    begin = time.perf_counter()
    simulation.run(OrderedPolicy(FCFS(), Easy()))
    return time.perf_counter() - begin, simulation


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
