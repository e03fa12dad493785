"""An agent's bundle: a folder with the weights and a description of the agent.

    weights.safetensors   named arrays
    agent.json            architecture, observation schema with its hash, actions and view,
                          training scenario, learner, arguments, seed, versions, last metrics,
                          the SHA-256 of the weights and of each of its entries

A view is an `AgentView`: an observation and actions with their arguments, such as numbered slots,
burst classes or a ready pool. With it an agent decides in a run as it did in its training.

Reading one needs NumPy and safetensors, but not torch. The hashes reveal what was changed or
damaged after the agent was written. They are no signature: whoever changes a bundle on purpose can
compute them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, JsonValue

from simkit.agent.actions import SlotMask, Starts
from simkit.agent.burst_classes import class_model
from simkit.agent.encoder import ObservationSchema
from simkit.agent.ready_pool import ReadyPool
from simkit.agent.slotted import Slotted
from simkit.errors import PluginError, RunError
from simkit.files import SpecialFileError, parse_json, refuse_special
from simkit.gym.agent_view import AgentView
from simkit.learners.networks.inference import LARGEST_FLOW, PlainNetwork, plain_network
from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape, Shape
from simkit.scenario.bundled import DESCRIPTION
from simkit.sections import Section

Array = npt.NDArray[Any]

FORMAT: Final = 1
"""The version of the format that this module writes and reads."""
WEIGHTS: Final = "weights.safetensors"
REQUIRED: Final = ("architecture", "observation", "actions")
"""Keys that every description has."""
HASHES: Final = "sha256"
"""The key of the hashes: dotted entry → SHA-256 of its value as canonical JSON."""
LARGEST: Final = {DESCRIPTION: 10**7, WEIGHTS: 10**9}
"""Largest allowed size of each file in bytes; agents that simkit trains stay below a hundredth."""


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle."""

    folder: Path
    weights: Mapping[str, Array]
    """Array by name."""
    description: Mapping[str, Any]
    """The content of agent.json."""


def write_bundle(
    folder: Path, weights: Mapping[str, Array], description: Mapping[str, Any]
) -> None:
    """Write a bundle; a missing folder is created, and a bundle in it is replaced.

    Args:
        folder: the bundle's folder.
        weights: finite float32 arrays by name: ``layers.0.weight`` (in, out), ….
        description: plain values, with all keys of `REQUIRED`.

    Raises RunError if weights are not finite, a key is missing or the folder cannot be written.
    """
    problems = _wrong_weights(weights)
    problems += [f"the description lacks {key!r}" for key in REQUIRED if key not in description]
    if problems:
        raise RunError("\n".join(f"agent {folder}: {text}" for text in problems))
    library = safetensors()
    plain = {name: np.ascontiguousarray(weights[name]) for name in sorted(weights)}
    packed: bytes = library.save(plain)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / WEIGHTS).write_bytes(packed)
    except OSError as error:
        raise RunError(f"{folder}: the agent cannot be written: {error.strerror}") from error
    stated = {"format": FORMAT, **description, "weights_sha256": sha256(packed).hexdigest()}
    _write_description(folder / DESCRIPTION, stated)


def hash_bundle(folder: Path) -> None:
    """Recompute the hashes in an agent.json, after you have checked every entry of it.

    Raises RunError if the file is missing or does not describe an agent.
    """
    _write_description(folder / DESCRIPTION, _read_description(folder / DESCRIPTION))


def _write_description(path: Path, stated: Mapping[str, Any]) -> None:
    entries = {name: value for name, value in stated.items() if name != HASHES}
    text = json.dumps(
        entries | {HASHES: _hashes(entries)}, indent=1, ensure_ascii=False, allow_nan=False
    )
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path}: the agent cannot be written: {error.strerror}") from error


def _hashes(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each entry, and of each entry of a mapping: ``actions.mask``."""
    values: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(entries)).items():
        if isinstance(value, dict) and value:
            values |= {f"{name}.{below}": part for below, part in value.items()}
        else:
            values[name] = value
    return {
        name: sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        for name, value in values.items()
    }


def read_bundle(folder: Path) -> Bundle:
    """Read a bundle, and check that it is complete and as it was written.

    Raises RunError that names what is missing, changed or damaged; PluginError if safetensors is
    not installed.
    """
    where = folder / DESCRIPTION
    description = _read_description(where)
    if changed := _changed(description):
        raise RunError("\n".join(f"{where}: {text}" for text in changed))
    library, path = safetensors(), folder / WEIGHTS
    packed = _read(path, "train the agent again")
    if sha256(packed).hexdigest() != description.get("weights_sha256"):
        raise RunError(
            f"{path}: is not the file that {DESCRIPTION} describes (its sha256 differs); restore "
            "the bundle or train the agent again"
        )
    try:
        weights = library.load(packed)
    except Exception as error:  # SafetensorError, types that NumPy lacks, lack of memory
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RunError(
            f"{path}: is not a file of weights ({reason}); restore the bundle or train the agent "
            "again"
        ) from error
    if problems := _wrong_weights(weights):
        raise RunError("\n".join(f"{path}: {text}; train the agent again" for text in problems))
    return Bundle(folder, weights, description)


def _wrong_weights(weights: Mapping[str, Array]) -> list[str]:
    """Return which weights are not float32 or not finite, a line each."""
    problems = []
    for name, array in weights.items():
        if array.dtype != np.float32:
            problems.append(f"{name} holds {array.dtype}; weights are float32")
        elif not np.isfinite(array).all():
            problems.append(f"{name} holds numbers that are not finite")
    return problems


def _changed(description: Mapping[str, Any]) -> list[str]:
    """Return which entries were changed since the agent was written, a line each."""
    stated = description.get(HASHES)
    if not isinstance(stated, Mapping):
        return [
            f"has no hashes of its entries (key {HASHES}); train the agent again, or, if you trust "
            "every entry, add them: `from simkit.learners.common.bundle import hash_bundle; "
            "hash_bundle(Path(…))`"
        ]
    actual = _hashes({name: value for name, value in description.items() if name != HASHES})
    remedy = "restore the bundle or train the agent again"
    return [
        f"{name} {_change(name in stated, name in actual)} after the agent was written; {remedy}"
        for name in [*stated, *(name for name in actual if name not in stated)]
        if stated.get(name) != actual.get(name)
    ]


def _change(before: bool, now: bool) -> str:
    return "was changed" if before and now else "was added" if now else "was removed"


def _read(path: Path, remedy: str) -> bytes:
    """Return the content of a regular file within its size limit, or raise RunError."""
    try:
        refuse_special(path)
        size, most = path.stat().st_size, LARGEST[path.name]
        if size > most:
            raise RunError(
                f"{path}: has {size:,} bytes, but an agent's has at most {most:,}; {remedy}"
            )
        return path.read_bytes()
    except SpecialFileError as error:
        raise RunError(f"{path}: {error}") from error
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}; {remedy}") from error
    except MemoryError as error:
        raise RunError(f"{path}: does not fit into memory; {remedy}") from error


def _read_description(path: Path) -> dict[str, Any]:
    text = _read(path, "give the folder of an agent")
    try:
        found = parse_json(text)
    except ValueError as error:
        raise RunError(
            f"{path}: is not the JSON of an agent ({error}); restore the bundle or train the agent "
            "again"
        ) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        shown = found.get("format") if isinstance(found, dict) else None
        raise RunError(
            f"{path}: is of format {shown}, but this simkit reads format {FORMAT}; train the agent "
            "again, or use the simkit that wrote it"
        )
    if dotted := [key for key in found if "." in key]:
        raise RunError(
            f"{path}: {', '.join(dotted)} has a dot, which stands between a key and the key below "
            "it; restore the bundle or train the agent again"
        )
    if missing := [key for key in REQUIRED if key not in found]:
        raise RunError(f"{path}: {', '.join(missing)} is missing; train the agent again")
    if wrong := [key for key in REQUIRED if not isinstance(found[key], dict)]:
        raise RunError(
            f"{path}: {', '.join(wrong)} must be an object with keys, as simkit wrote it; restore "
            "the bundle or train the agent again"
        )
    return found


def safetensors() -> ModuleType:
    """Return safetensors' module for NumPy; raises PluginError if it is not installed."""
    try:
        import safetensors.numpy
    except ModuleNotFoundError as error:
        raise PluginError(
            "agents need safetensors, which is not installed; pip install 'simkit-cluster[agents]'"
        ) from error
    return safetensors.numpy


def network_of(
    bundle: Bundle, shape: Shape, inputs: int, actions: int, largest: float = 1.0
) -> PlainNetwork:
    """Return a bundle's network.

    Args:
        bundle: the bundle with the weights.
        shape: the architecture.
        inputs: how many numbers an observation has.
        actions: number of actions.
        largest: largest magnitude of a number in an observation.

    Raises RunError unless architecture, weights, observation and actions fit together.
    """
    where = bundle.folder / DESCRIPTION
    if (shape.inputs, shape.outputs) != (inputs, actions):
        raise RunError(
            f"{where}: the architecture has {shape.inputs} inputs and {shape.outputs} outputs, but "
            f"the observation has {inputs} numbers and there are {actions} actions; train it again"
        )
    try:
        network = plain_network(shape, bundle.weights)
    except RunError as error:
        raise RunError(f"{where}: {error}; train it again") from error
    if not network.largest(largest) <= LARGEST_FLOW:
        raise RunError(
            f"{bundle.folder / WEIGHTS}: the weights are so large that scores could exceed "
            f"{LARGEST_FLOW:g}; restore the bundle or train the agent again"
        )
    return network


Choose = Literal["sample", "greedy"]
"""How an agent chooses: by its network's probabilities, or the action with the highest score."""


class ViewActions(Section):
    """How many actions there are; the view says what they mean."""

    type: Literal["view"]
    count: Annotated[int, Field(ge=2, le=1_000_000)]


class Description(Section):
    """What agent.json says of how an agent acts; the other entries are ignored."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def read(cls, stated: Mapping[str, Any]) -> Self:
        """Return the description; raises pydantic's ValidationError."""
        mine = {key: stated[key] for key in cls.model_fields if key in stated}
        return cls.model_validate_json(json.dumps(mine))  # as JSON, whose lists stand for tuples


class ViewDescription(Description):
    """What an agent sees and does, and where it may run."""

    architecture: Shape
    observation: dict[str, Any]  # that of an `ObservationSchema`
    actions: ViewActions
    view: AgentView
    """What it sees and what its actions mean."""
    requires: dict[str, JsonValue]
    """Dotted key of the scenario → the value that it must have, as in the training."""
    resources: tuple[str, ...] | None
    """Names that the cluster's resources must have, in order; null: the observation tells."""
    choose: Choose
    """How it chooses where a run does not say: by its probabilities, or the best action."""


def describe_view(
    shape: PerceptronShape | SetScorerShape, schema: ObservationSchema, kind: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the description of an agent of a kind; `ViewDescription.read` reads it."""
    return {
        "architecture": shape.model_dump(mode="json"),
        "observation": schema.as_json(),
        "actions": {"type": "view", "count": shape.outputs},
        **kind,
    }


def of_view(
    view: AgentView, requires: Mapping[str, Any], *, resources: Sequence[str] | None = None,
    choose: Choose = "greedy",
) -> dict[str, Any]:  # fmt: skip
    """Return a kind of agent: the entries that say how it acts and where it may run."""
    names = None if resources is None else list(resources)
    return {
        "view": view.model_dump(mode="json"), "requires": dict(requires), "resources": names,
        "choose": choose,
    }  # fmt: skip


def of_slots(
    observation: str, model: Slotted, mask: SlotMask, resources: Sequence[str]
) -> dict[str, Any]:
    """Return the kind of agents that choose among the numbered slots of a model."""
    view = AgentView(
        observation=observation, slots=model.slots, horizon=model.horizon,
        max_length=model.max_length, backlog_shown=model.backlog_shown, memory=model.memory,
        unit=model.unit or 1.0, actions="slots", action_arguments={"mask": mask},
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
        observation=observation, slots=model.slots, horizon=model.horizon,
        backlog_shown=model.backlog_shown, actions="classes", action_arguments=arguments,
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
        observation=observation, slots=pool.ready, actions="ready-pool", action_arguments=arguments
    )
    requires = {
        "scheduling.step": pool.step_s, "admission.slots": pool.ready,
        "admission.late": "leave" if in_time else "stay",
    }  # fmt: skip
    return of_view(view, requires)


def up_to_date(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a description in today's form; each kind of agent once had a form of its own."""
    actions, kind = stated["actions"], dict[str, Any]()
    name = stated["observation"].get("name")

    def given(*names: str) -> dict[str, Any]:
        return {name: stated[name] for name in names}

    if actions["type"] == "slots":
        model, count = Slotted(**stated["slotted"]), actions["count"]
        kind = of_slots(name, model, actions["mask"], stated["resources"])
        kind["choose"] = stated.get("choose", "sample")
    elif actions["type"] == "classes":
        own, count = given("horizon", "backlog_shown", "step_s"), actions["classes"] + 1
        model = class_model(actions["classes"], resources=len(stated["resources"]), **own)
        kind = of_classes(name, model, actions["starts"], actions.get("patience", 0))
    elif actions["type"] == "ready-pool":
        own = given("ready", "waiting", "horizon", "longest", "worth", "step_s")
        pool = ReadyPool(len(stated["resources"]), max_start=actions["max_start"], **own)
        rules = {key: value for key, value in actions.items() if key not in ("type", "max_start")}
        kind = of_ready_pool(name, pool, **rules)
        count = pool.ready * (2 if rules["reject"] else 1) + rules.get("suspend", 0) + 1
    elif actions["type"] == "view" and "requires" not in stated:
        keys = {"step_s": "scheduling.step", "slots": "admission.slots"}
        requires = {key: stated[own] for own, key in keys.items() if stated["step_s"] is not None}
        kind = of_view(AgentView(**stated["view"]), requires or {"scheduling.step": None})
        count = actions["count"]
    else:
        return stated
    return {**stated, **kind, "actions": {"type": "view", "count": count}}
