"""What agent.json says of an agent: what it sees, what its actions mean, and where it may run.

A view is an `AgentView`: an observation and actions with their arguments, such as numbered slots,
burst classes or a ready pool. With it an agent decides in a run as it did in its training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Final, Literal, Self, get_type_hints

import numpy as np
from pydantic import ConfigDict, Field, JsonValue, create_model

from simkit.agent.actions import SlotMask, Starts
from simkit.agent.burst_classes import class_model
from simkit.agent.encoder import ObservationSchema
from simkit.agent.observe_system import QueueSet
from simkit.agent.ready_pool import ReadyPool
from simkit.agent.slotted import Slotted
from simkit.arrays import Ints
from simkit.gym.agent_view import AgentView
from simkit.learners.common.shapes import PerceptronShape, SetScorerShape, Shape
from simkit.sections import Section

__all__ = [
    "Choose",
    "SetPlaces",
    "ViewDescription",
    "describe_view",
    "network_shape",
    "of_classes",
    "of_ready_pool",
    "of_slots",
    "of_view",
    "up_to_date",
]

Choose = Literal["sample", "greedy"]

_ITEMS: Final = {"slot-set": "slots", "class-set": "classes", "ready-set": "jobs"}
"""Observation → its field of the items, where another field may have as many rows."""


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
        only = _ITEMS.get(schema.name)
        for part, begin, end in schema.places():
            own = places[..., begin:end]
            name = part.name.rpartition("queue-set.")[2]
            if part.shape[0] != items or len(part.shape) != 2 or only not in (None, name):
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


_TYPES = get_type_hints(AgentView, include_extras=True)
_REQUIRED: dict[str, Any] = {field.name: (_TYPES[field.name], ...) for field in fields(AgentView)}
ViewPart = create_model("ViewPart", __base__=Section, **_REQUIRED)
"""The arguments of `AgentView`, with the types of its fields."""


class ViewDescription(Section):
    """What an agent sees and does, and where it may run."""

    model_config = ConfigDict(extra="ignore")

    architecture: Shape
    observation: dict[str, Any]  # that of an `ObservationSchema`
    actions: ViewActions
    view: ViewPart  # type: ignore[valid-type] # made of the fields of AgentView
    requires: dict[str, JsonValue]
    """Dotted key of the scenario → the value that it must have, as in the training."""
    resources: tuple[str, ...] | None
    """Names that the cluster's resources must have, in order; null: the observation tells."""
    choose: Choose
    """How it chooses where a run does not say: by its probabilities, or the best action."""

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))  # as JSON, whose lists stand for tuples


def describe_view(
    shape: PerceptronShape | SetScorerShape, schema: ObservationSchema, actions: int,
    kind: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Return the description of an agent of a kind; `ViewDescription.read` reads it."""
    return {
        "architecture": shape.model_dump(mode="json"),
        "observation": schema.as_json(),
        "actions": {"type": "view", "count": actions},
        **kind,
    }


def of_view(
    view: AgentView, requires: Mapping[str, Any], *, resources: Sequence[str] | None = None,
    choose: Choose = "greedy",
) -> dict[str, Any]:  # fmt: skip
    """Return a kind of agent: the entries that say how it acts and where it may run."""
    names = None if resources is None else list(resources)
    return {
        "view": asdict(view), "requires": dict(requires), "resources": names, "choose": choose,
    }  # fmt: skip


def of_slots(
    observation: str, model: Slotted, mask: SlotMask, resources: Sequence[str]
) -> dict[str, Any]:
    """Return the kind of agents that choose among the numbered slots of a model."""
    view = AgentView(
        observation, slots=model.slots, horizon=model.horizon, max_length=model.max_length,
        backlog_shown=model.backlog_shown, memory=model.memory, unit=model.unit or 1.0, actions="slots",
        action_arguments={"mask": mask},
    )  # fmt: skip
    requires = {
        "scheduling.step": model.step_s, "admission.slots": model.slots,
        "admission.refill": "at_once", "admission.order": "fifo", "processes": [],
    }  # fmt: skip
    return of_view(view, requires, resources=resources, choose="sample")


def of_classes(observation: str, model: Slotted, starts: Starts, patience: int) -> dict[str, Any]:
    """Return the kind of agents that choose among burst classes, on any cluster."""
    arguments = {
        "step": model.step_s, "starts": starts, "patience": patience,
        "resources": model.resources,
    }  # fmt: skip
    view = AgentView(
        observation, slots=model.slots, horizon=model.horizon, backlog_shown=model.backlog_shown,
        actions="classes", action_arguments=arguments,
    )  # fmt: skip
    return of_view(view, {"admission.slots": None})


def of_ready_pool(
    observation: str, pool: ReadyPool, *, in_time: bool, **rules: Any
) -> dict[str, Any]:
    """Return the kind of agents that choose among the jobs of a ready pool.

    Args:
        observation: what is seen of it.
        pool: its dimensions.
        in_time: whether late jobs leave.
        **rules: other arguments of `ReadyActions`.
    """
    names = ("waiting", "horizon", "max_start", "longest", "worth")
    arguments = {name: getattr(pool, name) for name in names} | {"step": pool.step_s, **rules}
    view = AgentView(
        observation, slots=pool.ready, actions="ready-pool", action_arguments=arguments
    )
    requires = {
        "scheduling.step": pool.step_s, "admission.slots": pool.ready,
        "admission.late": "leave" if in_time else "stay",
    }  # fmt: skip
    return of_view(view, requires)


def up_to_date(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a description in today's form; each kind of agent once had a form of its own."""
    name, actions = stated["observation"]["name"], stated["actions"]
    if actions["type"] == "slots":
        model, count = Slotted(**stated["slotted"]), actions["count"]
        kind = of_slots(name, model, actions["mask"], stated["resources"])
        kind["choose"] = stated.get("choose", "sample")
    elif actions["type"] == "classes":
        count, names = actions["classes"] + 1, ("horizon", "backlog_shown", "step_s")
        model = class_model(
            actions["classes"], resources=len(stated["resources"]),
            **{name: stated[name] for name in names},
        )  # fmt: skip
        kind = of_classes(name, model, actions["starts"], actions.get("patience", 0))
    elif actions["type"] == "ready-pool":
        rules = {key: actions[key] for key in ("reject", "advance", "in_time")}
        names = ("ready", "waiting", "horizon", "longest", "worth", "step_s")
        pool = ReadyPool(
            len(stated["resources"]), max_start=actions["max_start"],
            **{name: stated[name] for name in names},
        )  # fmt: skip
        suspend = actions.get("suspend", 0)
        kind = of_ready_pool(name, pool, suspend=suspend, **rules)
        count = pool.ready * (2 if rules["reject"] else 1) + suspend + 1
    elif "requires" not in stated:  # of a view
        requires = {"scheduling.step": stated["step_s"]}
        if stated["step_s"] is not None:
            requires["admission.slots"] = stated["slots"]
        kind, count = of_view(AgentView(**stated["view"]), requires), actions["count"]
    else:
        return stated
    return {**stated, **kind, "actions": {"type": "view", "count": count}}
