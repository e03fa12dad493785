"""The mask as a part of the observation: what Gymnasium checks, and what TorchRL makes of it."""

from __future__ import annotations

import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from simkit.env import MaskedObservation, SchedulingEnv  # noqa: E402


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version.*:UserWarning")
def test_it_is_an_environment_that_gymnasium_accepts():
    check_env(MaskedObservation(SchedulingEnv("deeprm")), skip_render_check=True)


def test_the_mask_is_that_of_info():
    env = MaskedObservation(SchedulingEnv("deeprm"))
    seen, info = env.reset(seed=0)
    for action in (0, 10, 10, 1):
        assert (seen["action_mask"] == info["action_mask"]).all()
        assert (env.unwrapped.action_masks() == seen["action_mask"]).all()
        seen, _, _, _, info = env.step(action)


@pytest.mark.thorough
def test_torchrl_plays_and_derives_with_the_mask():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchrl")
    from tensordict.nn import TensorDictModule, TensorDictSequential
    from torchrl.envs import ActionMask, GymWrapper, TransformedEnv
    from torchrl.modules import MLP, MaskedCategorical, ProbabilisticActor

    torch.manual_seed(0)
    single = GymWrapper(
        MaskedObservation(SchedulingEnv("deeprm")), categorical_action_encoding=True
    )
    env = TransformedEnv(single, ActionMask())
    network = MLP(in_features=72, out_features=11, num_cells=[16])
    actor = ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["logits"]),
        in_keys={"logits": "logits", "mask": "mask"},
        out_keys=["action"],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
    )
    with_mask = TensorDictModule(lambda mask: mask.bool(), ["action_mask"], ["mask"])
    policy = TensorDictSequential(with_mask, actor)
    for _ in range(3):
        with torch.no_grad():
            played = env.rollout(500, policy)
        steps = torch.arange(len(played))
        assert played["action_mask"].bool()[steps, played["action"]].all()
    chances = MaskedCategorical(network(played["observation"]), mask=played["action_mask"].bool())
    chances.log_prob(played["action"]).mean().backward()
    assert any(parameter.grad.any() for parameter in network.parameters())
