"""A Gymnasium vector environment as one of Stable-Baselines3, with the mask among the observations.

    envs = gymnasium.make_vec("simkit/DeepRM-v0", num_envs=256, autoreset_mode="SameStep")
    learner = MaskablePPO("MultiInputPolicy", MaskedVecEnv(envs))

MaskablePPO uses the mask; other learners of that library see it and leave it unused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Dict, MultiBinary
from gymnasium.vector import AutoresetMode, VectorEnv
from stable_baselines3.common.vec_env import VecEnv

from simkit.errors import ScenarioError

Observations = npt.NDArray[Any] | dict[str, npt.NDArray[Any]]
Indices = int | Iterable[int] | None


class MaskedVecEnv(VecEnv):
    """The replicas of simkit's environments, of one process or several.

    An observation is a mapping: ``observation``, and under `mask_key` (M + 1,) 0 or 1, which
    actions place something. Masks are also what ``env_method("action_masks")`` returns, where
    MaskablePPO looks for them. The info of a replica has ``cost``, at an episode's end ``metrics``.
    """

    def __init__(
        self, envs: VectorEnv[Any, Any, Any], mask_key: str | None = "action_mask"
    ) -> None:
        """Show a vector environment.

        Args:
            envs: with simkit's infos, in the autoreset mode ``SameStep``, as Stable-Baselines3
                expects it.
            mask_key: the mask's name; None: an observation is the array alone.

        Raises ScenarioError for another autoreset mode.
        """
        if envs.metadata.get("autoreset_mode") is not AutoresetMode.SAME_STEP:
            raise ScenarioError(
                "MaskedVecEnv: episodes must begin again in the step in which one ends; make the "
                'environment with autoreset_mode="SameStep"'
            )
        self.envs, self.mask_key = envs, mask_key
        space, actions = envs.single_observation_space, envs.single_action_space
        if mask_key is not None:
            count = int(actions.n)  # type: ignore[attr-defined]
            space = Dict({"observation": space, mask_key: MultiBinary(count)})
        super().__init__(envs.num_envs, space, actions)
        self._masks = np.zeros((envs.num_envs, 0), np.bool_)
        self._actions: npt.NDArray[Any] = np.zeros(envs.num_envs, np.int64)

    def reset(self) -> Observations:
        """Begin an episode in every replica, with the seeds of `seed` if that was called."""
        seeds = None if None in self._seeds else self._seeds
        observations, infos = self.envs.reset(seed=seeds)  # type: ignore[arg-type]
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{"seed": seed} for seed in infos["seed"].tolist()]
        self._masks = infos["action_mask"].astype(np.bool_)
        return self._shown(observations, infos["action_mask"])

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        """Return observations, rewards, whether each episode is over, and an info for each."""
        observations, rewards, terminations, truncations, infos = self.envs.step(self._actions)
        self._masks = infos["action_mask"].astype(np.bool_)
        over = terminations | truncations
        shown_infos: list[dict[str, Any]] = [{"cost": cost} for cost in infos["cost"].tolist()]
        for replica in over.nonzero()[0].tolist():
            final = infos["final_info"]
            shown_infos[replica] = {
                "cost": float(final["cost"][replica]),
                "terminal_observation": self._shown(
                    infos["final_obs"][replica], final["action_mask"][replica]
                ),
                "TimeLimit.truncated": bool(truncations[replica]),
                "metrics": {
                    name: values[replica].item()
                    for name, values in final["metrics"].items()
                    if not name.startswith("_")
                },
            }
        shown = self._shown(observations, infos["action_mask"])
        return shown, rewards.astype(np.float32), over, shown_infos

    def _shown(self, observations: npt.NDArray[Any], masks: npt.NDArray[Any]) -> Observations:
        if self.mask_key is None:
            return observations
        return {"observation": observations, self.mask_key: masks}

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Return (N, M + 1) which actions place something; the void action is always allowed."""
        return self._masks

    def env_method(
        self, method_name: str, *_args: Any, indices: Indices = None, **_kwargs: Any
    ) -> list[Any]:
        """Return what a method returns for some replicas; only ``action_masks`` is known."""
        if method_name != "action_masks":
            raise AttributeError(f"replicas have no method {method_name}; known: action_masks")
        return [self._masks[replica] for replica in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of the vector environment, the same for all replicas."""
        value = self.action_masks if attr_name == "action_masks" else getattr(self.envs, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Raise AttributeError: replicas are not changed one by one."""
        raise AttributeError(f"{attr_name} cannot be set; make the environment with it")

    def env_is_wrapped(self, wrapper_class: Any, indices: Indices = None) -> list[bool]:
        """Return that no replica is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def close(self) -> None:
        self.envs.close()
