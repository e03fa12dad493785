"""The setup of the power-modulated comparison: logs, power, pool, admission, policies.

It follows V. Venkataswamy, "Scheduling to Ensure Performance and Cost Effectiveness in
Power-Modulated Datacenters" (dissertation, University of Virginia, 2023), chapters 5 and 6. Where
the text is incomplete, the page states the choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gleamm_exceedance import dallas, illinois

from simkit.arrays import stream
from simkit.policies.easy import Easy
from simkit.policies.orderings import FCFS, SJF, HighestValue, LeastSlack, QoS, Random, ValueDensity
from simkit.policies.ready_pool import ReadyPoolPolicy
from simkit.policy import Place, Policy, State, SystemInfo
from simkit.policy.ordered import OrderedPolicy
from simkit.power.facts import BatteryFacts, Supply
from simkit.power.forecast import PerfectForecast, step_means
from simkit.power.machine_model import PowerModel
from simkit.power.signal import Constant, Signal, Steps, Sum
from simkit.power.signal_align import Alignment, aligned
from simkit.power.signal_patterns import Levels
from simkit.power.site import Foresight, Site, Source
from simkit.scenario.value import Gpus, Value
from simkit.traces.models import RareModel
from simkit.traces.power import SitePower
from simkit.traces.swf import read_swf
from simkit.units import HOUR_S
from simkit.workload import Workload
from simkit.workload.cluster import Cluster
from simkit.workload.transform import (
    cap_processors,
    cap_run_times,
    resample,
    scale_processors,
    scale_to_load,
    window,
)

Floats = npt.NDArray[np.float64]

RATES = (20, 40, 60, 80, 100, 120)
"""Offered loads in % of the whole pool."""
HORIZON_S = 48 * HOUR_S
LONGEST_S = 30 * HOUR_S
READY, WAITING = 5, 144
"""Jobs that the policy sees, and jobs that wait behind them."""
FULL_W, IDLE_W = 400e3, 200e3
"""What the pool draws busy and empty; the dissertation's load is 400 kW."""
TIMES_LOAD = 0.9
"""Mean power of sun and wind over `FULL_W`: what the generated year of GLEAMM's plants has."""
BATTERY = BatteryFacts(capacity_kwh=1000.0, charge_c_rate=0.1, discharge_c_rate=0.1)
"""The dissertation's "1 MW capacity, discharge rate of 100, charge rate of 100": 1 MWh, 100 kW."""
WORTH = Value(gpu=Gpus(share=0.45))
"""60 % of the jobs with a QoS of 0.6 to 1, the others 0.1 to 0.6; 0.5 a unit and hour."""


@dataclass(frozen=True)
class Log:
    """A log, and how its requests become units of the pool."""

    title: str
    file: str
    processors_a_unit: int
    """Of the log's machine: the least that its jobs are given."""


LOGS: Mapping[str, Log] = {
    "sdsc-sp2": Log("SDSC-SP2", "SDSC-SP2-1998-4.2-cln.swf.gz", 1),
    "sdsc-blue": Log("SDSC-BLUE", "SDSC-BLUE-2000-4.2-cln.swf.gz", 8),
    "hpc2n": Log("HPC2N", "HPC2N-2002-2.2-cln.swf.gz", 1),
    "intrepid": Log("ANL Intrepid, 3,000 jobs", "ANL-Intrepid-2009-sample3000.txt", 512),
    "synthetic": Log("synthetic", "", 1),
}


class OneActionAnHour(ReadyPoolPolicy):
    """A ready-pool policy that gives a slot to at most one task an hour.

    The dissertation's algorithm 2 (line 15) advances simulated time by one step with every action
    that schedules a job. Its steps are those of its power data, one hour.
    """

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._next_action_s = -np.inf

    def _fill(self, state: State) -> Iterator[Place]:
        if state.now < self._next_action_s:
            return
        place = next(super()._fill(state), None)
        if place is not None:
            yield place
            self._next_action_s = (state.now // HOUR_S + 1) * HOUR_S

    def _note_next(self, state: State) -> None:
        super()._note_next(state)
        if state.queue and self._next_action_s > state.now:
            self._next_s = min(self._next_s, self._next_action_s)


ORDERS: Mapping[str, Callable[[], Any]] = {
    "QoS": QoS, "SJF": SJF, "FCFS": FCFS, "HVF": HighestValue, "Random": Random,
}  # fmt: skip
"""The dissertation's heuristics, which differ in their order alone."""


def _with_each_order(
    ending: str, kind: type[ReadyPoolPolicy], **arguments: Any
) -> dict[str, Callable[[], Policy]]:
    """Return a policy for each order, by the order's name with an ending."""
    return {
        f"{name}{ending}": lambda order=order: kind(order(), **arguments)
        for name, order in ORDERS.items()
    }


POLICIES: Mapping[str, Callable[[], Policy]] = {
    **_with_each_order("", ReadyPoolPolicy),
    "value density": lambda: ReadyPoolPolicy(ValueDensity()),
    "least slack": lambda: ReadyPoolPolicy(LeastSlack()),
    "FCFS + EASY": lambda: OrderedPolicy(FCFS(), Easy()),
}
COMMON = _with_each_order(", common victims", ReadyPoolPolicy, victims=FCFS())
"""They all stop the latest submission first when power falls."""
STEPWISE = _with_each_order(", algorithm 2", OneActionAnHour, victims=FCFS())
"""They stop the same tasks, and time advances with each action."""
ALL_POLICIES: Mapping[str, Callable[[], Policy]] = {**POLICIES, **COMMON, **STEPWISE}
PLACES: Mapping[str, Callable[[Path], SitePower]] = {"illinois": illinois, "dallas": dallas}
LEVELS: Mapping[str, float] = {"100%": 1.0, "90%": 0.9, "80%": 0.8}
"""Power availability of the dissertation's figure 5.4; for the synthetic workload."""


# ---- jobs ----------------------------------------------------------------------------------------


@lru_cache
def log_of(name: str, folder: Path) -> Workload:
    """Return a log's jobs with requests of at most half of a pool of 10 and at most 30 h."""
    log = LOGS[name]
    path = folder / "swf" / log.file
    jobs = _intrepid(path) if path.suffix == ".txt" else read_swf(path).workload
    if log.processors_a_unit > 1:
        jobs = scale_processors(jobs, 1 / log.processors_a_unit)
    return cap_run_times(jobs, LONGEST_S)


def workload(name: str, rate: float, seed: int, jobs: int | None, units: int, folder: Path
             ) -> Workload:  # fmt: skip
    """Return the jobs of one cell.

    Args:
        name: of the log.
        rate: offered load of the processors, of the whole pool.
        seed: another seed resamples the log's users (its days where it tells no users), takes
            another window, and draws other GPUs and qualities of service.
        jobs: how many; None: the whole log as it is, without a resample.
        units: processors of the pool, and GPUs.
        folder: of the data.
    """
    if name == "synthetic":
        rng = stream(seed, "workload")
        model = RareModel.of(jobs=jobs or 10_000, units=units, offered_load=rate)
        drawn = model.generate(rng).workload
        dated = replace(drawn, epoch_s=_AT, time_zone="America/Chicago")
        return WORTH.model_copy(update={"gpu": None}).build(dated, seed)
    drawn = log_of(name, folder)
    if jobs is not None:
        drawn = _drawn(drawn, jobs, stream(seed, "resample"))
    drawn = scale_to_load(cap_processors(drawn, units // 2), rate, units)
    return WORTH.build(drawn, seed)


def _drawn(log: Workload, jobs: int, rng: np.random.Generator) -> Workload:
    """Return a window of a resampled log."""
    if (log.user == -1).all():
        return _of_days(log, rng)
    drawn = resample(log, None, rng)
    first = int(rng.integers(max(len(drawn) - jobs, 0) + 1))
    return window(drawn, jobs=(first, first + jobs - 1))


def _of_days(log: Workload, rng: np.random.Generator) -> Workload:
    """Return as many days as a log has, drawn from its days with replacement."""
    day = ((log.submit_time_s - log.submit_time_s[0]) // 86_400.0).astype(np.int64)
    days = rng.integers(day[-1] + 1, size=day[-1] + 1)
    rows = [np.flatnonzero(day == which) for which in days]
    shift = np.concatenate([np.full(len(r), new - old) for new, (old, r) in
                            enumerate(zip(days, rows, strict=True))])  # fmt: skip
    chosen = np.concatenate(rows)
    submit = log.submit_time_s[chosen] + 86_400.0 * shift
    return log.take(chosen, job_id=np.arange(1, len(chosen) + 1), submit_time_s=submit)


def _intrepid(path: Path) -> Workload:
    """Read the sample's table: name, submit, run time and nodes of each job."""
    number, submit, run, nodes = np.loadtxt(path, skiprows=1, usecols=range(4), unpack=True)
    columns = {
        "job_id": number.astype(np.int64),
        "submit_time_s": submit,
        "run_time_s": run,
        "processors": nodes.astype(np.int64),
        "requested_time_s": run,
    }
    return replace(Workload.from_jobs(columns), epoch_s=_AT, time_zone="America/Chicago")


_AT = datetime.fromisoformat("2009-01-05T00:00:00-06:00").timestamp()
"""The day on which the Intrepid log begins; the sample itself does not tell."""


# ---- power ---------------------------------------------------------------------------------------


@lru_cache
def _place(name: str, folder: Path) -> SitePower:
    return PLACES[name](folder / "power")


def power(name: str, jobs: Workload, seed: int, folder: Path) -> Signal:
    """Return the power of sun and wind on the run's clock, as hourly means; or that of a level.

    The weather of a month, day and hour is that of the place's year, whatever the log's year.
    """
    if (level := LEVELS.get(name)) is not None:
        if level == 1.0:
            return Constant(FULL_W)
        return Levels(FULL_W, level * FULL_W, high_share=1 - level, step_s=HOUR_S, seed=seed)
    at = Alignment("calendar", epoch_s=jobs.epoch_s, time_zone=jobs.time_zone)
    both = Sum([aligned(trace, at) for trace in _place(name, folder)])
    first = jobs.submit_time_s[0] // HOUR_S * HOUR_S
    hours = int((jobs.submit_time_s[-1] - first + 366 * 86_400.0) // HOUR_S)
    edges = first + HOUR_S * np.arange(hours + 1)
    means = step_means(both, edges)
    year = step_means(both, first + HOUR_S * np.arange(366 * 24 + 1)).mean()
    factor = TIMES_LOAD * FULL_W / year
    return Steps(edges[:-1], means * factor, float(edges[-1]), past_end="hold", name=name)


def site(name: str, battery: bool, jobs: Workload, seed: int, folder: Path) -> Site:
    """Return the energy side of a pool: share of the resources = share of `FULL_W`."""
    supply = power(name, jobs, seed, folder)
    half = (FULL_W - IDLE_W) / 2
    return Site(
        models=(PowerModel.per_resource(IDLE_W, {"processors": half, "gpu": half}),),
        sources=(Source("sun and wind", supply),),
        battery=BATTERY if battery else None,
        supply=Supply(limit="resources", running="suspend", hold=HOUR_S),
        foresight=Foresight(HORIZON_S, HOUR_S, PerfectForecast(supply)),
    )


def pool(units: int) -> Cluster:
    """Return a pool of so many processors and so many GPUs."""
    return Cluster.pool({"processors": float(units), "gpu": float(units)})
