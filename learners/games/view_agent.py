"""An agent of a view: what it sees of a scenario, what its actions mean, and a network in between.

A bundle says all three, so that the agent decides in a run as it did in its training, on any
cluster with the same resources:

    policy: {agent: trainings/mine}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field

from simkit.agent.actions import Actions, QueueActions
from simkit.agent.encoder import Encoder, Numbers, ObservationSchema
from simkit.agent.observe_system import QueueSet
from simkit.arrays import Ints
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.gym.agent_view import AgentView
from simkit.gym.model_policy import ViewPolicy
from simkit.learners.common.bundle import Bundle, network_of
from simkit.learners.common.shapes import PerceptronShape, SetScorerShape, Shape
from simkit.plugins import instantiate
from simkit.policy import State, SystemInfo, Task
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.sections import Section

__all__ = ["SetPlaces", "ViewAgent", "ViewDescription", "describe_view", "network_shape"]


@dataclass(frozen=True)
class SetPlaces:
    """Where a scorer of a set finds its context and its items in a flat observation."""

    context: Ints
    """(C,) places."""
    items: Ints
    """(M, F) places; the first of an item is 1, or 0 if there is none."""

    @classmethod
    def of(cls, schema: ObservationSchema, items: int) -> Self | None:
        """Return the places in an observation that has a row for each item; None: it has none.

        What is the same in every row belongs to the context.
        """
        places = np.arange(schema.size).reshape(schema.shape)
        context: list[Ints] = []
        rows: list[Ints] = []
        for part, begin, end in schema.places():
            own = places[..., begin:end]
            name = part.name.rpartition("queue-set.")[2]
            if part.shape[0] != items or len(part.shape) != 2:
                context.append(own.reshape(-1))
            elif QueueSet.is_whole(name):
                context.append(own.reshape(items, -1)[0])
            else:
                rows.append(own.reshape(items, -1))
        if not rows or not context:
            return None
        return cls(np.concatenate(context), np.concatenate(rows, axis=1))

    @property
    def order(self) -> Ints:
        """(K,) the places in the order in which a scorer reads them."""
        return np.concatenate((self.context, self.items.reshape(-1)))


def network_shape(
    schema: ObservationSchema, actions: int, hidden: int
) -> PerceptronShape | SetScorerShape:
    """Return the shape of a scorer of the items to choose from, or of a perceptron without a set.

    Args:
        schema: what is seen.
        actions: number of actions; the last is the void one.
        hidden: units of each layer.
    """
    places = SetPlaces.of(schema, actions - 1)
    if places is None:
        layers = (schema.size, hidden, hidden, actions)
        return PerceptronShape(type="perceptron", layers=layers, activation="relu")
    items, features = places.items.shape
    return SetScorerShape(
        type="set-scorer", context=len(places.context), items=items, features=features,
        hidden=hidden, others=1, activation="relu",
    )  # fmt: skip


class ViewActions(Section):
    """How many actions there are; the view says what they mean."""

    type: Literal["view"]
    count: Annotated[int, Field(ge=2, le=1_000_000)]


class ViewDescription(Section):
    """What an agent of a view sees and does."""

    model_config = ConfigDict(extra="ignore")

    architecture: Shape
    observation: dict[str, Any]  # that of an `ObservationSchema`
    actions: ViewActions
    view: dict[str, Any]  # arguments of `AgentView`
    step_s: Annotated[float, Field(gt=0)] | None
    """`scheduling.step` of the scenario; null: it has none."""
    slots: Annotated[int, Field(ge=1)] | None
    """`admission.slots` of the scenario; null: all jobs come in."""

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))  # as JSON, whose lists stand for tuples


def describe_view(
    shape: PerceptronShape | SetScorerShape, schema: ObservationSchema, actions: int,
    view: AgentView, scenario: Scenario,
) -> dict[str, Any]:  # fmt: skip
    """Return the description of an agent of a view; `ViewDescription.read` reads it."""
    return {
        "architecture": shape.model_dump(mode="json"),
        "observation": schema.as_json(),
        "actions": {"type": "view", "count": actions},
        "view": asdict(view),
        "step_s": scenario.scheduling.step,
        "slots": scenario.admission.slots,
    }


class ViewAgent(ViewPolicy):
    """A `Policy` that takes the action of its view that its network scores highest.

    Attributes:
        name: the bundle's name.
    """

    def __init__(
        self, bundle: Bundle, described: ViewDescription, scenario: Scenario | None
    ) -> None:
        """Build the agent.

        Args:
            bundle: with the weights.
            described: what it sees and does.
            scenario: the one to run on; None: that of its training.

        Raises RunError if parts of the bundle do not fit together.
        """
        self.name = agent_label(bundle.folder)
        where = bundle.folder / DESCRIPTION
        self._described = described
        self._scenario = scenario or Scenario.model_validate(bundle.description["scenario"])
        self._schema = ObservationSchema.from_json(described.observation)
        named = [self._schema.name, str(described.view.get("actions"))]
        if code := [name for name in named if ":" in name]:
            raise RunError(
                f"{where}: {code[0]!r} is code; an agent is data, and must name an observation "
                "and actions of simkit"
            )
        self._view: AgentView = instantiate(f"{where}: view", AgentView, described.view)
        places = SetPlaces.of(self._schema, described.actions.count - 1)
        self._order = None if places is None else places.order
        size = self._schema.size if self._order is None else len(self._order)
        largest = max(max(abs(part.low), abs(part.high)) for part in self._schema.fields)
        self._network = network_of(
            bundle, described.architecture, size, described.actions.count, largest
        )

    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from the agent's training, a line each."""
        stated = {
            "scheduling.step": (scenario.scheduling.step, self._described.step_s),
            "admission.slots": (scenario.admission.slots, self._described.slots),
        }
        if self._described.step_s is None:
            del stated["admission.slots"]
        return [
            f"{key} is {here or 'not set'} in the scenario, {there or 'not set'} in its training; "
            "use that, or train an agent on this scenario"
            for key, (here, there) in stated.items()
            if here != there
        ]

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return why the agent cannot run on a cluster, a line for each problem."""
        try:
            self._build(info)
        except ScenarioError as error:
            return [f"agent {self.name}: {text}" for text in error.problems]
        except PluginError as error:
            return [f"agent {self.name}: {error}"]
        return []

    def _build(self, info: SystemInfo) -> tuple[Actions, Encoder]:
        actions, encoder = self._view.build(self._scenario, info)
        if differing := encoder.schema.differences(self._schema):
            raise ScenarioError([
                f"observation {self._schema.name}: {text} (there: in its training); train an agent "
                "on this scenario"
                for text in differing
            ])  # fmt: skip
        return actions, encoder

    def _choose(self, state: State) -> int:
        allowed = self._actions.mask(state).view(np.bool_)
        return int(np.where(allowed, self._logits(state), -np.inf).argmax())

    def _logits(self, state: State) -> Numbers:
        """Return the network's (M + 1,) scores of the actions."""
        seen = self._encoder.encode(state).reshape(-1)
        scores: Numbers = self._network.logits(seen if self._order is None else seen[self._order])
        return scores

    def scores(self, state: State) -> dict[Task, float]:
        """Return the network's score of each waiting task that it sees; higher is likelier."""
        if not isinstance(self._actions, QueueActions):
            return {}
        shown = state.queue.tasks[: self._actions.count - 1]
        return dict(zip(shown, self._logits(state).tolist(), strict=False))
