"""An agent of a view: what it sees of a scenario, what its actions mean, and a network in between.

policy: {agent: trainings/mine}
policy: {agent: deeprm-70, args: {choose: greedy}}
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simkit.agent.actions import Actions
from simkit.agent.encoder import Encoder, Numbers, ObservationSchema
from simkit.errors import RunError, ScenarioError
from simkit.gym.model_policy import ViewPolicy, entries
from simkit.learners.common.bundle import Bundle, Choose, ViewDescription, network_of
from simkit.learners.common.inference import masked_log_softmax
from simkit.learners.common.shapes import SetPlaces, SetScorerShape
from simkit.policy import State, SystemInfo, Task
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label

__all__ = ["ViewAgent"]

ARGUMENTS: Final = {"slots": ("patience",), "classes": ("keep", "step")}
"""Actions → which of their arguments a run may set."""
PATIENCE: Final = 200
"""Default number of steps without a placement after which a task is placed anyway."""


class ViewAgent(ViewPolicy):
    """A `Policy` whose network chooses among the actions of a view.

    Attributes:
        name: the bundle's name.
        probability: of the last action; 1 if the agent takes the action with the highest score.
    """

    def __init__(
        self, bundle: Bundle, described: ViewDescription, scenario: Scenario | None = None,
        *, choose: Choose | None = None, **arguments: Any,
    ) -> None:  # fmt: skip
        """Build the agent.

        Args:
            bundle: with the weights.
            described: what it sees and does.
            scenario: the one to run on; None: that of its training.
            choose: draw an action, or take the best one; None: as the bundle says.
            **arguments: of its actions, in the place of the training's; see `ARGUMENTS`.

        Raises RunError if parts of the bundle do not fit together.
        """
        self.name, where = agent_label(bundle.folder), bundle.folder / DESCRIPTION
        self.called, self.remedy = (
            f"agent {self.name}",
            f"restore {where}, or train the agent again",
        )
        self.requires, self._resources = described.requires, described.resources
        self._greedy = (choose or described.choose) == "greedy"
        self._scenario = scenario or Scenario.model_validate(bundle.description["scenario"])
        entries(self._scenario, self.requires)  # so that all of them are known
        self._schema = ObservationSchema.from_json(described.observation)
        view = described.view
        if code := [name for name in (self._schema.name, view.actions or "") if ":" in name]:
            raise RunError(
                f"{where}: {code[0]!r} is code; an agent is data, and must name an observation "
                "and actions of simkit"
            )
        slotted = self.requires.get("scheduling.step") is not None
        self._kind = view.actions or ("slots" if slotted else "start")
        usual = {"patience": PATIENCE} if self._kind == "slots" else {}
        given = usual | dict(view.action_arguments or {}) | arguments
        self._view = view.model_copy(update={"action_arguments": given})
        shape = described.architecture
        self._order = None
        if isinstance(shape, SetScorerShape) and (
            places := SetPlaces.of(self._schema, shape.items)
        ):
            self._order = places.order
        size = self._schema.size if self._order is None else len(self._order)
        largest = max(max(abs(part.low), abs(part.high)) for part in self._schema.fields)
        self._count = described.actions.count
        self._network = network_of(bundle, shape, size, self._count, largest)

    @property
    def accepts(self) -> tuple[str, ...]:
        """Which arguments a run may set."""
        return ("choose", *ARGUMENTS.get(self._kind, ()))

    def build(self, info: SystemInfo) -> tuple[Actions, Encoder]:
        if self._resources not in (None, info.resources):
            raise ScenarioError(
                f"the cluster's resources are {', '.join(info.resources)}, but in its training "
                f"they were {', '.join(self._resources)}; use the same names, in this order"
            )
        actions, encoder = self._view.build(self._scenario, info)
        differing = encoder.schema.differences(self._schema)
        if actions.count != self._count:
            differing.append(f"actions: there are {actions.count} here, {self._count} there")
        if differing:
            raise ScenarioError([
                f"observation {self._schema.name}: {text} (there: in its training); train an agent "
                "on this scenario"
                for text in differing
            ])  # fmt: skip
        return actions, encoder

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        super().reset(info, rng)
        self._rng, self.probability = rng, 1.0

    def choose(self, state: State) -> int:
        allowed, logits = self.actions.mask(state).view(np.bool_), self._logits(state)
        if self._greedy:
            return int(np.where(allowed, logits, -np.inf).argmax())
        chances = np.exp(masked_log_softmax(logits, allowed), dtype=np.float64)
        below = chances.cumsum()
        drawn = int(np.searchsorted(below, self._rng.random() * below[-1], side="right"))
        drawn = min(drawn, len(below) - 1)
        self.probability = float(chances[drawn])
        return drawn

    def _logits(self, state: State) -> Numbers:
        """Return the network's (M + 1,) scores of the actions."""
        seen = self.encoder.encode(state).reshape(-1)
        scores: Numbers = self._network.logits(seen if self._order is None else seen[self._order])
        return scores

    def scores(self, state: State) -> dict[Task, float]:
        """Return the network's score of each waiting task that it sees; higher is likelier."""
        scored = zip(self.actions.shown(state), self._logits(state).tolist(), strict=False)
        return {task: score for task, score in scored if task is not None and task.waiting}

    def why(self, state: State, task: Task) -> str:
        """Return why a waiting task waits."""
        if task not in self.actions.shown(state):
            return "it is not among the tasks that the agent sees"
        return "the network lets time go on, or chooses another task"
