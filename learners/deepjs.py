"""DeepJS's own algorithm: REINFORCE on a fitness of machine–task pairs, chunk after chunk.

F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data center"
(ICBDC 2019): a small network scores every pair that fits, a softmax over the scores draws which one
gets an instance, and every second costs 1 until the chunk is done. Training slides along the trace:
a chunk is played before it is trained on, so that the first iteration of each chunk judges the
agent on jobs that it has never seen. The details that the paper leaves open are those of its public
program. Arguments go beyond the paper: more features, a start at a simple rule, PPO's update, other
objectives. The learner `fitness` finds better schedules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from simkit.arrays import Floats
from simkit.errors import RunError, ScenarioError
from simkit.learners.common.arguments import Positive, Share, prepared
from simkit.learners.common.distributions import ragged_log_softmax
from simkit.learners.common.networks import Perceptron, seeded
from simkit.learners.common.objectives import clipped_gain, reinforce_gain
from simkit.learners.common.shapes import PerceptronShape, Width
from simkit.learners.common.torch_training import TorchTraining, weights_of
from simkit.learners.pairs.chunk_source import ChunkSource
from simkit.learners.pairs.description import describe
from simkit.learners.pairs.model import Trajectory, play, require_numba, roll_out
from simkit.learners.pairs.objectives import Objective
from simkit.learners.pairs.scorer import RULES, TERMS, FeatureSet, PairScorer, RuleName
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many, Section
from simkit.training import Training

RESOURCES: Final = ("cpu", "mem")
"""Resources of the clusters that the network's inputs are made for."""


class DeepJSArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 2000
    """Iterations in all: `repeats` for each chunk and number of machines; after the last chunk
    comes the first again."""
    jobs: Count = 10
    """Jobs of a chunk; each is scheduled on an empty cluster."""
    repeats: Count = 10
    """Iterations in a row on the same chunk."""
    rollouts: Count = 12
    """Times that the chunk is played in an iteration; the baseline is their mean."""
    hidden: Many[Width] = (3, 9, 6)
    """Units of the hidden layers, tanh each: 3, 9, 6 as in the paper, or 3, 9, 18, 9 as in its
    program."""
    features: FeatureSet = "paper"
    """What is seen of a pair: as in the paper, or ``terms``, which know the remaining work."""
    start: RuleName | None = None
    """The rule that the agent is at first, with ``terms`` alone; null: none."""
    sharpness: Positive = 30.0
    """What the rule's scores are multiplied by; the larger, the more rarely another pair is drawn
    than the rule's."""
    learning_rate: Positive = 0.001
    """Learning rate of Adam."""
    batch: Count = 1000
    """Decisions of a rollout per step of the optimiser."""
    update: Literal["reinforce", "ppo"] = "reinforce"
    """REINFORCE, as in the paper, or PPO's clipped gain."""
    epochs: Count = 1
    """Times that an iteration's rollouts are learned from; more than once with PPO alone."""
    clip: Share = 0.2
    """The ratio of probabilities in PPO is clipped to 1 ± this."""
    baseline: Literal["decision", "tick"] = "decision"
    """What a return is compared with: the mean return at the same number of decisions and ticks, as
    in the paper, or at the same tick."""
    objective: Objective = "makespan"
    """What is minimised: the makespan of a chunk, the mean ``turnaround`` or ``slowdown`` of its
    jobs, or ``weighted-turnaround``, a mean in which jobs count by their instances."""
    machines: Many[Count] = ()
    """Numbers of machines to train on, those of the cluster over and over; none: its own."""
    held_out_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the chunks, the last ones, that are held out to evaluate the agent; 0: none."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        broken: list[tuple[tuple[str], str]] = []
        given = self.model_fields_set
        if not self.hidden:
            broken.append((("hidden",), "is empty; give the units of at least one layer"))
        if self.start is not None and self.features == "paper":
            text = f"is {self.start}, which the paper's features cannot express"
            broken.append((("start",), f"{text}; write features: terms, or leave start out"))
        if self.epochs > 1 and self.update == "reinforce":
            text = f"is {self.epochs}, and REINFORCE learns from a rollout once"
            broken.append((("epochs",), f"{text}; write 1, or update: ppo"))
        if "sharpness" in given and self.start is None:
            broken.append(
                (("sharpness",), "is for a start at a rule; write start, or leave it out")
            )
        if "clip" in given and self.update == "reinforce":
            broken.append((("clip",), "is for PPO; write update: ppo, or leave it out"))
        if broken:
            raise BrokenRulesError(broken)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not bags of tasks on machines
    with cpu and mem, or arguments out of their range; PluginError without safetensors or numba.
    """
    require_numba()

    def source_of(chosen: DeepJSArguments) -> ChunkSource:
        source = ChunkSource.of(
            scenario, chosen.jobs, chosen.held_out_share, machines=chosen.machines
        )
        if chosen.features == "paper" and source.resources != RESOURCES:
            raise ScenarioError(
                f"cluster: its resources are {', '.join(source.resources)}, but the network sees "
                f"{', '.join(RESOURCES)}; take a trace of these"
            )
        return source

    chosen, source = prepared(DeepJSArguments, arguments, source_of, device)
    return DeepJSTraining(scenario, source, chosen, seed, device)


class DeepJSTraining(TorchTraining):
    """A training under way."""

    learner = "deepjs"
    extendable = True
    less_is_better = ("cost",)

    def __init__(
        self, scenario: Scenario, source: ChunkSource, arguments: DeepJSArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("pairs",))
        self.chosen, self.source, self.device = arguments, source, device
        # Agent
        paper, hidden = arguments.features == "paper", arguments.hidden
        self.blank = PairScorer.of_paper(hidden) if paper else PairScorer.by_terms({}, hidden)
        shape = PerceptronShape(type="perceptron", layers=self.blank.widths, activation="tanh")
        with seeded(self.stream("weights")):
            self._network = Perceptron(shape) if paper else _WithSum(shape, _first_sum(arguments))
        self._network.to(device)
        self.optimiser = torch.optim.Adam(self._network.parameters(), arguments.learning_rate)

    @property
    def network(self) -> Perceptron:
        return self._network

    @property
    def scorer(self) -> PairScorer:
        """The network as it is."""
        weights: dict[str, Any] = {"linear": self.blank.linear} | weights_of(self._network)
        return self.blank.with_named(weights, "training")

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``chunk``: its number; ``cost``: the objective, mean over rollouts; ``return``:
        minus that; ``cost_greedy``: if the likeliest pair is always taken, before a chunk is
        trained on; ``decisions``: instances that were placed.
        """
        # Rollout: N trajectories of D decisions each
        passed, place = divmod(self.iteration - 1, self.chosen.repeats)
        number = passed % len(self.source.trained)
        chunk, scorer, goal = self.source.trained[number], self.scorer, self.chosen.objective
        kinds = max(len(self.chosen.machines), 1)  # so often a chunk comes, one after the other
        is_new = place == 0 and passed == number and number % kinds == 0
        greedy = {"cost_greedy": play(chunk, scorer).cost(chunk, goal)} if is_new else {}
        rng = self.generators["pairs"]
        rollouts = [roll_out(chunk, scorer, rng) for _ in range(self.chosen.rollouts)]
        _check_ends([rollout.makespan for rollout in rollouts], f"chunk {number // kinds}")
        # Update: one step a batch, one rollout after another
        ahead = [rollout.cost_to_go(chunk, goal) for rollout in rollouts]
        better = advantages(rollouts, ahead, by_tick=self.chosen.baseline == "tick")
        clipped = self.chosen.update == "ppo"
        before = [self._log_probabilities(rollout) if clipped else None for rollout in rollouts]
        for _ in range(self.chosen.epochs):
            for rollout, advantage, old in zip(rollouts, better, before, strict=True):
                self._learn_from(rollout, advantage, old)
        # Logging
        cost = float(np.mean([one[0] for one in ahead]))  # all of it is ahead of the first tick
        told = {"chunk": number // kinds, "return": -cost, "cost": cost}
        return {**told, "decisions": float(sum(len(one.chosen) for one in rollouts)), **greedy}

    def _learn_from(self, rollout: Trajectory, advantage: Floats, before: Tensor | None) -> None:
        """Make a step of the optimiser for each batch of a rollout.

        Args:
            rollout: of D decisions.
            advantage: (D,)
            before: (D,) their log-probabilities when they were drawn; None: by REINFORCE.
        """
        for begin, end in self._batches(rollout):
            chosen = self._log_probability(rollout, begin, end)
            better = torch.from_numpy(advantage[begin:end].astype(np.float32)).to(self.device)
            if before is None:
                gain = reinforce_gain(chosen, better)
            else:
                gain = clipped_gain(chosen, before[begin:end], better, self.chosen.clip)
            self.optimiser.zero_grad()
            (-gain).backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()

    def _batches(self, rollout: Trajectory) -> Iterator[tuple[int, int]]:
        """Yield the first and the last decision, plus one, of each batch."""
        made, size = len(rollout.chosen), self.chosen.batch
        return ((begin, min(begin + size, made)) for begin in range(0, made, size))

    @torch.no_grad()
    def _log_probabilities(self, rollout: Trajectory) -> Tensor:
        """Return (D,) log-probabilities of all that was drawn, by the network as it is."""
        return torch.cat(
            [self._log_probability(rollout, *batch) for batch in self._batches(rollout)]
        )

    def _log_probability(self, rollout: Trajectory, begin: int, end: int) -> Tensor:
        """Return (end - begin,) log-probabilities of what was drawn, by the network as it is."""
        first = rollout.first[begin : end + 1]
        rows, place = np.unique(rollout.pairs[first[0] : first[-1]], return_inverse=True)
        seen = torch.from_numpy(rollout.seen[rows]).to(self.device)  # (U, F)
        logits = self._network(seen)[:, 0][torch.from_numpy(place).to(self.device)]  # (P,)
        decision = torch.from_numpy(np.repeat(np.arange(end - begin), np.diff(first)))
        chances = ragged_log_softmax(logits, decision.to(self.device), end - begin)
        drawn = torch.from_numpy(first[:-1] - first[0] + rollout.chosen[begin:end])
        return chances[drawn.to(self.device)]

    def evaluate(self) -> Mapping[str, float]:
        """Return the mean cost of held-out chunks, greedy, if there are any."""
        unseen, scorer = self.source.held_out, self.scorer
        if not unseen:
            return {}
        costs = [play(chunk, scorer).cost(chunk, self.chosen.objective) for chunk in unseen]
        _check_ends(costs, "a held-out chunk")
        return {"cost": float(np.mean(costs))}

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        scorer = self.scorer
        weights = {name: a.astype(np.float32) for name, a in scorer.weights.items()}
        self.write_weights(folder, weights, describe(scorer, self.source.resources), curve_end)


class _WithSum(Perceptron):
    """A perceptron plus a weighted sum of its inputs."""

    def __init__(self, shape: PerceptronShape, linear: Floats) -> None:
        """Begin with (F,) weights of the sum."""
        super().__init__(shape)
        self.linear = nn.Parameter(torch.from_numpy(linear.astype(np.float32)))

    def forward(self, seen: Tensor) -> Tensor:
        return super().forward(seen) + (seen @ self.linear)[..., None]


def _first_sum(arguments: DeepJSArguments) -> Floats:
    """Return (F,) first weights of the terms."""
    if arguments.start is None:
        return np.zeros(len(TERMS))
    return arguments.sharpness * RULES[arguments.start].linear


def _check_ends(costs: Sequence[float], chunk: str) -> None:
    """Raise RunError if a schedule has no end."""
    if np.isinf(costs).any():
        raise RunError(
            f"deepjs: {chunk}: rounding of released amounts keeps an instance that asks for all of "
            "a machine from ever fitting; leave its jobs out with workload.window"
        )


def advantages(
    rollouts: Sequence[Trajectory], ahead: Sequence[Floats], *, by_tick: bool = False
) -> list[Floats]:
    """Return (D,) how much better each decision of each rollout of a chunk turned out.

    Every tick ends with a node at which nothing is placed and which costs what builds up until the
    next. A decision's return is minus the cost from its tick on, and it is compared with the mean
    return over rollouts at its node: at the same number of decisions and ticks so far, where
    rollouts that are over count as 0, as in the paper; or, by tick, at the same tick. As in its
    program, the differences of all nodes, those of ticks too, are then made to have a mean of 0 and
    a standard deviation of 1.

    Args:
        rollouts: of the same chunk.
        ahead: (ticks,) for each rollout, the cost that builds up from each tick on.
        by_tick: what returns are compared with.
    """
    spans = [len(one) for one in ahead]
    ticks = [rollout.tick.astype(np.int64) for rollout in rollouts]
    # a decision's node, and that of each tick's end
    nodes = [np.arange(len(tick)) + tick for tick in ticks]
    ends = [
        np.searchsorted(tick, np.arange(span), side="right") + np.arange(span)
        for tick, span in zip(ticks, spans, strict=True)
    ]
    returns = np.zeros((len(rollouts), max(len(t) + s for t, s in zip(ticks, spans, strict=True))))
    at_tick = np.zeros((len(rollouts), max(spans)))
    for row, one in enumerate(ahead):
        at_tick[row, : len(one)] = -one
        returns[row, nodes[row]] = -one[ticks[row]]
        returns[row, ends[row]] = -one
    mean = (at_tick if by_tick else returns).mean(axis=0)
    found, rest = [], []
    for row, span in enumerate(spans):
        at, until = (ticks[row], np.arange(span)) if by_tick else (nodes[row], ends[row])
        found.append(returns[row, nodes[row]] - mean[at])
        rest.append(returns[row, ends[row]] - mean[until])
    everything = np.concatenate((*found, *rest))
    deviation = everything.std()
    return [(one - everything.mean()) / (deviation if deviation > 0 else 1.0) for one in found]
