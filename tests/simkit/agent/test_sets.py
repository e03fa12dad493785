"""Observations as sets, rewards by name and the run's metrics, in episodes of the environment."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import simkit
from simkit.env import SchedulingEnv
from simkit.errors import SimkitError

CLOUD = {"scenario": "cloud-quickstart", "max_decisions": 200}
LOG = {"scenario": "quickstart", "max_decisions": 300}
SITE = {
    "name": "site",
    "workload": {"type": "lublin", "jobs": 60, "processors": 64},
    "power": {
        "machines": {"idle_w": 60, "full_w": 200},
        "sources": {"sun": {"signal": {"type": "constant", "value": 9000}}},
        "grid": {},
        "forecast": {"type": "perfect", "horizon": "6h", "step": "1h"},
    },
}


def steps(env, seed=0):
    """Yield the observation of each decision, as columns by name; any action that is offered."""
    env.action_space.seed(seed)
    seen, info = env.reset(seed=seed)
    over = False
    while not over:
        assert seen in env.observation_space
        yield {part.name: seen[..., begin:end] for part, begin, end in env.schema.places()}
        seen, _, terminated, truncated, info = env.step(
            int(env.action_space.sample(info["action_mask"]))
        )
        over = terminated or truncated


def shown(number, scale):
    return max(number, 0.0) / (max(number, 0.0) + scale)


@pytest.mark.parametrize("arguments", [LOG, CLOUD], ids=["log", "cloud"])
def test_a_row_for_each_waiting_task(arguments):
    env = SchedulingEnv(observation="queue-set", slots=6, **arguments)
    most = 0
    for columns in steps(env):
        state = env.state
        capacity = dict(zip(state.info.resources, state.info.capacity.sum(axis=0), strict=True))
        free = dict(zip(state.info.resources, state.room.total_free(), strict=True))
        most = max(most, len(state.queue))
        for row in range(6):
            values = {name: column[row, 0] for name, column in columns.items()}
            wanted = {f"free.{name}": free[name] / capacity[name] for name in capacity}
            wanted |= {
                "waiting": shown(len(state.queue), 10), "backlog": 0.0,
                "running": shown(len(state.running), 10),
                "next_end": min(
                    [shown(a.expected_end_s - state.now, 3600) for a in state.running], default=1.0
                ),
            }  # fmt: skip
            task = state.queue.tasks[row] if row < len(state.queue) else None
            wanted |= {
                "there": float(task is not None),
                "fits": float(task is not None and state.fit(task) is not None),
                "wait": 0.0 if task is None else shown(state.now - task.submit_time_s, 3600),
                "estimate": 0.0 if task is None else shown(task.estimate_s, 3600),
                "instances": 0.0 if task is None else shown(task.remaining, 10),
                "priority": 0.0,
            }
            for name, amount in zip(capacity, task.request if task else capacity, strict=True):
                share = amount * task.remaining / capacity[name] if task else 0.0
                wanted[f"request.{name}"] = min(share, 1.0)
            assert values == pytest.approx(wanted, abs=1e-6)
    assert most > 6


def test_a_row_for_each_machine():
    env = SchedulingEnv(observation="machine-set", **CLOUD)
    busy = 0.0
    for columns in steps(env):
        state = env.state
        largest = state.info.capacity.max(axis=0)
        free = np.hstack([columns[f"free.{name}"] for name in state.info.resources])
        assert free == pytest.approx(np.clip(state.room.free() / largest, 0, 1), abs=1e-6)
        for row in range(len(state.info.machine_names)):
            left = [
                a.expected_end_s - state.now for a in state.running if row in dict(a.on)
            ]  # fmt: skip
            assert columns["running"][row, 0] == pytest.approx(shown(len(left), 10), abs=1e-6)
            first = shown(min(left), 3600) if left else 1.0
            assert columns["next_end"][row, 0] == pytest.approx(first, abs=1e-6)
            last = shown(max(left, default=0.0), 3600)
            assert columns["last_end"][row, 0] == pytest.approx(last, abs=1e-6)
            busy = max(busy, last)
    assert busy > 0


def test_the_power_now_and_ahead():
    given = {"signals": ["generation", "available"], "steps": 6, "power_scale_w": 1000.0}
    env = SchedulingEnv(SITE, "power-forecast", observation_arguments=given, max_decisions=50)
    for columns in steps(env):
        power = env.state.power
        assert columns["now.generation"] == pytest.approx(0.9)
        assert columns["now.load"] == pytest.approx(power.load_w / (power.load_w + 1000))
        assert columns["now.available"] == 1.0  # the grid has no limit
        assert columns["now.soc"] == columns["now.price"] == 0.0
        assert columns["ahead.generation"] == pytest.approx(np.full(6, 0.9))
        assert columns["ahead.available"].tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("scenario", "given", "message"),
    [
        # no power to show
        ("quickstart", {}, "add a section `power`"),
        # a forecast that is too short, and none at all
        (SITE, {"steps": 7}, "steps is 7, but the forecast has 6"),
        (SITE | {"power": {**SITE["power"], "forecast": None}}, {}, "forecast"),
        (SITE, {"signals": "generation"}, "must be a list of generation, available"),
        (SITE, {"signals": ["wind"]}, "must be a list of generation, available"),
        (SITE, {"steps": 0, "price_scale": -1}, "(?s)steps is 0.*price_scale is -1"),
    ],
)
def test_what_a_forecast_refuses(scenario, given, message):
    with pytest.raises(SimkitError, match=message):
        SchedulingEnv(scenario, "power-forecast", observation_arguments=given).reset()


def test_sets_that_are_joined_keep_the_names_of_their_columns():
    joined = SchedulingEnv(observation="queue-set+machine-set+queue-table", slots=7, **CLOUD)
    assert joined.schema.parameters["queue-set"]["slots"] == 7
    alone = {
        name: SchedulingEnv(observation=name, slots=7, **CLOUD)
        for name in ("queue-set", "machine-set", "queue-table")
    }
    together = [steps(env, seed=3) for env in (joined, *alone.values())]
    for columns, *others in zip(*together, strict=True):
        wanted = {
            f"{name}.{column}": numbers.reshape(-1).tolist()
            for name, other in zip(alone, others, strict=True)
            for column, numbers in other.items()
        }
        assert {name: numbers.tolist() for name, numbers in columns.items()} == wanted
    rows = {part.name: part.shape for part in joined.schema.fields}
    assert rows["queue-set.wait"] == (7, 1)


# ---- rewards and metrics are those of the run -----------------------------------------------------


def first_that_fits(env):
    info = env.reset(seed=0)[1]
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, info = env.step(int(info["action_mask"].argmax()))
        total, over = total + reward, terminated or truncated
    return total, info["metrics"]


def test_the_sum_of_a_reward_is_that_of_the_metric():
    arguments = {"records": True, "metrics": "run", "slots": 100}
    for reward, metric in (("bounded-slowdown", "bounded_slowdown"), ("wait", "wait_time_s")):
        total, metrics = first_that_fits(SchedulingEnv("quickstart", reward=reward, **arguments))
        assert -total / 1000 == pytest.approx(metrics[metric], rel=1e-9)
        assert metrics[metric] > 0
    unit = SchedulingEnv(
        "quickstart", reward="wait", reward_arguments={"time_unit_s": 60.0}, slots=100
    )
    assert first_that_fits(unit)[0] == pytest.approx(total / 60)


def test_the_metrics_of_a_window_are_those_of_its_run():
    episode = {"jobs": 200, "from": "held_out"}
    env = SchedulingEnv("quickstart", episode=episode, actions="next-head", metrics="run")
    info = env.reset(seed=4)[1]
    first, over = info["first_job"], False
    while not over:
        *_, over, _, info = env.step(0)
    ranks = {"workload.window.jobs": f"{first}..{first + 199}"}
    run = simkit.simulate("quickstart", seed=4, overrides=ranks)
    for name, metric in run.metrics.items():
        if name != "jobs":
            assert info["metrics"][name] == metric.get("value", metric.get("mean")), name
    assert info["metrics"]["jobs"] == info["metrics"]["finished"] == 200
    assert info["metrics"]["unfinished"] == 0
