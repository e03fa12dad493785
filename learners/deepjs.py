"""DeepJS's own algorithm: REINFORCE on a scorer of machine–task pairs, chunk after chunk.

F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data center"
(ICBDC 2019): a small network scores every pair that fits, the pair that gets an instance is drawn
from a softmax over the scores, and every second costs 1 until the chunk is done. Training slides
along the trace: a chunk is played before it is trained on, so the first iteration of each chunk
tests the agent on jobs that it has never seen. Details that the paper leaves open are those of its
public program. Some arguments go beyond the paper, for its comparison with `fitness`, which finds
better schedules: more features, a start at a simple rule, PPO's update. It is no case of
`reinforce`, whose games step a fixed number of actions, while the number of pairs changes with each
decision, and compiled code draws a whole rollout of thousands at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from simkit.arrays import Floats
from simkit.errors import RunError, ScenarioError
from simkit.learners.common.arguments import Positive, prepared
from simkit.learners.common.returns import credit
from simkit.learners.common.torch_training import TorchTraining, weights_of
from simkit.learners.networks.build import Perceptron, seeded
from simkit.learners.networks.distributions import clipped_gain, ragged_log_softmax, reinforce_gain
from simkit.learners.networks.shapes import PerceptronShape, Width
from simkit.learners.scorers.agent import describe_pairs
from simkit.learners.scorers.pair_model import CLOCK, Trajectory, play, roll_out
from simkit.learners.scorers.pair_scorer import RULES, TERMS, FeatureSet, PairScorer, RuleName
from simkit.learners.scorers.sources import ChunkSource
from simkit.machine_code import kernels
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many, Section
from simkit.training import Training

RESOURCES: Final = ("cpu", "mem")
"""The resources that the paper's features describe."""
SHARPNESS: Final = 30.0
"""Factor of a rule's scores at the start; the larger it is, the more rarely a pair other than the
rule's is drawn."""
CLIP: Final = 0.2
"""The ratio of probabilities in PPO is clipped to 1 ± this."""


class DeepJSArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 2000
    """Iterations of the training: `repeats` for each chunk and number of machines; the first chunk
    follows the last one."""
    jobs: Count = 10
    """Jobs of a chunk; each is scheduled on an empty cluster."""
    repeats: Count = 10
    """Iterations in a row on the same chunk."""
    rollouts: Count = 12
    """Rollouts of the chunk in an iteration; the baseline is their mean."""
    hidden: Many[Width] = (3, 9, 6)
    """Units of the hidden layers, with tanh: 3, 9, 6 as in the paper, or 3, 9, 18, 9 as in its
    program."""
    features: FeatureSet = "paper"
    """Features of a pair: those of the paper, or ``terms``, which include the remaining work."""
    start: RuleName | None = None
    """Rule at which the agent starts, only with ``terms``; null: none."""
    learning_rate: Positive = 0.001
    """Learning rate of Adam."""
    batch: Count = 1000
    """Decisions of a rollout per step of the optimiser."""
    update: Literal["reinforce", "ppo"] = "reinforce"
    """REINFORCE, as in the paper, or PPO's clipped gain."""
    epochs: Count = 1
    """Passes over the rollouts of an iteration; more than one only with PPO."""
    baseline: Literal["decision", "tick"] = "decision"
    """Baseline of a return: the mean return at the same number of decisions and ticks, as in the
    paper, or at the same tick."""
    machines: Many[Count] = ()
    """Numbers of machines to train on, made by repeating the cluster's; none: the cluster itself.
    """
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the chunks, taken from the end, that is held out to evaluate the agent; 0: none."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        broken: list[tuple[tuple[str], str]] = []
        if not self.hidden:
            broken.append((("hidden",), "is empty; give the units of at least one layer"))
        if self.start is not None and self.features == "paper":
            text = f"is {self.start}, which the paper's features cannot express"
            broken.append((("start",), f"{text}; write features: terms, or leave start out"))
        if self.epochs > 1 and self.update == "reinforce":
            text = f"is {self.epochs}, but REINFORCE learns only once from a rollout"
            broken.append((("epochs",), f"{text}; write 1, or update: ppo"))
        if broken:
            raise BrokenRulesError(broken)
        return self


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a new training; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not bags of tasks on machines
    with cpu and mem, or arguments out of range; PluginError without safetensors or numba.
    """
    kernels(CLOCK)

    def source_of(chosen: DeepJSArguments) -> ChunkSource:
        source = ChunkSource.of(
            scenario,
            chosen.jobs,
            chosen.held_out,
            "learn.learner: deepjs",
            machines=chosen.machines,
        )
        if chosen.features == "paper" and source.resources != RESOURCES:
            raise ScenarioError(
                f"cluster: its resources are {', '.join(source.resources)}, but the network sees "
                f"{', '.join(RESOURCES)}; use a trace with these"
            )
        return source

    chosen, source = prepared(DeepJSArguments, arguments, source_of, device)
    return DeepJSTraining(scenario, source, chosen, seed, device)


class DeepJSTraining(TorchTraining):
    """A training with DeepJS."""

    learner = "deepjs"
    extendable = True
    criterion = "cost"
    metrics_of_runs: ClassVar = {"cost": "makespan_s"}
    held_out_metrics = ("cost",)
    chosen: DeepJSArguments
    network: Perceptron

    def __init__(
        self, scenario: Scenario, source: ChunkSource, chosen: DeepJSArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        # Environment
        super().__init__(scenario, chosen, seed, ("pairs",))
        self.source, self.device = source, device
        # Agent
        paper, hidden = chosen.features == "paper", chosen.hidden
        self.blank = PairScorer.of_paper(hidden) if paper else PairScorer.by_terms({}, hidden)
        shape = PerceptronShape(type="perceptron", layers=self.blank.widths, activation="tanh")
        with seeded(self.stream("weights")):
            self.network = Perceptron(shape) if paper else _WithSum(shape, _first_sum(chosen))
        self.network.to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), chosen.learning_rate)

    @property
    def scorer(self) -> PairScorer:
        """The current network as a scorer."""
        weights: dict[str, Any] = {"linear": self.blank.linear} | weights_of(self.network)
        return self.blank.of_bundle(weights, "training")

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``chunk``: its number; ``cost``: the makespan, mean over rollouts; ``return``: minus the
        cost; ``cost_greedy``: cost if the likeliest pair is always taken, before the chunk is
        trained on; ``decisions``: instances placed.
        """
        # Rollout: N trajectories of D decisions each
        turn, repeat = divmod(self.iteration - 1, self.chosen.repeats)
        number = turn % len(self.source.trained)
        chunk, scorer = self.source.trained[number], self.scorer
        sizes = max(len(self.chosen.machines), 1)  # a chunk comes once for each number of machines
        is_new = repeat == 0 and turn == number and number % sizes == 0
        greedy = {"cost_greedy": play(chunk, scorer).makespan} if is_new else {}
        rng = self.generators["pairs"]
        rollouts = [roll_out(chunk, scorer, rng) for _ in range(self.chosen.rollouts)]
        _refuse_endless([rollout.makespan for rollout in rollouts], f"chunk {number // sizes}")
        # Update
        self._update(rollouts, advantages(rollouts, by_tick=self.chosen.baseline == "tick"))
        # Logging
        cost = float(np.mean([rollout.makespan for rollout in rollouts]))
        decisions = float(sum(len(rollout.chosen) for rollout in rollouts))
        return {
            "chunk": number // sizes, "return": -cost, "cost": cost, "decisions": decisions,
            **greedy,
        }  # fmt: skip

    def _update(self, rollouts: Sequence[Trajectory], better: Sequence[Floats]) -> None:
        """Learn from rollouts with (D,) advantages, one after another."""
        clipped = self.chosen.update == "ppo"
        before = [self._log_probabilities(rollout) if clipped else None for rollout in rollouts]
        for _ in range(self.chosen.epochs):
            for rollout, advantage, old in zip(rollouts, better, before, strict=True):
                self._improve(rollout, advantage, old)

    def _improve(self, rollout: Trajectory, advantage: Floats, before: Tensor | None) -> None:
        """Take a step of the optimiser for each batch of a rollout.

        Args:
            rollout: D decisions.
            advantage: (D,)
            before: (D,) log-probabilities of the actions when they were drawn, for PPO; None: use
                REINFORCE.
        """
        for begin, end in self._batches(rollout):
            chosen = self._log_probability(rollout, begin, end)
            better = torch.from_numpy(advantage[begin:end].astype(np.float32)).to(self.device)
            if before is None:
                gain = reinforce_gain(chosen, better)
            else:
                gain = clipped_gain(chosen, before[begin:end], better, CLIP)
            self.optimiser.zero_grad()
            (-gain).backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()

    def _batches(self, rollout: Trajectory) -> Iterator[tuple[int, int]]:
        """Yield the range of decisions of each batch: its first, and the one after its last."""
        count, size = len(rollout.chosen), self.chosen.batch
        return ((begin, min(begin + size, count)) for begin in range(0, count, size))

    @torch.no_grad()
    def _log_probabilities(self, rollout: Trajectory) -> Tensor:
        """Return (D,) log-probabilities of the pairs drawn, under the current network."""
        return torch.cat(
            [self._log_probability(rollout, *batch) for batch in self._batches(rollout)]
        )

    def _log_probability(self, rollout: Trajectory, begin: int, end: int) -> Tensor:
        """Return (end - begin,) log-probabilities of the pairs drawn, under the current network."""
        first = rollout.first[begin : end + 1]
        rows, place = np.unique(rollout.pairs[first[0] : first[-1]], return_inverse=True)
        seen = torch.from_numpy(rollout.seen[rows]).to(self.device)  # (U, F)
        logits = self.network(seen)[:, 0][torch.from_numpy(place).to(self.device)]  # (P,)
        decision = torch.from_numpy(np.repeat(np.arange(end - begin), np.diff(first)))
        log_probs = ragged_log_softmax(logits, decision.to(self.device), end - begin)
        drawn = torch.from_numpy(first[:-1] - first[0] + rollout.chosen[begin:end])
        return log_probs[drawn.to(self.device)]

    def evaluate(self) -> Mapping[str, float]:
        """Return the mean makespan of greedy schedules of the held-out chunks, if there are any."""
        unseen, scorer = self.source.held_out, self.scorer
        if not unseen:
            return {}
        costs = [play(chunk, scorer).makespan for chunk in unseen]
        _refuse_endless(costs, "a held-out chunk")
        return {"cost": float(np.mean(costs))}

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        scorer = self.scorer
        how = describe_pairs(scorer, self.source.resources)
        self.write_weights(folder, scorer.stored, how, curve_end)


class _WithSum(Perceptron):
    """A perceptron plus a weighted sum of its inputs."""

    def __init__(self, shape: PerceptronShape, linear: Floats) -> None:
        """Begin with (F,) weights for the sum."""
        super().__init__(shape)
        self.linear = nn.Parameter(torch.from_numpy(linear.astype(np.float32)))

    def forward(self, seen: Tensor) -> Tensor:
        return super().forward(seen) + (seen @ self.linear)[..., None]


def _first_sum(arguments: DeepJSArguments) -> Floats:
    """Return (F,) initial weights of the terms."""
    if arguments.start is None:
        return np.zeros(len(TERMS))
    return SHARPNESS * RULES[arguments.start].linear


def _refuse_endless(costs: Sequence[float], chunk: str) -> None:
    """Raise RunError if a schedule never ends."""
    if np.isinf(costs).any():
        raise RunError(
            f"deepjs: {chunk}: rounding of released amounts keeps an instance that asks for a "
            "whole machine from ever fitting; leave its jobs out with workload.window"
        )


def advantages(rollouts: Sequence[Trajectory], *, by_tick: bool = False) -> list[Floats]:
    """Return (D,) advantages of the decisions in each rollout of a chunk.

    Every tick ends with a node at which nothing is placed, and which costs 1. What a decision
    earned is compared with the mean over rollouts at its node, that is, at the same number of
    decisions and ticks so far, as in the paper, or at the same tick; see `credit`.
    As in the paper's program, the differences at all nodes, including the ends of ticks, are then
    normalised to mean 0 and standard deviation 1.

    Args:
        rollouts: rollouts of the same chunk.
        by_tick: whether to compare returns at the same tick.
    """
    spans = [int(one.makespan) for one in rollouts]
    ticks = [rollout.tick.astype(np.int64) for rollout in rollouts]
    # the nodes of decisions and of the ends of ticks
    nodes = [np.arange(len(tick)) + tick for tick in ticks]
    ends = [
        np.searchsorted(tick, np.arange(span), side="right") + np.arange(span)
        for tick, span in zip(ticks, spans, strict=True)
    ]
    longest = max(len(node) + len(end) for node, end in zip(nodes, ends, strict=True))
    rewards, steps = (
        np.zeros((longest, len(rollouts))),
        np.zeros((longest, len(rollouts)), np.int64),
    )
    for column, (node, end, tick) in enumerate(zip(nodes, ends, ticks, strict=True)):
        rewards[end, column] = -1.0
        steps[end, column], steps[node, column] = np.arange(len(end)), tick
    gain = credit(rewards, steps, len(rollouts), by_step=by_tick).gain
    at_decisions = [gain[node, column] for column, node in enumerate(nodes)]
    at_ends = [gain[end, column] for column, end in enumerate(ends)]
    everything = np.concatenate((*at_decisions, *at_ends))
    centre, deviation = everything.mean(), everything.std()
    return [(one - centre) / (deviation if deviation > 0 else 1.0) for one in at_decisions]
