"""The base of all trainings: seeds, streams of random numbers, and checkpoints.

A checkpoint holds all that a training needs to go on as if it had never been interrupted:

    checkpoint.json             iteration, identity of the training, numbers, generators' states
    checkpoint.safetensors      arrays
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from simkit.arrays import stream
from simkit.errors import RunError
from simkit.files import read_json, refuse_special
from simkit.learners.common.bundle import safetensors, write_bundle
from simkit.results.output_folder import after_defaults
from simkit.results.run_info import versions
from simkit.scenario import Scenario
from simkit.sections import Section
from simkit.training import Training
from simkit.training.held_out import JUDGED_BY


class Stateful(Protocol):
    """A part of a training with a state, such as a replay memory."""

    def state(self) -> dict[str, Any]:
        """Return the whole state, as arrays and plain values."""

    def restore(self, state: Mapping[str, Any], /) -> None:
        """Restore what `state` returned; raises an error if it does not fit this part."""


class SeededTraining(Training):
    """A training with checkpoints, whose random numbers all follow from one seed.

    A learner defines `parts`, what a checkpoint holds, and `iterate`, an iteration.
    """

    learner: str
    """The name of the learner."""

    chosen: Any
    """The learner's arguments."""

    def __init__(
        self, scenario: Scenario, chosen: Section, seed: int, streams: tuple[str, ...],
        learner: str | None = None,
    ) -> None:  # fmt: skip
        """Store the facts of the training and create its generators.

        Args:
            scenario: the scenario to train on.
            chosen: the learner's arguments, with ``iterations``.
            seed: seed of the training.
            streams: name of each generator whose state belongs to a checkpoint.
            learner: the name of the recipe; None: the algorithm's own.
        """
        self.learner = learner or self.learner
        self.scenario, self.chosen, self.seed = scenario, chosen, seed
        self.iteration, self.iterations = 0, int(getattr(chosen, "iterations"))  # noqa: B009
        self.generators = {name: self.stream(name) for name in streams}

    def stream(self, name: str) -> np.random.Generator:
        """Return a new generator for one purpose."""
        return stream(self.seed, f"{self.learner}.{name}")

    def parts(self) -> Mapping[str, Stateful]:
        """Return the parts of a checkpoint that are particular to this learner."""
        return {}

    def kept(self) -> Mapping[str, Stateful]:
        """Return the parts of a checkpoint that all trainings of this kind have."""
        return {}

    @abstractmethod
    def iterate(self) -> Mapping[str, float]:
        """Run an iteration; return the numbers that `simkit train` logs."""

    @property
    def held_out_metrics(self) -> tuple[str, ...]:
        source = getattr(self, "source", None)  # of the games, if they tell how the jobs fared
        return tuple(getattr(source, "held_out_metrics", ()))

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        """Criterion → the metric of runs that stands for it, unless it has the same name."""
        source = getattr(self, "source", None)
        return getattr(source, "metrics_of_runs", {})

    @property
    def _judged_by(self) -> str:
        """The metric of runs by which its agents are compared."""
        learn = self.scenario.learn
        criterion = (learn and learn.criterion) or self.criterion
        return self.metrics_of_runs.get(criterion, criterion)

    def step(self) -> Mapping[str, float]:
        self.iteration += 1
        return self.iterate()

    def save(self, folder: Path) -> None:
        parts = {name: part.state() for name, part in self._all_parts().items()}
        states = {name: dict(rng.bit_generator.state) for name, rng in self.generators.items()}
        Checkpoint(self.iteration, parts, states).write(folder, self.identity())

    def load(self, folder: Path) -> None:
        checkpoint = Checkpoint.read(folder, self.identity())
        try:
            for name, part in self._all_parts().items():
                part.restore(checkpoint.parts[name])
            for name, rng in self.generators.items():
                rng.bit_generator.state = checkpoint.generators[name]
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            text = f"{folder}: holds a damaged checkpoint ({error!r}); start the training over"
            raise RunError(text) from error
        self.iteration = checkpoint.iteration

    def _all_parts(self) -> Mapping[str, Stateful]:
        return {**self.kept(), **self.parts()}

    def write_weights(
        self,
        folder: Path,
        weights: Mapping[str, np.ndarray[Any, np.dtype[np.float32]]],
        description: Mapping[str, Any],
        curve_end: Mapping[str, float],
    ) -> None:
        """Write an agent's bundle.

        Args:
            folder: the bundle's folder.
            weights: arrays by name.
            description: entries of agent.json, with all keys of `REQUIRED`.
            curve_end: the last row of the metrics.
        """
        origin = {
            "versions": versions(), "curve_end": dict(curve_end), JUDGED_BY: self._judged_by,
            **self.identity(),
        }  # fmt: skip
        workload = origin["scenario"]["workload"]
        if "path" in workload:  # bundles are shared with others, who keep the file elsewhere
            workload["path"] = Path(workload["path"]).name
        write_bundle(folder, weights, {**description, **origin})

    def identity(self) -> dict[str, Any]:
        """Return what identifies this training; its agent's description holds it too."""
        return {
            "learner": self.learner,
            "arguments": self.chosen.model_dump(mode="json"),
            "seed": self.seed,
            "scenario": self.scenario.model_dump(mode="json", exclude={"learn"}),
        }


FACTS: Final = "checkpoint.json"
ARRAYS: Final = "checkpoint.safetensors"
Parts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training between two iterations."""

    iteration: int
    """Number of completed iterations."""
    parts: Parts
    """State of each part, such as ``weights``: arrays and plain values by name."""
    generators: Mapping[str, Mapping[str, Any]]
    """State of each random bit generator, by name."""

    def write(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Write the checkpoint to an existing folder.

        `identity` holds plain values that distinguish the training from others. Raises RunError if
        the folder cannot be written.
        """
        arrays, values = _separated(self.parts)
        facts = {
            "iteration": self.iteration, "identity": identity, "values": values,
            "generators": self.generators,
        }  # fmt: skip
        packed: bytes = safetensors().save(arrays)
        try:
            (folder / ARRAYS).write_bytes(packed)
            (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise RunError(f"{folder}: cannot write a checkpoint: {error.strerror}") from error

    @classmethod
    def read(cls, folder: Path, identity: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint that `write` wrote.

        Raises RunError if it is missing or damaged, or if it belongs to a training that differs in
        more than its number of iterations.
        """
        library = safetensors()
        from safetensors import SafetensorError

        try:
            facts = read_json(folder / FACTS)
            refuse_special(folder / ARRAYS)
            arrays = library.load((folder / ARRAYS).read_bytes())
            theirs, iteration = dict(facts["identity"]), int(facts["iteration"])
            values, generators = facts["values"], facts["generators"]
        except OSError as error:
            text = f"{folder}: cannot read a checkpoint: {error.strerror}; start the training over"
            raise RunError(text) from error
        except (
            ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError,
            SafetensorError,
        ) as error:  # fmt: skip
            text = f"{folder}: holds a damaged checkpoint ({error}); start the training over"
            raise RunError(text) from error
        ours = json.loads(json.dumps(identity))
        if problems := _differences(_without_iterations(ours), _without_iterations(theirs)):
            raise RunError("\n".join(f"{folder}: {text}" for text in problems))
        parts: dict[str, dict[str, Any]] = {name: dict(values[name]) for name in values}
        for name, array in arrays.items():
            part, _, own = name.partition("/")
            parts[part][own] = array
        return cls(iteration, parts, generators)


def _separated(parts: Parts) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the arrays, named ``part/name``, and the plain values of each part."""
    arrays, values = {}, {}
    for part, state in parts.items():
        values[part] = {n: v for n, v in state.items() if not isinstance(v, np.ndarray)}
        for name in state.keys() - values[part].keys():
            arrays[f"{part}/{name}"] = np.ascontiguousarray(state[name])
    return arrays, values


def _without_iterations(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return an identity without the number of iterations, its scenario with the keys of today.

    A learner whose checkpoints depend on this number, as by a schedule over the training, is not
    extendable: its folder is refused before its checkpoint is read.
    """
    found = dict(identity)
    if "scenario" in found:
        found["scenario"] = after_defaults(found["scenario"])
    arguments = identity.get("arguments")
    if isinstance(arguments, dict):
        found["arguments"] = {k: v for k, v in arguments.items() if k != "iterations"}
    return found


def _differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return where two trees of plain values differ, a line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            text
            for key in [*ours, *(key for key in theirs if key not in ours)]
            for text in _differences(ours.get(key), theirs.get(key), f"{path}.{key}".strip("."))
        ]
    if ours == theirs:
        return []
    return [
        f"belongs to another training: {path} is {theirs!r} there, {ours!r} here; make them equal, "
        "or begin in another folder"
    ]
