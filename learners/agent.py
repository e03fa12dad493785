"""Trained agents as policies: the agent of a view, and the file's reader for agents of all kinds.

policy: {agent: trainings/mine}
policy: {agent: deeprm-70, args: {choose: greedy}}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from simkit.agent.actions import Actions
from simkit.agent.encoder import Encoder, Numbers, ObservationSchema
from simkit.errors import RunError, ScenarioError, SimkitError
from simkit.gym.model_policy import ViewPolicy, entries
from simkit.learners.common.bundle import (
    Bundle,
    Choose,
    Description,
    ViewDescription,
    network_of,
    read_bundle,
    up_to_date,
)
from simkit.learners.networks.inference import masked_log_softmax
from simkit.learners.networks.shapes import SetPlaces, SetScorerShape
from simkit.learners.scorers.agent import JobAgent, JobDescription, PairAgent, PairDescription
from simkit.policy import State, SystemInfo, Task
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.scenario.overrides import dotted
from simkit.sections import problems_of

RUN_ARGUMENTS: Final = {"slots": ("patience",), "classes": ("keep", "step")}
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
            **arguments: of its actions, in the place of the training's; see `RUN_ARGUMENTS`.

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
        return ("choose", *RUN_ARGUMENTS.get(self._kind, ()))

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


Agent = ViewAgent | JobAgent | PairAgent


def load_agent(
    folder: Path,
    scenario: Scenario | None = None,
    *,
    choose: Choose | None = None,
    patience: int | None = None,
    compat: str | None = None,
    keep: bool | None = None,
    step: str | float | None = None,
) -> Agent:
    """Return the agent in a bundle, as a policy.

    The arguments depend on the kind of agent; any other argument is refused. An agent of a pool
    takes none: it picks the job with the highest score.

    Args:
        folder: the bundle's folder.
        scenario: the scenario to run on; None: only the cluster is checked, when a run begins.
        choose: ``sample`` draws each action from the network's probabilities, as in training;
            ``greedy`` takes the most probable one, which with slots may never schedule some jobs.
            None: as the bundle says, else ``greedy``.
        patience: for slots. After this many steps in which a task fitted but none was placed, the
            task that can begin soonest is placed anyway, so that a run ends; None: 200.
        compat: for pairs. Another simulator whose rules of time the agent follows.
        keep: for classes. Whether the agent keeps the places that it has planned ahead, as in
            training, or plans anew at every decision, which suits inexact run times; None: keep.
        step: for classes. The run time that a class stands for; None: as in training.

    Raises RunError for a damaged bundle, ScenarioError, all problems at once, for wrong arguments
    and for a scenario that differs from the agent's training.
    """
    if choose not in (None, "sample", "greedy"):
        raise ScenarioError(f"agent: choose is {choose!r}; it must be sample or greedy")
    told = {"choose": choose, "patience": patience, "compat": compat, "keep": keep, "step": step}
    given = {key: value for key, value in told.items() if value is not None}
    bundle = read_bundle(folder)
    agent = _build(bundle, given, scenario)
    if others := [key for key in given if key not in agent.accepts]:
        raise ScenarioError(
            f"agent {agent.name}: does not take {' and '.join(others)}, but "
            f"{' and '.join(agent.accepts) or 'no arguments'}; leave that out"
        )
    if scenario is not None and (problems := agent.differences(scenario)):
        raise ScenarioError([f"agent {agent.name}: {text}" for text in problems])
    return agent


def _build(bundle: Bundle, given: Mapping[str, Any], scenario: Scenario | None) -> Agent:
    """Return the agent; raises RunError if the description is malformed."""
    where, remedy = bundle.folder / DESCRIPTION, "restore the bundle or train the agent again"
    models: dict[str, type[Description]] = {"jobs": JobDescription, "pairs": PairDescription}
    model = models.get(str(bundle.description["actions"].get("type")), ViewDescription)
    try:
        described = model.read(up_to_date(bundle.description))
        if isinstance(described, JobDescription):
            return JobAgent.of(bundle, described)
        if isinstance(described, PairDescription):
            own = {key: given[key] for key in PairAgent.accepts if key in given}
            return PairAgent.of(bundle, described, **own)
        assert isinstance(described, ViewDescription)
        return ViewAgent(bundle, described, scenario, **given)
    except SimkitError:
        raise
    except ValidationError as error:
        problems = [
            f"{dotted(problem.path)} {problem.text}" for problem in problems_of(error, model)
        ]
        raise RunError(
            "\n".join(f"{where}: is not as simkit wrote it ({text}); {remedy}" for text in problems)
        ) from None
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        reason = str(error) or type(error).__name__
        raise RunError(f"{where}: is not as simkit wrote it ({reason}); {remedy}") from error
