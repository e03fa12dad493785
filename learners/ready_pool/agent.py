"""A trained agent of a ready pool as a policy, for pools of any size.

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
from simkit.learners.ready_pool.description import ReadyDescription
from simkit.policy import Action, State, SystemInfo
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label

__all__ = ["ReadyAgent"]

Choose = Literal["sample", "greedy"]


class ReadyAgent:
    """A `Policy` whose network scores the jobs of a ready pool, and doing nothing.

    Attributes:
        name: the bundle's name.
        probability: probability of the last action; 1 if the agent is greedy.
    """

    def __init__(self, bundle: Bundle, described: ReadyDescription, *, choose: Choose) -> None:
        """Build the agent.

        Args:
            bundle: the bundle with the weights.
            described: its description.
            choose: take the likeliest action, or draw one by its probability, as in training.

        Raises RunError if parts of the bundle do not fit together.
        """
        self.name, self._greedy = agent_label(bundle.folder), choose == "greedy"
        where, pool, actions = bundle.folder / DESCRIPTION, described.pool, described.actions
        stated = ObservationSchema.from_json(described.observation)
        if differing := described.seen.differences(stated):
            raise RunError("\n".join(f"{where}: {text}; train it again" for text in differing))
        self._pool, self._late_leave = pool, actions.in_time
        self._tracker = ReadyTracker(pool, in_time=actions.in_time)
        self._actions = ReadyActions(
            self._tracker, actions.suspend, actions.reject, actions.advance
        )
        self._observe = described.see
        self._network = network_of(
            bundle, described.architecture, described.seen.size, self._actions.count
        )

    def differences(self, scenario: Scenario) -> list[str]:
        """Return why the agent cannot schedule a scenario, a line each."""
        pool, admission = self._pool, scenario.admission
        problems = []
        if scenario.scheduling.step != pool.step_s:
            problems.append(f"scheduling.step must be {pool.step_s:g} s, as in its training")
        if admission.slots != pool.ready:
            problems.append(f"admission.slots must be {pool.ready}, the size of its ready pool")
        if (admission.late == "leave") != self._late_leave:
            wanted = "leave" if self._late_leave else "stay"
            problems.append(f"admission.late must be {wanted}, as in its training")
        return problems

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why the agent cannot observe a cluster, a line each."""
        try:
            self._tracker.reset(info)
        except ScenarioError as error:
            return [f"agent {self.name}: {text}" for text in error.problems]
        return []

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run; raises ScenarioError for a cluster that the agent cannot observe."""
        if problems := self.check_cluster(info):
            raise ScenarioError(problems)
        self._rng, self.probability = rng, 1.0

    def schedule(self, state: State) -> Iterator[Action]:
        """Act until the network lets time go on, or nothing can be done."""
        actions = self._actions
        yield from actions.begin(state)
        while actions.asks(state):
            action = actions.action_of(state, self._choose(state))
            if action is None:
                break
            yield action
        yield from actions.end(state)

    def _choose(self, state: State) -> int:
        """Return the number of the next action; among equal scores, the lowest number."""
        logits = self._network.logits(self._observe(self._tracker.view()))
        scores = np.where(self._actions.mask(state), logits, -np.inf)
        if self._greedy:
            return int(scores.argmax())
        probabilities = np.exp(scores - scores.max())
        probabilities /= probabilities.sum()
        drawn = int(self._rng.choice(len(probabilities), p=probabilities))
        self.probability = float(probabilities[drawn])
        return drawn
