"""A trained agent of a ready pool as a policy, on pools of any size.

policy: {agent: trainings/mine}
policy: {agent: trainings/mine, args: {choose: sample}}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from simkit.agent.encoder import ObservationSchema
from simkit.agent.ready_pool_actions import ReadyActions, ReadyTracker
from simkit.errors import RunError, ScenarioError
from simkit.learners.common.bundle import Bundle, network_of
from simkit.learners.common.inference import PlainRecurrent
from simkit.learners.ready_pool.description import ReadyDescription
from simkit.policy import Action, State, SystemInfo
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label

__all__ = ["ReadyAgent"]

Choose = Literal["sample", "greedy"]


class ReadyAgent:
    """A network that scores the jobs of a ready pool, and doing nothing; a `Policy`.

    If the network is recurrent, it remembers the decisions of a run from the first on.

    Attributes:
        name: of the bundle.
        probability: probability of its last action; 1 for a greedy one.
    """

    def __init__(self, bundle: Bundle, described: ReadyDescription, *, choose: Choose) -> None:
        """Build it.

        Args:
            bundle: with the weights.
            described: how it acts.
            choose: the likeliest action, or one drawn by its probability, as in training.

        Raises RunError if parts of the bundle do not fit together.
        """
        self.name, self._greedy = agent_label(bundle.folder), choose == "greedy"
        where, pool, told = bundle.folder / DESCRIPTION, described.pool, described.actions
        seen = ObservationSchema.from_json(described.observation)
        if differing := described.seen.differences(seen):
            raise RunError("\n".join(f"{where}: {text}; train it again" for text in differing))
        self._pool, self._told = pool, told
        self._tracker = ReadyTracker(pool, in_time=told.in_time)
        self._actions = ReadyActions(self._tracker, told.suspend, told.reject, told.advance)
        self._units, self._see = described.units, described.see
        self._network = network_of(
            bundle, described.architecture, described.seen.size, self._actions.count
        )

    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario cannot be scheduled by it, a line each."""
        pool, admission, late = self._pool, scenario.admission, self._told.in_time
        found = []
        if scenario.scheduling.step != pool.step_s:
            found.append(f"scheduling.step must be {pool.step_s:g} s, as in its training")
        if admission.slots != pool.ready:
            found.append(f"admission.slots must be {pool.ready}, the size of its ready pool")
        if (admission.late == "leave") != late:
            wanted = "leave" if late else "stay"
            found.append(f"admission.late must be {wanted}, as in its training")
        return found

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return how a cluster cannot be shown to it, a line each."""
        try:
            self._tracker.reset(info)
        except ScenarioError as error:
            return [f"agent {self.name}: {text}" for text in error.problems]
        units = tuple(round(float(amount)) for amount in info.capacity.sum(axis=0))
        if self._units is not None and self._units != units:
            return [
                f"agent {self.name}: it sees an image of {_counts(self._units)} units, and the "
                f"cluster has {_counts(units)}; train it again, or train one that sees a set"
            ]
        return []

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run; raises ScenarioError for a cluster that cannot be shown."""
        if problems := self.check_cluster(info):
            raise ScenarioError(problems)
        self._rng, self.probability = rng, 1.0
        if isinstance(self._network, PlainRecurrent):
            self._carried = self._network.blank()

    def schedule(self, state: State) -> Iterator[Action]:
        """Act until the network lets time go on, or nothing can be done."""
        actions = self._actions
        yield from actions.begin(state)
        while actions.asks(state):
            meant = actions.action_of(state, self._choose(state))
            if meant is None:
                break
            yield meant
        yield from actions.end(state)

    def _choose(self, state: State) -> int:
        """Return the next action; of equal scores the lowest."""
        seen = self._see(self._tracker.view())
        if isinstance(self._network, PlainRecurrent):
            logits, self._carried = self._network.remembering(seen, self._carried)
        else:
            logits = self._network.logits(seen)
        scores = np.where(self._actions.mask(state), logits, -np.inf)
        if self._greedy:
            return int(scores.argmax())
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        drawn = int(self._rng.choice(len(chances), p=chances))
        self.probability = float(chances[drawn])
        return drawn


def _counts(units: tuple[int, ...]) -> str:
    return " and ".join(map(str, units))
