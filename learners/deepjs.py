"""DeepJS's own algorithm: REINFORCE on a fitness of machine–task pairs, chunk after chunk.

F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data center"
(ICBDC 2019): a small network scores every pair that fits, a softmax over the scores draws which one
gets an instance, and every second costs 1 until the chunk is done. Training slides along the trace:
a chunk is played before it is trained on, so that the first iteration of each chunk judges the
agent on jobs that it has never seen. The details that the paper leaves open are those of its public
program. The learner `fitness` finds better schedules in less time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from simkit.arrays import Floats
from simkit.errors import RunError, ScenarioError
from simkit.learners.arguments import Positive, prepared
from simkit.learners.common.distributions import ragged_log_softmax
from simkit.learners.common.networks import Perceptron, seeded
from simkit.learners.common.objectives import reinforce_gain
from simkit.learners.common.shapes import PerceptronShape, Width
from simkit.learners.common.torch_training import TorchTraining, weights_of
from simkit.learners.pairs.chunk_source import ChunkSource
from simkit.learners.pairs.description import describe
from simkit.learners.pairs.model import Trajectory, play, require_numba, roll_out
from simkit.learners.pairs.scorer import PairScorer
from simkit.scenario import Scenario
from simkit.scenario.types import Count, Many, Section
from simkit.training import Training

RESOURCES: Final = ("cpu", "mem")
"""Of the clusters that the network's inputs are made for."""


class DeepJSArguments(Section):
    """The keys of `learn.arguments`."""

    iterations: Count = 2000
    """Iterations in all: chunks times `repeats`; after the last chunk comes the first again."""
    jobs: Count = 10
    """Jobs of a chunk; each is scheduled on an empty cluster."""
    repeats: Count = 10
    """Iterations in a row on the same chunk."""
    rollouts: Count = 12
    """Times that the chunk is played in an iteration; the baseline is their mean."""
    hidden: Many[Width] = (3, 9, 6)
    """Units of the hidden layers, tanh each: 3, 9, 6 as in the paper, or 3, 9, 18, 9 as in its
    program."""
    learning_rate: Positive = 0.001
    """Of Adam."""
    batch: Count = 1000
    """Decisions of a rollout per step of the optimiser."""
    baseline: Literal["decision", "tick"] = "decision"
    """What a return is compared with: the mean return at the same number of decisions and ticks, as
    in the paper, or at the same tick."""
    held_out_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The last chunks are not trained on, and evaluate the agent; 0: nothing is held out."""


def begin(
    scenario: Scenario, arguments: Mapping[str, Any], *, seed: int, device: str = "cpu"
) -> Training:
    """Return a training that has done nothing yet; an entry point of ``simkit.learners``.

    Raises ScenarioError, all problems at once, for a scenario that is not bags of tasks on machines
    with cpu and mem, or arguments out of their range; PluginError without safetensors or numba.
    """
    require_numba()

    def source_of(chosen: DeepJSArguments) -> ChunkSource:
        source = ChunkSource.of(scenario, chosen.jobs, chosen.held_out_share)
        if source.resources != RESOURCES:
            raise ScenarioError(
                f"cluster: its resources are {', '.join(source.resources)}, and the network sees "
                f"{', '.join(RESOURCES)}; take a trace of these"
            )
        return source

    chosen, source = prepared(DeepJSArguments, arguments, source_of, device)
    return DeepJSTraining(scenario, source, chosen, seed, device)


class DeepJSTraining(TorchTraining):
    """A training under way."""

    learner = "deepjs"
    extendable = True
    less_is_better = ("makespan",)

    def __init__(
        self, scenario: Scenario, source: ChunkSource, arguments: DeepJSArguments, seed: int,
        device: str,
    ) -> None:  # fmt: skip
        super().__init__(scenario, arguments, seed, ("pairs",))
        self.chosen, self.source, self.device = arguments, source, device
        # Agent
        self.blank = PairScorer.of_paper(arguments.hidden)
        shape = PerceptronShape(type="perceptron", layers=self.blank.widths, activation="tanh")
        with seeded(self.stream("weights")):
            self._network = Perceptron(shape).to(device)
        self.optimiser = torch.optim.Adam(self._network.parameters(), arguments.learning_rate)

    @property
    def network(self) -> Perceptron:
        return self._network

    @property
    def scorer(self) -> PairScorer:
        """The network as it is."""
        weights: dict[str, Any] = {"linear": self.blank.linear, **weights_of(self._network)}
        return self.blank.with_named(weights, "training")

    def iterate(self) -> Mapping[str, float]:
        """Return numbers to log.

        ``chunk``: its number; ``makespan``: mean over rollouts, in ticks; ``return``: minus that;
        ``makespan_greedy``: if the likeliest pair is always taken, before a chunk is trained on;
        ``decisions``: instances that were placed.
        """
        # Rollout: N trajectories of D decisions each
        passed, place = divmod(self.iteration - 1, self.chosen.repeats)
        number = passed % len(self.source.trained)
        chunk, scorer = self.source.trained[number], self.scorer
        is_new = place == 0 and passed == number
        greedy = {"makespan_greedy": play(chunk, scorer).makespan} if is_new else {}
        rng = self.generators["pairs"]
        rollouts = [roll_out(chunk, scorer, rng) for _ in range(self.chosen.rollouts)]
        _check_ends([rollout.makespan for rollout in rollouts], f"chunk {number}")
        # Update: one step a batch, one rollout after another
        by_tick = self.chosen.baseline == "tick"
        for rollout, advantage in zip(rollouts, advantages(rollouts, by_tick=by_tick), strict=True):
            for begin in range(0, len(rollout.chosen), self.chosen.batch):
                end = min(begin + self.chosen.batch, len(rollout.chosen))
                chosen = self._log_probability(rollout, begin, end)
                better = torch.from_numpy(advantage[begin:end].astype(np.float32)).to(self.device)
                self.optimiser.zero_grad()
                (-reinforce_gain(chosen, better)).backward()  # type: ignore[no-untyped-call]
                self.optimiser.step()
        # Logging
        makespan = float(np.mean([rollout.makespan for rollout in rollouts]))
        made = float(sum(len(rollout.chosen) for rollout in rollouts))
        told = {"chunk": number, "return": -makespan, "makespan": makespan, "decisions": made}
        return {**told, **greedy}

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
        """Return the mean makespan of held-out chunks, greedy, if there are any."""
        unseen, scorer = self.source.held_out, self.scorer
        if not unseen:
            return {}
        spans = [play(chunk, scorer).makespan for chunk in unseen]
        _check_ends(spans, "a held-out chunk")
        return {"makespan": float(np.mean(spans))}

    def write_agent(self, folder: Path, curve_end: Mapping[str, float]) -> None:
        scorer = self.scorer
        weights = {name: a.astype(np.float32) for name, a in scorer.weights.items()}
        self.write_weights(folder, weights, describe(scorer, self.source.resources), curve_end)


def _check_ends(makespans: Sequence[float], chunk: str) -> None:
    """Raise RunError if a schedule has no end."""
    if np.isinf(makespans).any():
        raise RunError(
            f"deepjs: {chunk}: rounding of released amounts keeps an instance that asks for all of "
            "a machine from ever fitting; leave its jobs out with workload.window"
        )


def advantages(rollouts: Sequence[Trajectory], *, by_tick: bool = False) -> list[Floats]:
    """Return (D,) how much better each decision of each rollout of a chunk turned out.

    Every tick ends with a node at which nothing is placed and which costs 1. A decision's return is
    minus the ticks that are left, and it is compared with the mean return over rollouts at its
    node: at the same number of decisions and ticks so far, where rollouts that are over count as 0,
    as in the paper; or, by tick, at the same tick. As in its program, the differences of all nodes,
    those of ticks too, are then made to have a mean of 0 and a standard deviation of 1.
    """
    spans = np.array([int(rollout.makespan) for rollout in rollouts])
    ticks = [rollout.tick.astype(np.int64) for rollout in rollouts]
    # a decision's node, and that of each tick's end
    nodes = [np.arange(len(tick)) + tick for tick in ticks]
    ends = [
        np.searchsorted(tick, np.arange(span), side="right") + np.arange(span)
        for tick, span in zip(ticks, spans, strict=True)
    ]
    returns = np.zeros((len(rollouts), max(len(t) + s for t, s in zip(ticks, spans, strict=True))))
    at_tick = np.maximum(spans[:, None] - np.arange(spans.max()), 0)  # (N, ticks) left
    for row in range(len(rollouts)):
        returns[row, nodes[row]] = -at_tick[row, ticks[row]]
        returns[row, ends[row]] = -at_tick[row, : spans[row]]
    if by_tick:
        baselines = [-at_tick.mean(axis=0)] * len(rollouts)
        found = [returns[r, nodes[r]] - baselines[r][ticks[r]] for r in range(len(rollouts))]
        rest = [returns[r, ends[r]] - baselines[r][: spans[r]] for r in range(len(rollouts))]
    else:
        mean = returns.mean(axis=0)
        found = [returns[r, nodes[r]] - mean[nodes[r]] for r in range(len(rollouts))]
        rest = [returns[r, ends[r]] - mean[ends[r]] for r in range(len(rollouts))]
    everything = np.concatenate((*found, *rest))
    deviation = everything.std()
    return [(one - everything.mean()) / (deviation if deviation > 0 else 1.0) for one in found]
