"""Trained agents as policies: loads any agent, and defines that of numbered slots.

policy: {agent: trainings/mine}
policy: {agent: deeprm-70, args: {choose: greedy}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from pydantic import ValidationError

from simkit.agent.actions import SlotActions, slot_actions_as_json
from simkit.agent.encoder import Encoder, ObservationSchema, differing_entries
from simkit.agent.observation import make_encoder
from simkit.agent.slotted_tracker import SlottedTracker
from simkit.arrays import Bools
from simkit.errors import RunError, ScenarioError, SimkitError
from simkit.learners.classes.agent import ClassAgent
from simkit.learners.classes.description import ClassDescription
from simkit.learners.common.bundle import Bundle, network_of, read_bundle
from simkit.learners.common.inference import masked_log_softmax
from simkit.learners.games.slot_description import Actions, AgentDescription
from simkit.learners.games.view_agent import ViewAgent, ViewDescription
from simkit.learners.pairs.agent import PairAgent, PairDescription
from simkit.learners.pool.agent import PoolAgent, PoolDescription
from simkit.learners.ready_pool.agent import ReadyAgent
from simkit.learners.ready_pool.description import ReadyDescription
from simkit.policy import Place, State, SystemInfo, Task
from simkit.scenario import Scenario
from simkit.scenario.bundled import DESCRIPTION, agent_label
from simkit.scenario.overrides import dotted
from simkit.sections import Section, problems_of

PATIENCE: Final = 200
"""Default number of steps without a placement after which a task is placed anyway."""

Choose = Literal["sample", "greedy"]


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
        choose: for slots, pairs and ready pools. ``sample`` draws each action from the network's
            probabilities, as in training; ``greedy`` takes the most probable one, which with slots
            may never schedule some jobs. None: as the bundle says for slots, else ``greedy``.
        patience: for slots. After this many steps in which a task fitted but none was placed, the
            task that can begin soonest is placed anyway, so that a run ends; None: `PATIENCE`.
        compat: for pairs. Another simulator whose rules of time the agent follows.
        keep: for classes. Whether the agent keeps the places that it has planned ahead, as in
            training, or plans anew at every decision, which suits inexact run times; None: keep.
        step: for classes. The run time that a class stands for; None: as in training.

    Raises RunError for a damaged bundle, ScenarioError, all problems at once, for wrong arguments
    and for a scenario that differs from the agent's training.
    """
    if choose not in (None, "sample", "greedy"):
        raise ScenarioError(f"agent: choose is {choose!r}; it must be sample or greedy")
    if patience is not None and (
        isinstance(patience, bool) or not isinstance(patience, int) or patience < 1
    ):
        raise ScenarioError(
            f"agent: patience is {patience!r}; it must be a number of steps, at least 1"
        )
    if keep is not None and not isinstance(keep, bool):
        raise ScenarioError(f"agent: keep is {keep!r}; it must be true or false")
    given = {"choose": choose, "patience": patience, "compat": compat, "keep": keep, "step": step}
    agent = _build(read_bundle(folder), given, scenario)
    kind, accepted, because = _ACCEPTED[type(agent)]
    if others := [k for k, value in given.items() if value is not None and k not in accepted]:
        raise ScenarioError(
            f"agent {agent.name}: {' and '.join(others)} {'are' if len(others) > 1 else 'is'} not "
            f"for agents of {kind}, {because}; leave {'them' if len(others) > 1 else 'it'} out"
        )
    if scenario is not None and (problems := agent.differences(scenario)):
        raise ScenarioError([f"agent {agent.name}: {text}" for text in problems])
    return agent


def _build(bundle: Bundle, given: Mapping[str, Any], scenario: Scenario | None) -> Agent:
    """Return the agent; raises RunError if the description is malformed."""
    where, remedy = bundle.folder / DESCRIPTION, "restore the bundle or train the agent again"
    kind = str(bundle.description["actions"].get("type"))  # a damaged one may be a list
    models: dict[str, type[Section]] = {
        "jobs": PoolDescription, "pairs": PairDescription, "classes": ClassDescription,
        "ready-pool": ReadyDescription, "view": ViewDescription,
    }  # fmt: skip
    model, stated = models.get(kind, AgentDescription), bundle.description
    try:
        if kind == "jobs":
            return PoolAgent.of(bundle, PoolDescription.read(stated))
        if kind == "pairs":
            choose: Choose = given["choose"] or "greedy"
            compat = given["compat"]
            return PairAgent.of(bundle, PairDescription.read(stated), choose=choose, compat=compat)
        if kind == "classes":
            keep = True if given["keep"] is None else given["keep"]
            return ClassAgent(bundle, ClassDescription.read(stated), keep=keep, step=given["step"])
        if kind == "ready-pool":
            choose = given["choose"] or "greedy"
            return ReadyAgent(bundle, ReadyDescription.read(stated), choose=choose)
        if kind == "view":
            return ViewAgent(bundle, ViewDescription.read(stated), scenario)
        described = AgentDescription.read(stated)
        choose = given["choose"] or described.choose
        patience = given["patience"] or PATIENCE
        return SlottedAgent(bundle, described, choose=choose, patience=patience)
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


class SlottedAgent:
    """A `Policy` whose network chooses among numbered slots.

    Attributes:
        name: the bundle's name.
        model: the slotted model that it was trained on.
        forced: number of tasks in this run that were placed because `patience` ran out.
        probability: probability of the last action; 1 if the agent is greedy.
    """

    def __init__(
        self, bundle: Bundle, described: AgentDescription, *, choose: Choose, patience: int
    ) -> None:
        """Build the agent; raises RunError if parts of the bundle do not fit together."""
        self.name = agent_label(bundle.folder)
        self.forced = 0
        self._where = bundle.folder / DESCRIPTION
        try:
            self.model = described.model
        except ScenarioError as error:
            raise RunError(f"{self._where}: {error}; train the agent again") from error
        self._resources = described.resources
        self._observation = ObservationSchema.from_json(described.observation)
        if ":" in self._observation.name:
            raise RunError(
                f"{self._where}: observation.name is {self._observation.name!r}, "
                "which is code; an agent is data, and must name an observation of simkit"
            )
        largest = max(max(abs(part.low), abs(part.high)) for part in self._observation.fields)
        self._network = network_of(
            bundle, described.architecture, self._observation.size, self.model.actions, largest
        )
        self._masked = described.actions.mask
        self._refuse_other_actions(described.actions)
        self._greedy = choose == "greedy"
        self._patience = patience
        self._tracker = SlottedTracker(self.model)
        self._actions = SlotActions(self._tracker)
        self._encoder: Encoder | None = None
        self._rng = np.random.default_rng(0)  # until a run gives its own
        self._idle_since: float | None = None

    def _refuse_other_actions(self, described: Actions) -> None:
        stated = described.model_dump(exclude={"mask"})
        expected = slot_actions_as_json(self.model.slots)
        if differing := differing_entries("actions", expected, stated):
            raise RunError("\n".join(f"{self._where}: {text}" for text in differing))

    def differences(self, scenario: Scenario) -> list[str]:
        """Return how a scenario differs from the agent's training, a line each."""
        admission, scheduling = scenario.admission, scenario.scheduling
        wanted = {
            "admission.slots": (admission.slots, self.model.slots),
            "admission.refill": (admission.refill, "at_once"),
            "admission.order": (admission.order, "fifo"),
            "scheduling.step": (getattr(scheduling, "step", None), self.model.step_s),
        }
        problems = [
            f"{key} is {_shown(given)} in the scenario, {_shown(trained)} in its training; use "
            "that, or train an agent on this scenario"
            for key, (given, trained) in wanted.items()
            if given != trained
        ]
        if scenario.processes:
            problems.append("processes are set, but it was trained without any; leave them out")
        return problems

    def reset(self, info: SystemInfo, rng: np.random.Generator) -> None:
        """Begin a run.

        Raises ScenarioError if the cluster or the observation differs from that of the training.
        """
        problems = self.check_cluster(info)
        if problems:
            raise ScenarioError(problems)
        self._tracker.reset(info)
        self._encoder = make_encoder(self._observation.name, info, self._tracker)
        if differing := self._encoder.schema.differences(self._observation):
            raise ScenarioError(
                [
                    f"agent {self.name}: observation {self._observation.name}: {text} (there: in "
                    "its training); train it again"
                    for text in differing
                ]
            )
        self._encoder.reset(info)
        self._rng, self.probability = rng, 1.0
        self._idle_since = None
        self.forced = 0

    def check_cluster(self, info: SystemInfo) -> list[str]:
        """Return how a cluster differs from that of the agent's training, a line each."""
        if self._resources != info.resources:
            return [
                f"agent {self.name}: the cluster's resources are {', '.join(info.resources)}, but "
                f"in its training they were {', '.join(self._resources)}; use the same names, in "
                "this order"
            ]
        try:
            SlottedTracker(self.model).reset(info)
        except ScenarioError as error:
            return [f"agent {self.name}: {text}" for text in error.problems]
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            reason = str(error) or type(error).__name__
            return [
                f"agent {self.name}: its slotted model cannot be built ({reason}); restore the "
                "bundle or train the agent again"
            ]
        return []

    def schedule(self, state: State) -> Iterator[Place]:
        """Place tasks until the network lets time go on, or chooses a task that does not fit."""
        assert self._encoder is not None
        tracker = self._tracker
        tracker.update(state)
        tracker.refuse_too_long(f"agent {self.name}", "train an agent with a longer horizon")
        placed = False
        while (place := self._actions.action_of(state, self._choose(state))) is not None:
            yield place
            tracker.update(state)
            placed = True
        if not placed and self._is_out_of_patience(state.now):
            self.probability = 1.0
            yield self._soonest()
            tracker.update(state)
            placed = True
            self.forced += 1
        if placed:
            self._idle_since = None

    def scores(self, state: State) -> dict[Task, float]:
        """Return the network's score of each waiting task in a slot; higher is likelier."""
        assert self._encoder is not None
        logits = self._network.logits(self._encoder.encode(state).reshape(-1))
        slots = enumerate(self._tracker.tasks)
        return {
            task: float(logits[slot]) for slot, task in slots if task is not None and task.waiting
        }

    def why(self, state: State, task: Task) -> str:
        """Return why a waiting task waits."""
        if task not in self._tracker.tasks:
            return f"it is in none of the {self.model.slots} slots that the agent sees"
        return "the network lets time go on, or chooses another task"

    def _choose(self, state: State) -> int:
        """Return the next action."""
        assert self._encoder is not None
        observation = self._encoder.encode(state).reshape(-1)
        log_probs = masked_log_softmax(self._network.logits(observation), self._allowed(state))
        if self._greedy:
            return int(log_probs.argmax())
        cumulative = np.exp(log_probs, dtype=np.float64).cumsum()
        drawn = int(np.searchsorted(cumulative, self._rng.random() * cumulative[-1], side="right"))
        drawn = min(drawn, self.model.slots)
        self.probability = float(np.exp(log_probs[drawn]))
        return drawn

    def _allowed(self, state: State) -> Bools | None:
        """Return (M + 1,) which actions are allowed; None: all."""
        if self._masked == "none":
            return None
        if self._masked == "now":
            return self._actions.mask_now(state).view(np.bool_)
        mask = self._actions.mask(state).view(np.bool_).copy()
        if self._masked == "ahead":
            mask[-1] = not mask[:-1].any()
        return mask

    def _is_out_of_patience(self, now: float) -> bool:
        """Return whether a task fits, but none has been placed for too long."""
        if not self._fitting():
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since >= self._patience * self.model.step_s

    def _fitting(self) -> list[tuple[int, int]]:
        """Return (earliest start in steps, slot) for each task that can be placed."""
        starts = ((self._tracker.earliest(slot), slot) for slot in range(self.model.slots))
        return [(start, slot) for start, slot in starts if start >= 0]

    def _soonest(self) -> Place:
        place = self._tracker.place(min(self._fitting())[1])
        assert place is not None
        return place


def _shown(value: object) -> str:
    return "not set" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


Agent = SlottedAgent | PoolAgent | PairAgent | ClassAgent | ReadyAgent | ViewAgent
_ACCEPTED: Final[Mapping[type, tuple[str, frozenset[str], str]]] = {
    SlottedAgent: ("numbered slots", frozenset({"choose", "patience"}), "which only know slots"),
    PoolAgent: ("a pool", frozenset(), "which pick the job with the highest score"),
    PairAgent: (
        "machine–task pairs", frozenset({"choose", "compat"}), "which place until nothing fits",
    ),
    ClassAgent: (
        "burst classes", frozenset({"keep", "step"}), "which place the highest-scoring class",
    ),
    ReadyAgent: ("a ready pool", frozenset({"choose"}), "which act as in their training"),
    ViewAgent: ("a view", frozenset(), "which take the action with the highest score"),
}  # fmt: skip
"""Agent class → what it acts on, accepted arguments, why no others."""
