"""A model of another library decides in a run, start by start, as it does in the environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("gymnasium")

from command_line import Simkit

import simkit
from simkit.env import SchedulingEnv
from simkit.errors import PluginError, PolicyError, ScenarioError, SimkitError
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario


def bundled(name: str, **overrides: object) -> dict[str, Any]:
    return load_scenario(scenario_path(name), overrides=overrides).model_dump(mode="json")


LOG = bundled("quickstart", **{"workload.window": {"jobs": 250}})
CLOUD = bundled("cloud-quickstart", **{"workload.window": {"jobs": 40}})
DEEPRM = bundled("deeprm")

FIRST = """
class First:
    'Starts the first task that has room.'
    @classmethod
    def load(cls, path):
        open('loaded', 'w').close()
        return cls()
    def predict(self, observation, action_masks):
        return int(action_masks.argmax()), None
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a class of models, and a file that stands for one."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FIRST)
    Path("trained.zip").write_bytes(b"weights")
    return tmp_path


def section(algorithm: str = "mine.py:First", **args: object) -> dict[str, Any]:
    return {"model": "trained.zip", "algorithm": algorithm, "args": args}


# ---- Stable-Baselines3 ----------------------------------------------------------------------------


def trained(name: str, env: SchedulingEnv) -> Any:
    """Return a model after a few hundred steps."""
    pytest.importorskip("stable_baselines3")
    library = pytest.importorskip("sb3_contrib" if name == "MaskablePPO" else "stable_baselines3")
    arguments = {"learning_starts": 50} if name == "DQN" else {"n_steps": 128, "n_epochs": 2}
    model = getattr(library, name)("MlpPolicy", env, seed=3, device="cpu", **arguments)
    return model.learn(256)


def episode(env: SchedulingEnv, model: Any, *, masked: bool) -> pl.DataFrame:
    """Return the allocations of an episode under the model's likeliest actions."""
    observation, _ = env.reset(seed=0)
    over = False
    while not over:
        masks = {"action_masks": env.action_masks()} if masked else {}
        action, _ = model.predict(observation, deterministic=True, **masks)
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    return env.records().allocations


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("library", "algorithm", "scenario", "arguments"),
    [
        ("sb3_contrib", "MaskablePPO", LOG, {"slots": 5}),
        ("sb3_contrib", "MaskablePPO", CLOUD, {"observation": "fitness-pairs"}),
        ("stable_baselines3", "PPO", DEEPRM, {"horizon": 25}),
        ("stable_baselines3", "DQN", LOG, {"observation": "queue-table+resource-time"}),
    ],
)
def test_it_starts_what_it_starts_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, algorithm: str,
    scenario: dict[str, Any], arguments: dict[str, Any],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    env = SchedulingEnv(scenario, records=True, **arguments)
    model = trained(algorithm, env)
    expected = episode(env, model, masked=algorithm == "MaskablePPO")
    assert expected.height > 5

    in_memory = simkit.simulate(scenario, policy=env.policy(model), seed=0)
    assert in_memory.allocations.equals(expected)

    model.save("trained.zip")
    saved = section(f"{library}:{algorithm}", **arguments)
    from_file = simkit.simulate(scenario, policy=saved, seed=0)
    assert from_file.allocations.equals(expected)


# ---- a file of any library ------------------------------------------------------------------------


@pytest.fixture
def command(
    own: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Simkit:
    return Simkit(capsys, monkeypatch)


def test_from_the_command_line(command: Simkit) -> None:
    text = json.dumps(LOG | {"policy": section(slots=20)})
    Path("mine.yaml").write_text(text)
    shown, again = (
        json.loads(command("run", "mine.yaml", "--output", folder, "--json").out)
        for folder in ("run", "again")
    )
    assert shown["digest"] == again["digest"]
    run = simkit.open_run("run")
    assert run.policy == "trained"
    hashes = {Path(entry["path"]).name: entry["sha256"] for entry in run.info["inputs"]}
    assert hashes["trained.zip"] == sha256(b"weights").hexdigest()
    assert hashes["mine.py"] == sha256(FIRST.encode()).hexdigest()
    assert command("verify", "run").code == 0
    refused = command("run", "mine.yaml", "--no-code")
    assert "policy.algorithm: " in refused.err
    assert "is code, which would run" in refused.err


def test_it_is_judged_as_an_agent(command: Simkit) -> None:
    Path("log.yaml").write_text(json.dumps(LOG))
    candidate = "{model: trained.zip, algorithm: 'mine.py:First', args: {slots: 20}}"
    told = command(
        "evaluate", "log.yaml", "--policy", candidate, "--policy", "sjf", "--sets", 1,
        "--workers", 1, "--json",
    )  # fmt: skip
    found = json.loads(told.out)
    kinds = {one["label"]: one["kind"] for one in found["candidates"]}
    assert kinds == {"trained(slots=20)": "agent", "sjf": "policy"}
    assert found["reference"] == "sjf"


# ---- what is refused ------------------------------------------------------------------------------


OTHERS = """
import numpy as np
from gymnasium import spaces

class Nothing: pass

class Mute:
    load = classmethod(lambda cls, path: cls())

class Broken:
    @classmethod
    def load(cls, path): raise KeyError("policy")

class Small(Mute):
    observation_space = spaces.Box(0.0, 1.0, (44,))
    action_space = spaces.Discrete(11)
    def predict(self, observation): return 0, None

class Fraction(Mute):
    def predict(self, observation): return 0.5, None

class Stumbles(Mute):
    def predict(self, observation): return observation["tasks"], None
"""

REFUSED: list[tuple[type[SimkitError], dict[str, Any], str]] = [
    # a file that does not exist
    (ScenarioError, section() | {"model": "trainde.zip"}, "did you mean 'trained.zip'"),
    # a class without its module
    (ScenarioError, section("PPO"), "'PPO' names no class; write package.module:Class"),
    # no class at all
    (ScenarioError, {"model": "trained.zip"}, "policy.algorithm: is missing"),
    # a library that is not installed, a class that it lacks
    (PluginError, section("no_such_library:PPO"), "there is no module 'no_such_library'"),
    (PluginError, section("mine.py:Frist"), "did you mean 'First'"),
    # arguments that are no environment's, or wrong
    (ScenarioError, section(slot=20), "policy.args.slot: unknown key; did you mean 'slots'"),
    (ScenarioError, section(slots=0), "policy.args.slots: must be at least 1, not 0"),
    (ScenarioError, section(observation="queue-tabel"), "did you mean 'queue-table'"),
    (ScenarioError, section(observation="sofia-shares"), "which only slotted time has"),
    (ScenarioError, section(unit=1, observation_arguments={"slots": "x"}), "slots is 'x'"),
    # what is no algorithm, or does not read the file
    (PolicyError, section("others.py:Nothing"), r"Nothing has no load\(path\); name the class"),
    (PluginError, section("others.py:Broken"),
     r"cannot be loaded by .*others.py:Broken \(KeyError: 'policy'\); name the class that saved"),
    # what is no model, or one of another environment
    (PolicyError, section("others.py:Mute"), r"has no predict\(observation\) that .*; give a trained model"),
    (ScenarioError, section("others.py:Small", slots=5),
     r"(?s)its observation_space.shape is \(44,\), here it is \(24,\); give the arguments of the "
     "environment.*its action_space.n is 11, here it is 6"),
    # what goes wrong in the model
    (PolicyError, section("others.py:Fraction"), "action 0.5 is not a whole number"),
    (PolicyError, section("others.py:Stumbles"), r"others.py:23: ModelPolicy failed at 91 s: IndexError"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "policy", "message"), REFUSED)
def test_mistakes_are_told(
    own: Path, kind: type[SimkitError], policy: dict[str, Any], message: str
) -> None:
    Path("others.py").write_text(OTHERS)
    with pytest.raises(kind, match=message):
        simkit.simulate(LOG, policy=policy)


def test_slotted_arguments_of_the_wrong_kind_are_told(own: Path) -> None:
    with pytest.raises(ScenarioError, match=r"policy.args.horizon: must be a whole number"):
        simkit.simulate(DEEPRM, policy=section(horizon="20"))


@pytest.mark.thorough
def test_a_zip_of_another_class_is_told(own: Path) -> None:
    pytest.importorskip("stable_baselines3")
    with pytest.raises(
        PluginError,
        match=r"cannot be loaded by stable_baselines3:PPO \(.*\); name .*, or another file",
    ):
        simkit.simulate(LOG, policy=section("stable_baselines3:PPO"))


@pytest.mark.parametrize("form", [dict, list])
def test_an_environment_refuses_what_is_no_model(form: Callable[[], object]) -> None:
    with pytest.raises(PolicyError, match=f"model {form.__name__!r} has no predict"):
        SchedulingEnv(DEEPRM).policy(form())


@pytest.mark.parametrize(
    ("environment", "scenario", "told"),
    [
        (DEEPRM, LOG, ["scheduling.step is not set in the scenario, 1 where it was trained",
                       "admission.slots is not set in the scenario, 10 where it was trained"]),
        (LOG, DEEPRM, ["scheduling.step is 1 in the scenario, not set where it was trained"]),
        (DEEPRM, DEEPRM | {"scheduling": {"step": 2.0}}, ["scheduling.step is 2 "]),
        (DEEPRM, DEEPRM | {"admission": {"slots": 5}}, ["admission.slots is 5 in the scenario"]),
    ],
)  # fmt: skip
def test_a_scenario_of_another_time_or_of_other_slots_is_refused(
    environment: dict[str, Any], scenario: dict[str, Any], told: list[str]
) -> None:
    class First:
        def predict(self, observation: Any, action_masks: Any) -> Any:
            return action_masks.argmax(), None

    policy = SchedulingEnv(environment).policy(First())
    with pytest.raises(ScenarioError) as refused:
        simkit.simulate(scenario, policy=policy)
    assert len(refused.value.problems) == len(told)
    for problem, text in zip(refused.value.problems, told, strict=True):
        assert text in problem


def test_the_policy_of_an_environment_serves_many_runs() -> None:
    class Memory:
        """Remembers how many actions it has taken in this run."""

        def predict(self, observation: Any, state: Any, episode_start: Any) -> Any:
            assert episode_start.tolist() == [state is None]
            seen.append(state)
            return 0, (state or 0) + 1

    seen: list[int | None] = []
    policy = SchedulingEnv(LOG).policy(Memory())
    first, again = (simkit.simulate(LOG, policy=policy).allocations for _ in range(2))
    assert first.equals(again)
    assert seen == [None, *range(1, len(seen) // 2)] * 2
    assert np.isfinite(first["start_time_s"].to_numpy()).all()
