"""The class for TorchRL's actors that the how-to shows decides as TorchRL does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import DOCS, blocks

import simkit

torch = pytest.importorskip("torch")
pytest.importorskip("torchrl")

pytestmark = pytest.mark.thorough

LOG = {
    "workload": {"type": "swf", "path": "sample:lublin_1000", "window": {"jobs": 250}},
}


def test_an_actor_starts_what_it_starts_in_torchrl(tmp_path: Path, monkeypatch) -> None:
    from torchrl.envs import GymWrapper
    from torchrl.envs.utils import ExplorationType, set_exploration_type
    from torchrl.modules import MLP, QValueActor
    from torchrl.objectives import DQNLoss

    from simkit.env import SchedulingEnv

    monkeypatch.chdir(tmp_path)
    (shown,) = (b for b in blocks(DOCS / "howto" / "gymnasium.md") if b.file == "torchrl_actor.py")
    Path(shown.file).write_text(shown.text)

    torch.manual_seed(0)
    env = SchedulingEnv(LOG, slots=5, records=True)
    wrapped = GymWrapper(env, categorical_action_encoding=True)
    network = MLP(in_features=env.observation_space.shape[0], out_features=6, num_cells=[16])
    actor = QValueActor(network, in_keys=["observation"], action_space="categorical")
    loss = DQNLoss(actor, action_space="categorical", delay_value=False)
    steps = torch.optim.Adam(loss.parameters())
    for _ in range(3):
        found = loss(wrapped.rollout(100, actor))["loss"]
        steps.zero_grad()
        found.backward()
        steps.step()
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        wrapped.rollout(10_000, actor)
    expected = env.records().allocations
    assert expected.height > 100

    torch.save(actor, "actor.pt")
    policy = {"model": "actor.pt", "algorithm": "torchrl_actor.py:Actor", "args": {"slots": 5}}
    assert simkit.simulate(LOG, policy=policy).allocations.equals(expected)
