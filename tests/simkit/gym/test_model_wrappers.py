"""A model decides in a run as in its environment, whatever it observes there, or is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces, wrappers  # noqa: E402

import simkit  # noqa: E402
from simkit.agent.observation import ENCODERS  # noqa: E402
from simkit.env import MaskedObservation, SchedulingEnv  # noqa: E402
from simkit.errors import PluginError, PolicyError, ScenarioError, SimkitWarning  # noqa: E402
from simkit.scenario.bundled import scenario_path  # noqa: E402
from simkit.scenario.yaml_document import load_scenario  # noqa: E402


def bundled(name: str, jobs: int | None = None) -> dict[str, Any]:
    window = {} if jobs is None else {"workload.window": {"jobs": jobs}}
    return load_scenario(scenario_path(name), overrides=window).model_dump(mode="json")


LOG, CLOUD, DEEPRM = bundled("quickstart", 60), bundled("cloud-quickstart", 12), bundled("deeprm")
GREEN, RARE = bundled("green-quickstart", 30), bundled("rare")
SLOTTED = ("deeprm-image", "deeprm-compact", "slot-set", "sofia-compact", "sofia-shares")
CASES: dict[str, dict[str, Any]] = {
    **{name: {"scenario": DEEPRM, "observation": name} for name in SLOTTED},
    **{
        f"{name}, {actions}": {"scenario": LOG, "observation": name, "actions": actions}
        for name in ("queue-table", "queue-set", "machine-set", "fitness-pairs", "resource-time")
        for actions in ("start", "next-head", "pick")
    },
    "power-forecast": {"scenario": GREEN, "observation": "power-forecast"},
    "joined": {"scenario": CLOUD, "observation": "queue-set+machine-set"},
    "joined of slots": {"scenario": DEEPRM, "observation": "deeprm-compact+queue-table"},
    "green, joined": {"scenario": GREEN, "observation": "queue-set+power-forecast"},
    **{
        f"{name}, classes": {
            "scenario": LOG, "observation": name, "actions": "classes",
            "action_arguments": {"step": "2h"},
        }
        for name in (None, "class-set", "classes-paper")
    },
    **{
        f"{name}, ready-pool": {"scenario": RARE, "observation": name, "actions": "ready-pool"}
        for name in (None, "ready-set", "ready-image")
    },
}  # fmt: skip


class Model:
    """Decides by what it is shown, to the last number, among the actions that are offered."""

    def __init__(self, env: Any) -> None:
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def predict(self, observation: Any, action_masks: Any = None) -> tuple[int, None]:
        assert observation in self.observation_space
        seen = observation
        if isinstance(observation, dict):
            seen, masks = observation["observation"], observation["action_mask"].astype(bool)
            assert action_masks is None or np.array_equal(masks, action_masks)
            action_masks = masks
        offered = np.flatnonzero(action_masks)
        return int(offered[int(abs(float(np.sum(seen, dtype=float))) * 1e4) % len(offered)]), None


def starts(env: Any, model: Any) -> Any:
    """Return the allocations of an episode that a model plays."""
    observation, _ = env.reset(seed=0)
    over = False
    while not over:
        masks = env.unwrapped.action_masks()
        action = int(model.predict(observation, action_masks=masks)[0])
        observation, _, over, cut, _ = env.step(action)
        over = over or cut
    return env.unwrapped.records().allocations


@pytest.mark.sampled
@pytest.mark.parametrize("shown", ["array", "mapping"])
@pytest.mark.parametrize("case", CASES)
def test_every_observation_comes_back_as_a_policy(case: str, shown: str) -> None:
    env: Any = SchedulingEnv(**CASES[case], records=True)
    if shown == "mapping":
        env = MaskedObservation(env)
    model = Model(env)
    expected = starts(env, model)
    assert expected.height
    policy = env.unwrapped.policy(model)
    run = simkit.simulate(CASES[case]["scenario"], policy=policy, seed=0)
    assert run.allocations.equals(expected)


def test_no_observation_is_left_out() -> None:
    told = {part for case in CASES.values() for part in (case["observation"] or "").split("+")}
    assert set(ENCODERS) <= told


# ---- wrappers of Stable-Baselines3 and Gymnasium ---------------------------------------------------


def sb3() -> Any:
    return pytest.importorskip("stable_baselines3")


def trained(env: Any, policy: str = "MlpPolicy") -> Any:
    model = sb3().PPO(policy, env, seed=0, device="cpu", n_steps=64, batch_size=32, n_epochs=2)
    return model.learn(128)


def vector(*around: Any, **arguments: Any) -> Any:
    def make() -> Any:
        env: Any = SchedulingEnv(LOG, slots=5, **arguments)
        for wrapper in around:
            env = wrapper(env)
        return env

    return sb3().common.vec_env.DummyVecEnv([make])


def as_in_training(model: Any, shown: Any) -> Any:
    """Return the allocations of an episode in which a model is shown what training showed it."""
    env = SchedulingEnv(LOG, slots=5, records=True)
    observation, info = env.reset(seed=0)
    over = False
    while not over:
        seen = shown(observation, info["action_mask"])
        action, _ = model.predict(seen, deterministic=True)
        observation, _, over, _, info = env.step(int(action))
    return env.records().allocations


def run_of(model: Any, **arguments: Any) -> Any:
    env = SchedulingEnv(LOG, slots=5)
    return simkit.simulate(LOG, policy=env.policy(model, **arguments), seed=0).allocations


def normalised(**arguments: Any) -> tuple[Any, Any]:
    venv = sb3().common.vec_env.VecNormalize(vector(), **arguments)
    return venv, trained(venv)


@pytest.mark.thorough
@pytest.mark.parametrize("norm_obs", [True, False])
def test_vec_normalize_is_applied_also_to_saved_models(tmp_path: Path, norm_obs: bool) -> None:
    venv, model = normalised(norm_obs=norm_obs)
    expected = as_in_training(model, lambda seen, _: venv.normalize_obs(seen))
    before = venv.obs_rms.mean.copy() if norm_obs else None
    assert run_of(model).equals(expected)
    if norm_obs:
        assert np.array_equal(venv.obs_rms.mean, before)
        assert not as_in_training(model, lambda seen, _: seen).equals(expected)
    model.save(tmp_path / "trained.zip")
    venv.save(str(tmp_path / "vecnormalize.pkl"))
    loaded = sb3().PPO.load(tmp_path / "trained.zip", device="cpu")
    for statistics in (tmp_path / "vecnormalize.pkl", str(tmp_path / "vecnormalize.pkl"), venv):
        assert run_of(loaded, statistics=statistics).equals(expected)
    section: dict[str, Any] = {
        "model": str(tmp_path / "trained.zip"), "algorithm": "stable_baselines3:PPO",
        "args": {"slots": 5},
    }  # fmt: skip
    if norm_obs:
        with pytest.raises(PolicyError, match="VecNormalize.*as `statistics`"):
            run_of(loaded)
        with pytest.raises(PolicyError, match="VecNormalize.*as `statistics`"):
            simkit.simulate(LOG, policy=section)
        section["statistics"] = str(tmp_path / "vecnormalize.pkl")
    run = simkit.simulate(LOG, policy=section, seed=0, output=tmp_path / "run")
    assert run.allocations.equals(expected)
    named = {Path(entry["path"]).name for entry in run.info["inputs"]}
    assert ("vecnormalize.pkl" in named) == norm_obs


def doubled(env: Any) -> Any:
    space = spaces.Box(0, 2, env.observation_space.shape, np.float32)
    return wrappers.TransformObservation(env, lambda seen: 2 * seen, space)


APPLIED = {
    # what is around a single environment; what is around the vector; the policy of the network
    "harmless": ([lambda e: wrappers.TimeLimit(e, 50), wrappers.RecordEpisodeStatistics,
                  wrappers.NormalizeReward], "VecMonitor", "MlpPolicy"),
    "doubled, then normalised": ([doubled, wrappers.NormalizeObservation], "", "MlpPolicy"),
    "doubled, VecNormalize": ([doubled], "VecNormalize", "MlpPolicy"),
    "mask": ([MaskedObservation], "", "MultiInputPolicy"),
    "mask, VecNormalize": ([MaskedObservation], "VecNormalize keys", "MultiInputPolicy"),
    "mask, flattened": ([MaskedObservation, wrappers.FlattenObservation], "", "MlpPolicy"),
    "mask, taken out": ([MaskedObservation], "VecExtractDictObs", "MlpPolicy"),
}  # fmt: skip


def around_vector(name: str, venv: Any) -> Any:
    library = sb3().common.vec_env
    if name == "VecNormalize keys":
        return library.VecNormalize(venv, norm_obs_keys=["observation"])
    if name == "VecExtractDictObs":
        return library.VecExtractDictObs(venv, "observation")
    return getattr(library, name)(venv) if name else venv


@pytest.mark.thorough
@pytest.mark.parametrize("case", APPLIED)
def test_what_wrappers_do_is_done_here_as_well(case: str) -> None:
    single, outside, policy = APPLIED[case]
    venv = around_vector(outside, vector(*single))
    model = trained(venv, policy)

    def shown(seen: Any, mask: Any) -> Any:
        if "mask" in case:
            seen = {"observation": seen, "action_mask": mask}
        layer = venv.venv.envs[0] if outside else venv.envs[0]
        chain = []
        while isinstance(layer, gymnasium.Wrapper):
            chain.append(layer)
            layer = layer.env
        for one in reversed(chain):
            if isinstance(one, wrappers.NormalizeObservation):
                one.update_running_mean = False
            if isinstance(one, gymnasium.ObservationWrapper):
                seen = one.observation(seen)
        if outside == "VecExtractDictObs":
            return seen["observation"]
        return venv.normalize_obs(seen) if "VecNormalize" in outside else seen

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SimkitWarning)  # a model that has learned little waits
        run = run_of(model)
    assert run.equals(as_in_training(model, shown))


@pytest.mark.thorough
@pytest.mark.parametrize("mask_key", ["action_mask", None])
def test_a_model_of_the_lock_step_environment_comes_back(tmp_path: Path, mask_key: Any) -> None:
    pytest.importorskip("simkit.learners.lockstep.sb3")
    from simkit.learners.lockstep.sb3 import MaskedVecEnv

    envs = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=4, autoreset_mode="SameStep")
    maskable = pytest.importorskip("sb3_contrib").MaskablePPO
    policy = "MlpPolicy" if mask_key is None else "MultiInputPolicy"
    model = maskable(policy, MaskedVecEnv(envs, mask_key), n_steps=32, seed=0, device="cpu")
    model.learn(200).save(tmp_path / "trained.zip")
    env = SchedulingEnv("deeprm")
    run = simkit.simulate("deeprm", policy=env.policy(model), seed=1)
    loaded = maskable.load(tmp_path / "trained.zip", device="cpu")
    assert simkit.simulate("deeprm", policy=env.policy(loaded), seed=1).digest == run.digest


class Shifting(gymnasium.Wrapper):
    """Changes observations without another space, as far as anyone can see."""

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return observation / 2, *rest


class Wider(gymnasium.Wrapper):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(-1, 1, env.observation_space.shape, np.float32)


class Other(gymnasium.ActionWrapper):
    def action(self, action: Any) -> Any:
        return action


REFUSED = {
    # around the single environment; around the vector; what the refusal says
    "frames": ([lambda e: wrappers.FrameStackObservation(e, 2)], "", "FrameStackObservation"),
    "delayed": ([lambda e: wrappers.DelayObservation(e, 1)], "", "DelayObservation.*more than"),
    "vector frames": ([], "VecFrameStack", "VecFrameStack, which shows more than"),
    "actions": ([Other], "", "Other, which changes actions"),
    "sticky": ([lambda e: wrappers.StickyAction(e, 0.5)], "", "StickyAction, which changes action"),
    "another space": ([Wider], "", "Wider, which changes observations"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_here_is_refused_by_its_name(case: str) -> None:
    single, outside, told = REFUSED[case]
    venv = vector(*single)
    if outside:
        venv = sb3().common.vec_env.VecFrameStack(venv, 2)
    model = sb3().PPO("MlpPolicy", venv, device="cpu", n_steps=32, batch_size=32)
    with pytest.raises(PolicyError, match=told):
        run_of(model)


@pytest.mark.thorough
def test_an_unknown_wrapper_is_named_in_a_warning() -> None:
    model = sb3().PPO("MlpPolicy", vector(Shifting), device="cpu", n_steps=32, batch_size=32)
    with pytest.warns(UserWarning, match="trained behind Shifting; if it changes observations"):
        run_of(model)


@pytest.mark.thorough
def test_replicas_with_statistics_of_their_own_are_refused() -> None:
    def make() -> Any:
        return wrappers.NormalizeObservation(SchedulingEnv(LOG, slots=5))

    venv = sb3().common.vec_env.DummyVecEnv([make, make])
    model = sb3().PPO("MlpPolicy", venv, device="cpu", n_steps=32, batch_size=32)
    with pytest.raises(PolicyError, match="statistics of its own.*take VecNormalize"):
        run_of(model)


@pytest.mark.thorough
def test_wrappers_inside_of_processes_are_refused() -> None:
    def make() -> Any:
        return wrappers.RescaleObservation(SchedulingEnv(LOG, slots=5), 0, 1)

    venv = sb3().common.vec_env.DummyVecEnv([make])
    model = sb3().PPO("MlpPolicy", venv, device="cpu", n_steps=32, batch_size=32)
    run_of(model)
    model.env.envs = None  # as of SubprocVecEnv, which answers, but does not show its environments
    model.env.env_is_wrapped = lambda kind: [issubclass(wrappers.RescaleObservation, kind)]
    with pytest.raises(PolicyError, match="in processes, behind a wrapper that changes"):
        run_of(model)


@pytest.mark.thorough
@pytest.mark.parametrize("around", [wrappers.NormalizeObservation, Wider])
def test_a_saved_model_with_another_range_is_refused(tmp_path: Path, around: Any) -> None:
    model = sb3().PPO("MlpPolicy", vector(around), device="cpu", n_steps=32, batch_size=32)
    model.save(tmp_path / "trained.zip")
    loaded = sb3().PPO.load(tmp_path / "trained.zip", device="cpu")
    with pytest.raises(ScenarioError, match="its observations range from .*behind a wrapper"):
        run_of(loaded)


def test_files_and_objects_that_are_no_statistics(tmp_path: Path) -> None:
    env = SchedulingEnv(LOG)
    (tmp_path / "empty.pkl").write_bytes(b"")
    for name in ("empty.pkl", "missing.pkl"):
        with pytest.raises(PluginError, match="cannot be read .*VecNormalize.save wrote"):
            env.policy(Model(env), statistics=tmp_path / name)
    with pytest.raises(PolicyError, match="a dict without normalize_obs"):
        env.policy(Model(env), statistics={})
