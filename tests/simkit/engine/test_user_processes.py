"""Processes of the user: the order of their events, what they take away, and what they do wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from engine_runs import greedy, rigid, simulate

import simkit
from simkit.agent.rewards import make_reward
from simkit.engine.outages import SimulationView
from simkit.errors import ProcessError, ScenarioError
from simkit.gym.episodes import Episode, Episodes
from simkit.verify import verify_run
from simkit.workload.cluster import Cluster, Failures


def machines(count: int = 2, processors: float = 4, **facts: Any) -> Cluster:
    names = tuple(f"m{row}" for row in range(count))
    return Cluster(("processors",), names, np.full((count, 1), processors), **facts)


def at(time_s: float, act: Callable[[SimulationView], None]) -> Callable[..., Iterator[Any]]:
    """Return a process that acts at a time."""

    def acting(view: SimulationView) -> Iterator[Any]:
        yield view.timeout(time_s - view.now)
        act(view)

    return acting


def capacities(run: Any) -> list[tuple[float, int, float, str]]:
    """Return (time, machine, processors, cause) of the capacity events."""
    rows = run.rows("events", "time_s kind machine_id detail")
    details = [(t, m, json.loads(detail)) for t, kind, m, detail in rows if kind == "capacity"]
    return [(t, m, detail["capacity"]["processors"], detail["cause"]) for t, m, detail in details]


class Outage:
    """Takes machine 0 away for a time."""

    def __init__(self, begin: float = 10.0, length: float = 20.0, running: str = "requeue"):
        self.begin, self.length, self.running = begin, length, running

    def run(self, view: SimulationView) -> Iterator[Any]:
        yield view.timeout(self.begin)
        view.take_away(0, running=self.running, cause="leak")
        yield view.timeout(self.length)
        view.give_back(cause="leak")


def test_a_machine_taken_away_stops_its_tasks_and_comes_back():
    load = rigid((0, 15, 4), (0, 100, 4), (1, 5, 4))
    run = simulate(greedy, load, machines(), processes=[Outage()])
    assert capacities(run) == [(10, 0, 0, "leak"), (30, 0, 4, "leak")]
    assert run.rows("events", "time_s kind job_id")[1] == (10, "lost", 0)
    # Job 0 starts over at 30 s, when the machine is back; job 2 follows it.
    assert run.rows("allocations", "job_id machine_id start_time_s end_time_s outcome") == [
        (0, 0, 0, 10, "lost"), (0, 0, 30, 45, "finished"), (2, 0, 45, 50, "finished"),
        (1, 1, 0, 100, "finished"),
    ]  # fmt: skip


def test_events_come_after_completions_and_before_arrivals():
    seen: list[tuple[float, int, int]] = []

    def look(view: SimulationView) -> None:
        seen.append((view.now, view.jobs_ended, view.queue_length))
        view.take_away([0])

    decided: list[tuple[float, int, float]] = []

    def schedule(state):
        decided.append((state.now, len(state.queue), float(state.capacity.sum())))
        for task in state.queue:
            if on := state.fit(task):
                yield simkit.Place(task, on)

    simulate(schedule, rigid((0, 10, 4), (10, 5, 4)), machines(), processes=[at(10.0, look)])
    assert seen == [(10, 1, 0)]  # job 0 has ended as its machine went; job 1 has not come
    assert decided[:2] == [(0, 1, 8), (10, 1, 4)]  # one decision sees all of it


def test_a_process_keeps_no_finished_run_alive():
    times = []

    def forever(view: SimulationView) -> Iterator[Any]:
        while True:
            times.append(view.now)
            yield view.timeout(60)

    run = simulate(greedy, rigid((0, 100, 1)), processes=[forever])
    assert times == [0, 60]
    assert run.simulation.now == 100


def test_waiting_tasks_wait_for_a_machine_that_is_away():
    month = 30 * 86_400.0
    run = simulate(
        greedy, rigid((20, 5, 1)), machines(1), processes=[Outage(begin=0.0, length=month)]
    )
    assert run.starts() == {0: month}


def test_a_task_is_let_go_if_its_machine_never_comes_back():
    def tease(view: SimulationView) -> Iterator[Any]:
        view.take_away(0)
        while True:
            yield view.timeout(86_400)

    run = simulate(greedy, rigid((20, 5, 1)), machines(1), processes=[tease])
    assert run.rows("jobs", "status") == [("waiting",)]


def test_a_failed_machine_returns_when_repaired_and_given_back():
    cluster = machines(1, failures=Failures(mtbf=5.0, mttr=5.0))
    run = simulate(greedy, rigid((0, 30, 1)), cluster, processes=[Outage(1.0, 50.0)], seed=3)
    held = [(t, c) for t, _, c, cause in capacities(run) if 1 < t < 51]
    assert not any(capacity for _, capacity in held)
    assert run.rows("jobs", "status") == [("finished",)]


def test_the_view_shows_the_present():
    seen: list[Any] = []

    def look(view: SimulationView) -> None:
        seen.append((view.capacity.tolist(), view.free.tolist(), len(view.running)))
        seen.append((view.queue_length, view.jobs_ended, view.power, view.info.machine_names))
        with pytest.raises(ValueError, match="read-only"):
            view.free[0] = 9

    simulate(greedy, rigid((0, 10, 3), (0, 10, 4), (1, 10, 4)), machines(), processes=[at(5, look)])
    assert seen == [([[4], [4]], [[0], [1]], 2), (1, 0, None, ("m0", "m1"))]


def test_times_are_put_on_the_grid():
    times = []

    def look(view: SimulationView) -> Iterator[Any]:
        yield view.timeout(0.1)
        times.append(view.now * 2**20 % 1)
        yield view.timeout(0.1) | view.timeout(5)
        times.append(view.now * 2**20 % 1)

    simulate(greedy, rigid((0, 10, 1)), processes=[look])
    assert times == [0, 0]


def test_processes_wait_for_each_other_by_events():
    told: dict[str, Any] = {}

    def listener(view: SimulationView) -> Iterator[Any]:
        told["bell"] = view.event()
        told["heard"] = (yield told["bell"]), view.now

    def ringer(view: SimulationView) -> Iterator[Any]:
        yield view.timeout(3)
        told["bell"].succeed("ding")

    simulate(greedy, rigid((0, 10, 1)), processes=[listener, ringer])
    assert told["heard"] == ("ding", 3)


def give_back_what_is_there(view: SimulationView) -> None:
    view.give_back(1)


def take_twice(view: SimulationView) -> None:
    view.take_away([1])
    view.take_away([0, 1])


WRONG = {
    "there is no machine 7; rows go from 0 to 1": lambda view: view.take_away(7),
    "machine 1 is taken away already; give it back first": take_twice,
    "machine 1 has not been taken away by this process": give_back_what_is_there,
    "name one twice": lambda view: view.take_away([0, 0]),
    "'m0' is not a machine": lambda view: view.take_away(["m0"]),
    "machine 1 is not in the cluster now": lambda view: view.take_away(1),
    "running is 'kill'; it is drain, requeue or suspend": (
        lambda view: view.take_away(0, running="kill")
    ),
    "cause is 'power'": lambda view: view.take_away(0, cause="power"),
    "timeout(-1): give a finite number": lambda view: view.timeout(-1),
    "timeout(1e-08) is shorter than a step of the grid": lambda view: view.timeout(1e-8),
    "ZeroDivisionError: division by zero": lambda view: 1 / 0,
}


@pytest.mark.parametrize("text", WRONG)
def test_mistakes_name_the_process_and_the_time(text):
    absent = (1,) if "not in the cluster" in text else ()
    with pytest.raises(ProcessError) as caught:
        simulate(greedy, rigid((0, 10, 1)), machines(absent=absent), processes=[at(5, WRONG[text])])
    assert str(caught.value).startswith("process acting at 5 s: ")
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [60, None, "soon"])
def test_what_is_yielded_must_be_an_event(value):
    def wrong(view: SimulationView) -> Iterator[Any]:
        yield value

    with pytest.raises(ProcessError, match="process wrong at 0 s: yielded .*view.timeout"):
        simulate(greedy, rigid((0, 10, 1)), processes=[wrong])


def test_an_event_that_fails_unheard_ends_the_run_with_a_sentence():
    def fail(view: SimulationView) -> None:
        view.event().fail(ValueError("pump broke"))

    with pytest.raises(ProcessError) as caught:
        simulate(greedy, rigid((0, 10, 1)), processes=[at(5, fail)])
    assert str(caught.value) == (
        "process acting at 5 s: an event failed and no process waited for it: "
        "ValueError: pump broke"
    )


@pytest.mark.parametrize("again", ["timeout(0)", "past event"])
def test_a_process_may_not_stop_time(again, monkeypatch):
    monkeypatch.setattr("simkit.engine.outages.RESUMED_AT_ONCE", 1000)
    left = iter(range(10_000))  # without the check the test fails instead of hanging

    def spin(view: SimulationView) -> Iterator[Any]:
        yield view.timeout(5)
        past = view.timeout(0)
        yield past
        for _ in left:
            yield view.timeout(0) if again == "timeout(0)" else past

    with pytest.raises(ProcessError, match="^process spin at 5 s: went on 1,000 times"):
        simulate(greedy, rigid((0, 10, 1)), processes=[spin])


def test_only_what_happens_at_one_instant_is_counted(monkeypatch):
    monkeypatch.setattr("simkit.engine.outages.RESUMED_AT_ONCE", 4)
    times: list[float] = []

    def walk(view: SimulationView) -> Iterator[Any]:
        for seconds in (0, 0, 2**-20, 0, 0, 1, 0, 0):
            yield view.timeout(seconds)
            times.append(view.now)

    simulate(greedy, rigid((0, 10, 1)), processes=[walk])
    assert len(times) == 8


def test_stop_iteration_of_run_itself_is_an_error():
    class Empty:
        def run(self, view: SimulationView) -> Iterator[Any]:
            next(iter(()))
            return self.run(view)

    with pytest.raises(ProcessError, match="process Empty at 0 s: StopIteration"):
        simulate(greedy, rigid((0, 10, 1)), processes=[Empty()])


COOLING = """
class Outage:
    def __init__(self, rack, every_s=50_000.0):
        self.rack, self.every_s = rack, every_s

    def run(self, view):
        while True:
            yield view.timeout(view.rng.exponential(self.every_s))
            view.take_away(self.rack, running="suspend", cause="cooling")
            yield view.timeout(3600)
            view.give_back(cause="cooling")


def outage(view, rack):
    yield from Outage(rack).run(view)


number = 3
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    (tmp_path / "cooling.py").write_text(COOLING)

    def make(*processes: Any, **facts: Any) -> dict[str, Any]:
        cluster = {"machines": [{"count": 32, "processors": 8}]}
        load = {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 300}}
        return {"workload": load, "cluster": cluster, "processes": list(processes), **facts}

    return make


@pytest.mark.parametrize("name", ["Outage", "outage"])
def test_a_run_with_a_process_can_be_verified(name, tmp_path, scenario, monkeypatch):
    monkeypatch.chdir(tmp_path)
    section = scenario({"path": f"cooling.py:{name}", "args": {"rack": [0, 1, 2, 3]}})
    section["policy"] = {"backfill": "easy"}
    run = simkit.simulate(section, output="run")
    again = simkit.simulate(section)
    assert run.digest == again.digest
    recorded = run.info["scenario"]["processes"][0]
    assert recorded["path"].endswith(f"cooling.py:{name}")
    assert recorded["args"] == {"rack": [0, 1, 2, 3]}
    files = {Path(entry["path"]).name: entry["sha256"] for entry in run.info["inputs"]}
    assert len(files["cooling.py"]) == 64
    events = run.events.filter(run.events["kind"] == "capacity")
    assert len(events) >= 8
    checks = {check.name: check for check in verify_run(tmp_path / "run").checks}
    assert not [name for name, check in checks.items() if check.found]
    assert checks["machine-capacity"].examined > 32


COUNTING = """
class Counting:
    def __init__(self, rack):
        self.rack, self.runs = rack, 0

    def run(self, view):
        self.runs += 1
        self.rack.pop()  # an argument that changes is not shared either
        yield view.timeout(100 * self.runs)
        view.take_away(self.rack)
        yield view.timeout(100)
        view.give_back()
"""


def taken_away(events: pl.DataFrame) -> list[tuple[Any, ...]]:
    return events.filter(events["kind"] == "capacity").select("time_s", "machine_id").rows()


def test_the_scenarios_processes_are_new_in_every_run(tmp_path, scenario):
    (tmp_path / "counting.py").write_text(COUNTING)
    section = scenario({"path": f"{tmp_path}/counting.py:Counting", "args": {"rack": [0, 1, 2]}})
    experiment = simkit.prepare(simkit.load_scenario(section))
    first, second = simkit.carry_out(experiment), simkit.carry_out(experiment)
    assert first.digest == second.digest
    assert len(taken_away(first.events)) == 4

    episodes = Episodes(simkit.load_scenario(section))
    for number in range(2):
        episode = Episode(episodes.prepare(0), make_reward("slowdown"), records=True)
        while episode.advance():
            pass
        assert len(taken_away(episode.records().events)) == 4, f"episode {number}"


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ({"args": {"rock": 1}}, "takes no argument 'rock'; did you mean 'rack'"),
        ({}, "missing a required argument: 'rack'"),
        ({"arg": {}}, "did you mean 'args'"),
    ],
)
def test_wrong_arguments(section, text, tmp_path, scenario, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match=text) as caught:
        simkit.simulate(scenario({"path": "cooling.py:Outage", **section}))
    assert "processes.0" in str(caught.value)


def test_random_streams_follow_from_the_seed_and_the_name():
    drawn: list[float] = []

    def draw(view: SimulationView) -> Iterator[Any]:
        drawn.append(view.rng.random())
        yield view.timeout(1)

    for seed in (1, 1, 2):
        simulate(greedy, rigid((0, 10, 1)), processes=[draw, draw], seed=seed)
    assert drawn[:2] == drawn[2:4] != drawn[4:]
    assert drawn[0] != drawn[1]


def test_an_object_without_run_is_no_process(scenario):
    with pytest.raises(ScenarioError, match="int is not a process; it needs a method run"):
        simkit.simulate(scenario(), processes=[7])
