"""A reward of somebody's own that fails, or returns no number, is a sentence with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.env import SchedulingEnv
from simkit.errors import PluginError
from simkit.gym.record_dataset import Recording, record
from simkit.scenario.yaml_document import load_scenario

BODIES = """
from simkit.agent.reward import Reward

class Base(Reward):
    def begin(self, workload, info): pass
    def collect(self, time_s): return 0

class Nothing(Base):
    def collect(self, time_s): return None

class Text(Base):
    def collect(self, time_s): return "1"

class Endless(Base):
    def collect(self, time_s): return float("inf")

class NotANumber(Base):
    def collect(self, time_s): return float("nan")

class Flag(Base):
    def collect(self, time_s): return True

class Failing(Base):
    def collect(self, time_s): return {}["x"]

class FailingAtTheBeginning(Base):
    def begin(self, workload, info): raise ValueError("no")

class FailingInBetween(Base):
    def submitted(self, time_s, tasks): return tasks[99]

class NoReward:
    def collect(self, time_s): return 0.0
"""
WRONG = [
    ("Nothing", "reward Nothing at .* collect returned None; it must return a finite number"),
    ("Text", "reward Text .* collect returned '1'"),
    ("Endless", "reward Endless .* collect returned inf"),
    ("NotANumber", "reward NotANumber .* collect returned nan"),
    ("Flag", "reward Flag .* collect returned True"),
    ("Failing", r"mine.py:24: reward Failing failed at .* KeyError: 'x'"),
    ("FailingAtTheBeginning", r"mine.py:27: reward FailingAtTheBeginning failed .* ValueError: no"),
    ("FailingInBetween", r"mine.py:30: reward FailingInBetween failed .* IndexError"),
    ("NoReward", "NoReward has no method begin; derive it from simkit.agent.reward.Reward"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(BODIES)
    return path


@pytest.mark.parametrize("place", ["reward", "cost"])
@pytest.mark.parametrize(("name", "said"), WRONG)
def test_of_a_recorded_dataset(
    name: str, said: str, place: str, file: Path, tmp_path: Path
) -> None:
    what = Recording(**{place: f"{file}:{name}", "actions": "ready-pool"})
    with pytest.raises(PluginError, match=said):
        record(load_scenario("rare", overrides={"workload.jobs": 9}), tmp_path / "d", what, [0])
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "said"), WRONG)
def test_of_an_environment(name: str, said: str, weighted: bool, file: Path) -> None:
    own = f"{file}:{name}"

    def play() -> None:
        env = SchedulingEnv("deeprm", reward={own: 1.0, "slowdown": 2.0} if weighted else own)
        env.reset(seed=0)
        env.step(env.action_space.n - 1)

    with pytest.raises(PluginError, match=said):
        play()


def test_a_whole_number_is_a_reward(file: Path) -> None:
    env = SchedulingEnv("deeprm", reward=f"{file}:Base")
    env.reset(seed=0)
    assert env.step(env.action_space.n - 1)[1] == 0.0
