"""Learners, which train agents, and the agents that they train.

What an algorithm of your own needs is here:

    from simkit.learners import GamesArguments, GamesTraining, games_of, prepared, roll_out

Names are imported when they are first used, so that an agent runs without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simkit.learners.common.arguments import prepared as prepared
    from simkit.learners.common.games import Games as Games
    from simkit.learners.common.games import Source as Source
    from simkit.learners.common.games import logged as logged
    from simkit.learners.common.games import results_of as results_of
    from simkit.learners.common.returns import credit as credit
    from simkit.learners.common.returns import deviation_by_group as deviation_by_group
    from simkit.learners.common.returns import generalised_advantages as generalised_advantages
    from simkit.learners.common.rollouts import Rollouts as Rollouts
    from simkit.learners.common.rollouts import judged as judged
    from simkit.learners.common.rollouts import minibatches as minibatches
    from simkit.learners.common.rollouts import roll_out as roll_out
    from simkit.learners.common.torch_training import GamesTraining as GamesTraining
    from simkit.learners.common.torch_training import TorchTraining as TorchTraining
    from simkit.learners.games.choice import GamesArguments as GamesArguments
    from simkit.learners.games.choice import games_of as games_of
    from simkit.learners.networks.build import ActorCritic as ActorCritic
    from simkit.learners.networks.build import build as build
    from simkit.learners.networks.build import seeded as seeded
    from simkit.learners.networks.distributions import clipped_gain as clipped_gain
    from simkit.learners.networks.distributions import entropy as entropy
    from simkit.learners.networks.distributions import log_probability as log_probability
    from simkit.learners.networks.distributions import masked_log_softmax as masked_log_softmax
    from simkit.learners.networks.distributions import reinforce_gain as reinforce_gain
    from simkit.learners.networks.distributions import sample as sample
    from simkit.learners.networks.distributions import squared_error as squared_error

_NAMES = {
    "common.arguments": "prepared",
    "networks.distributions": "clipped_gain entropy log_probability masked_log_softmax "
    "reinforce_gain sample squared_error",
    "common.games": "Games Source logged results_of",
    "networks.build": "ActorCritic build seeded",
    "common.returns": "credit deviation_by_group generalised_advantages",
    "common.rollouts": "Rollouts judged minibatches roll_out",
    "common.torch_training": "GamesTraining TorchTraining",
    "games.choice": "GamesArguments games_of",
}
"""Module → its public names."""
__all__ = sorted(" ".join(_NAMES.values()).split())


def __getattr__(name: str) -> Any:
    from simkit.plugins import public_name

    return public_name(globals(), _NAMES, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
