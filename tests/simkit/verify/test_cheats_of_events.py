"""Runs that had other estimates, failures, maintenance or decisions than they say are found.

Each cheat is consistent in itself: one scenario is run, and its results claim to be those of
another. Both honest runs are sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from run_records import Records, claimed, simulated

from simkit.verify import verify_run
from simkit.verify.audit import Audit

pytestmark = pytest.mark.sampled

Scenario = dict[str, Any]
COLUMNS = {"job_id": "job", "task_id": "task", "submit_time_s": "submit", "run_time_s": "run",
           "requested_time_s": "asked", "instances": "n", "cpu": "cpu"}  # fmt: skip


def swf(folder: Path) -> Scenario:
    """Write a log of 30 jobs; some ask for less time than they run."""
    lines = ["; UnixStartTime: 1000000\n", "; MaxProcs: 8\n"]
    for n in range(1, 31):
        run, size = 20 + n * 37 % 200, 1 + n * 5 % 7
        asked = run // 2 if n % 5 == 0 else run + n * 11 % 90
        lines.append(f"{n} {n * 23 // 2} -1 {run} {size} -1 -1 {size} {asked} -1 1 {n % 3} 1 1 "
                     "1 -1 -1 -1\n")  # fmt: skip
    (folder / "log.swf").write_text("".join(lines))
    return {"type": "swf", "path": str(folder / "log.swf"), "requested_time": "raw"}


def jobs(folder: Path) -> Scenario:
    """Write a table of jobs whose ids are words, several of them at each instant."""
    lines = ["job_id,submit_time_s,run_time_s,processors,requested_time_s,user\n"]
    for n in range(30):
        lines.append(f"job {n * 7 % 30},{n // 3 * 30},{20 + n * 37 % 200},{1 + n * 5 % 7},"
                     f"{40 + n * 31 % 300},u{n % 3}\n")  # fmt: skip
    (folder / "jobs.csv").write_text("".join(lines))
    return {"type": "jobs", "path": str(folder / "jobs.csv")}


def tasks(folder: Path, **keys: Any) -> Scenario:
    """Write a table of jobs of two tasks, some at one instant, in no order of their ids."""
    instance = keys.get("rows") == "instance"
    lines = [",".join(COLUMNS.values()) + "\n"]
    for n in range(40):
        job = n // 2 * 7 % 20
        task = 0 if instance else n % 2
        lines.append(f"{job},{task},{n // 6 * 40},{20 + n * 29 % 90},{30 + n * 7 % 150},"
                     f"{1 + n % 3},{1 + n % 2}\n")  # fmt: skip
    (folder / "tasks.csv").write_text("".join(lines))
    columns = {k: v for k, v in COLUMNS.items() if not (instance and k == "instances")}
    return {"type": "tasks", "path": str(folder / "tasks.csv"), "columns": columns} | keys


MODEL = {"type": "lublin", "jobs": 30, "processors": 8, "offered_load": 0.9, "users": 3,
         "estimates": "modal"}  # fmt: skip
POOL = {"cluster": {"processors": 8}, "policy": {"order": "fcfs", "backfill": "easy"}}
MACHINES = [{"name": "a", "count": 2, "processors": 7}, {"name": "b", "count": 1, "processors": 7}]
CLOUD = [{"name": "a", "count": 2, "cpu": 4}, {"name": "b", "count": 2, "cpu": 4}]
SORTED = {"order": "sjf", "backfill": "easy"}


def cheat(folder: Path, did: Scenario, says: Scenario) -> Audit:
    """Return the audit of a cheat; the honest run of what it says is sound."""
    records = claimed(did, says, folder)
    assert verify_run(folder / "says", inputs=[folder]).found == {}
    return records.audit(folder / "cheat")


# ---- estimates ----------------------------------------------------------------------------------


def perturbed(factor: float = 5.0, **keys: Any) -> Scenario:
    return {"type": "perturbed", "factor": factor} | keys


ESTIMATES: dict[str, tuple[Callable[[Path], Scenario], Any, Any]] = {
    # jobs, the estimates that were used and those that are claimed
    "another factor": (swf, perturbed(1.0), perturbed(5.0)),
    "a factor within the bounds": (swf, perturbed(4.99), perturbed(5.0)),
    "the truth, within the bounds": (swf, "actual", perturbed(0.5)),
    "the requests": (jobs, "requested", perturbed(5.0)),
    "jobs with words as ids": (jobs, perturbed(2.0), perturbed(3.0)),
    "a model's jobs": (lambda _: MODEL, perturbed(1.0), perturbed()),
    "a part of the jobs": (lambda f: swf(f) | {"window": {"jobs": "3..20"}}, perturbed(1.0),
                           perturbed()),
    "a denser log": (lambda f: swf(f) | {"load": 1.4}, perturbed(1.0), perturbed()),
    "a resample": (lambda f: swf(f) | {"resample": {"weeks": 1}}, perturbed(1.0), perturbed()),
    "corrected ones": (swf, perturbed(0.0, correction="tsafrir"),
                       perturbed(0.3, correction="tsafrir")),
    "jobs of several tasks": (tasks, perturbed(1.0), perturbed()),
    "gangs of several tasks": (lambda f: tasks(f, gang=True), perturbed(1.0), perturbed()),
    "the truth of several tasks": (tasks, "actual", "requested"),
    "requests of several tasks": (tasks, "requested", "actual"),
    "instances with times of their own": (lambda f: tasks(f, rows="instance"), perturbed(1.0),
                                          perturbed()),
}  # fmt: skip


@pytest.mark.parametrize("name", ESTIMATES)
def test_other_estimates_than_those_claimed_are_found(name: str, tmp_path: Path) -> None:
    make, used, told = ESTIMATES[name]
    workload = make(tmp_path)
    cloud = workload["type"] == "tasks"
    base = {"cluster": {"machines": CLOUD}, "policy": {"fitness": "best-fit"}} if cloud else POOL
    did, says = (base | {"workload": workload, "estimates": e, "seed": 3} for e in (used, told))
    assert "estimates" in cheat(tmp_path, did, says).found


def test_estimates_of_another_seed_are_found(tmp_path: Path) -> None:
    base = POOL | {"workload": swf(tmp_path), "estimates": "perturbed"}
    assert "estimates" in cheat(tmp_path, base | {"seed": 4}, base | {"seed": 3}).found


def test_estimates_that_are_not_drawn_again_are_not_audited(tmp_path: Path) -> None:
    """Several tasks of a table that may not be read: nobody knows in which order they came."""
    base = {"workload": tasks(tmp_path), "cluster": {"machines": CLOUD}, "estimates": "perturbed",
            "policy": {"fitness": "best-fit"}}  # fmt: skip
    simulated(base, tmp_path / "run")
    audit = verify_run(tmp_path / "run")
    assert audit.found == {}
    assert "estimates" in audit.not_audited


# ---- failures -----------------------------------------------------------------------------------


def failing(**keys: Any) -> Scenario:
    return {"mtbf": 150, "mttr": 40, "running": "requeue"} | keys


FAILURES: dict[str, tuple[Any, Any]] = {
    # the failures that struck, those that are claimed
    "rarer": (failing(mtbf=900), failing()),
    "a little rarer": (failing(mtbf=151), failing()),
    "none": (None, failing()),
    "shorter repairs": (failing(mttr=4), failing()),
    "a little shorter repairs": (failing(mttr=39), failing()),
    "of another group": (failing(machines=["b"]), failing(machines=["a"])),
    "of one group alone": (failing(machines=["a"]), failing()),
    "drained": (failing(running="drain"), failing()),
    "suspended": (failing(running="suspend"), failing()),
    "started over": (failing(), failing(running="suspend")),
    "not drained": (failing(), failing(running="drain")),
    "suspended, not drained": (failing(running="suspend"), failing(running="drain")),
}


def test_failures_of_another_seed_are_found(tmp_path: Path) -> None:
    base = {"workload": swf(tmp_path), "policy": SORTED,
            "cluster": {"machines": MACHINES, "failures": failing()}}  # fmt: skip
    found = cheat(tmp_path, base | {"seed": 4}, base | {"seed": 3}).found
    assert {"machine-capacity", "outages"} <= set(found)


def named(cause: str, other: str) -> Callable[[Records], None]:
    """Return what gives another cause for changes of capacity."""

    def change(run: Records) -> None:
        detail = pl.col("detail").str.replace(f'"{cause}"', f'"{other}"', literal=True)
        run.tables["events"] = run.tables["events"].with_columns(detail)

    return change


def otherwise(run: Records) -> None:
    """Say that work which was lost was kept."""
    rows = run.tables["allocations"]
    outcome = pl.when(pl.col("outcome") == "lost").then(pl.lit("suspended")).otherwise("outcome")
    run.tables["allocations"] = rows.with_columns(outcome=outcome)


@pytest.mark.parametrize(
    "change",
    [named("failure", "maintenance"), named("failure", "softerror"), named("requeue", "drain"),
     named("requeue", "suspend"), otherwise],
)  # fmt: skip
def test_other_causes_and_outcomes_are_found(
    change: Callable[[Records], None], tmp_path: Path
) -> None:
    scenario = {"workload": swf(tmp_path), "policy": SORTED, "seed": 3,
                "cluster": {"machines": MACHINES, "failures": failing()}}  # fmt: skip
    run = simulated(scenario, tmp_path / "run")
    change(run)
    assert "outages" in run.audit(tmp_path / "cheat").found


# ---- maintenance --------------------------------------------------------------------------------


def window(**keys: Any) -> Scenario:
    return {"start": 120, "duration": 90, "running": "drain"} | keys


MAINTENANCE: dict[str, tuple[Any, Any]] = {
    # the windows that were kept, those that are claimed
    "left out": ([], [window()]),
    "later": ([window(start=130)], [window()]),
    "shorter": ([window(duration=80)], [window()]),
    "once": ([window()], [window(every=200)]),
    "in another rhythm": ([window(every=210)], [window(every=200)]),
    "started over": ([window(running="requeue")], [window(running="suspend")]),
    "suspended": ([window(running="suspend")], [window(running="requeue")]),
    "drained": ([window()], [window(running="requeue")]),
    "not drained": ([window(running="suspend")], [window()]),
    "one of two": ([window()], [window(), window(start=300)]),
    "one of two treated otherwise": (
        [window(running="suspend"), window(start=300, running="suspend")],
        [window(running="suspend"), window(start=300, running="requeue")],
    ),
}


PARTS: dict[str, tuple[Scenario, Scenario, Scenario]] = {
    # cluster, the window that was kept, the one that is claimed
    "fewer processors": ({"processors": 8}, window(processors=3), window(processors=4)),
    "more processors": ({"processors": 8}, window(processors=5, running="requeue"),
                        window(processors=4, running="requeue")),
    "another group": ({"machines": MACHINES}, window(machines=["b"]), window(machines=["a"])),
    "one group of all": ({"machines": MACHINES}, window(machines=["a"]), window()),
}  # fmt: skip


POOLS = {"partitions": [{"name": "p", "processors": 8}, {"name": "q", "processors": 8}]}
REPEATED = window(start=100, duration=60, machines=["a"], running="suspend", every=200)


def outages() -> Iterator[Any]:
    """Yield the jobs, the cluster, what happened to it, what is claimed, and rules that find it."""
    machines, cloud = {"machines": MACHINES}, {"machines": CLOUD}
    for name, (did, says) in FAILURES.items():
        for make, cluster in ((swf, machines), (tasks, cloud)):
            kept, claim = ({"failures": failures} for failures in (did, says))
            yield pytest.param(make, cluster, kept, claim, set(), id=f"failures {name}")
    for name, (did, says) in MAINTENANCE.items():
        for cluster in ({"processors": 8}, machines):
            kept, claim = ({"maintenance": windows} for windows in (did, says))
            yield pytest.param(swf, cluster, kept, claim, set(), id=f"maintenance {name}")
    for name, (cluster, did, says) in PARTS.items():
        kept, claim = ({"maintenance": [one]} for one in (did, says))
        yield pytest.param(swf, cluster, kept, claim, {"machine-capacity"}, id=name)
    kept, claim = (
        {"maintenance": [REPEATED], "failures": f} for f in (failing(mttr=20), failing())
    )
    yield pytest.param(swf, machines, kept, claim, {"machine-capacity"}, id="both")
    both = {"machine-capacity", "outages"}  # pools of partitions are machines
    kept, claim = ({"failures": failing(machines=[pool])} for pool in "pq")
    yield pytest.param(swf, POOLS, kept, claim, both, id="failures of a pool")
    kept, claim = (
        {"maintenance": [window(machines=[pool], running="requeue")]} for pool in "pq"
    )  # fmt: skip
    yield pytest.param(swf, POOLS, kept, claim, both, id="maintenance of a pool")


@pytest.mark.parametrize(("make", "cluster", "kept", "claim", "rules"), list(outages()))
def test_other_outages_than_those_claimed_are_found(
    make: Callable[[Path], Scenario], cluster: Scenario, kept: Scenario, claim: Scenario,
    rules: set[str], tmp_path: Path,
) -> None:  # fmt: skip
    policy = SORTED if make is swf else {"fitness": "best-fit"}
    base = {"workload": make(tmp_path), "policy": policy, "seed": 3}
    runs = (base | {"cluster": cluster | happened} for happened in (kept, claim))
    found = set(cheat(tmp_path, *runs).found)
    assert rules <= found
    assert found & {"machine-capacity", "outages", "failures"}


def test_an_older_job_of_a_pool_does_not_stop_first(tmp_path: Path) -> None:
    """The youngest stop as part of a pool goes, and none whose place is not needed."""
    lines = ["job_id,submit_time_s,run_time_s,processors,requested_time_s\n", "1,0,300,4,50\n",
             "2,10,300,4,50\n"]  # fmt: skip
    (tmp_path / "jobs.csv").write_text("".join(lines))
    scenario = {
        "workload": {"type": "jobs", "path": str(tmp_path / "jobs.csv")}, "policy": SORTED,
        "cluster": {"processors": 8,
                    "maintenance": [window(processors=4, running="suspend")]},
    }  # fmt: skip
    run = simulated(scenario, tmp_path / "run")
    rows = run.tables["allocations"]
    stopped = rows.filter(outcome="suspended")["job_id"].to_list()
    assert stopped == [2]
    exchanged = pl.col("job_id").replace({1: 2, 2: 1})
    begins = pl.col("start_time_s").replace({0.0: 10.0, 10.0: 0.0})
    run.tables["allocations"] = rows.with_columns(exchanged, begins)
    assert "outages" in run.audit(tmp_path / "cheat").found


# ---- processes ----------------------------------------------------------------------------------

PROCESS = """
def strike(view, at=150.0, down=80.0, running="requeue"):
    yield view.timeout(at)
    view.take_away([0], running=running, cause="heat")
    yield view.timeout(down)
    view.give_back(cause="heat")
"""


def striking(folder: Path, **args: Any) -> Scenario:
    (folder / "strikes.py").write_text(PROCESS)
    return {"workload": swf(folder), "policy": SORTED, "cluster": {"machines": MACHINES},
            "processes": [{"path": f"{folder / 'strikes.py'}:strike", "args": args}]}  # fmt: skip


@pytest.mark.parametrize("args", [{"at": 1e5}, {"at": 160.0}, {"down": 8.0}])
def test_what_a_process_does_is_never_said_to_hold(args: Scenario, tmp_path: Path) -> None:
    audit = cheat(tmp_path, striking(tmp_path, **args), striking(tmp_path))
    assert "machine-capacity" in audit.not_audited


@pytest.mark.parametrize("change", [otherwise, named("requeue", "drain")])
def test_what_a_process_stops_stops_as_it_says(
    change: Callable[[Records], None], tmp_path: Path
) -> None:
    run = simulated(striking(tmp_path), tmp_path / "run")
    assert "lost" in run.tables["allocations"]["outcome"]
    change(run)
    assert "outages" in run.audit(tmp_path / "cheat").found


# ---- the scheduler's clock ----------------------------------------------------------------------

OWN = """
from simkit.policy import Place


class Mine:
    "First come, first served, as far as it fits."

    def reset(self, info, rng):
        pass

    def schedule(self, state):
        for task in state.queue:
            on = state.fit(task)
            if on is not None:
                yield Place(task, on)
"""


def of_the_clock(folder: Path) -> dict[str, Scenario]:
    """Return scenarios without a clock."""
    (folder / "own.py").write_text(OWN)
    log, table = swf(folder), tasks(folder)
    machines, cloud = {"machines": MACHINES}, {"machines": CLOUD}
    return {
        "pool": {"workload": log, "cluster": {"processors": 8}, "policy": SORTED},
        "machines": {"workload": log, "cluster": machines, "policy": SORTED},
        "conservative": {"workload": log, "cluster": machines,
                         "policy": {"backfill": "conservative"}},
        "multifactor": {"workload": log, "cluster": {"processors": 8},
                        "policy": {"order": "multifactor"}},
        "cloud": {"workload": table, "cluster": cloud, "policy": {"fitness": "tetris"}},
        "own policy": {"workload": log, "cluster": machines,
                       "policy": {"path": f"{folder / 'own.py'}:Mine"}},
        "slots": {"workload": log, "cluster": machines, "policy": SORTED,
                  "admission": {"slots": 4}},
        "failures": {"workload": table, "cluster": cloud | {"failures": failing(running="drain")},
                     "policy": {"fitness": "best-fit"}},
        "maintenance": {"workload": log, "policy": SORTED,
                        "cluster": machines | {"maintenance": [window(running="suspend")]}},
        "lookahead": {"workload": log, "cluster": {"processors": 8},
                      "policy": {"lookahead": [{"order": "fcfs"}, {"order": "sjf"}]}},
    }  # fmt: skip


@pytest.mark.parametrize("clock", [{"every": 45}, {"step": 45}], ids=["every", "step"])
@pytest.mark.parametrize(
    "kind",
    ["pool", "machines", "conservative", "multifactor", "cloud", "own policy", "slots", "failures",
     "maintenance", "lookahead"],
)  # fmt: skip
def test_starts_between_ticks_are_found(kind: str, clock: Scenario, tmp_path: Path) -> None:
    if kind == "lookahead":  # it plays ahead from change to change
        clock = {"every": 45}
    base = of_the_clock(tmp_path)[kind]
    assert "decision-times" in cheat(tmp_path, base, base | {"scheduling": clock}).found


@pytest.mark.parametrize(("did", "says"), [(30, 45), (15, 45), (46, 45), (1, 7)])
def test_another_period_is_found(did: float, says: float, tmp_path: Path) -> None:
    base = of_the_clock(tmp_path)["machines"]
    runs = (base | {"scheduling": {"every": period}} for period in (did, says))
    assert "decision-times" in cheat(tmp_path, *runs).found
