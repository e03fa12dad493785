"""Ways to fill a replay memory: episodes of slices that are compared, endless games, and moves.

`Episodes` and `Endless` play by themselves. The moves are those of a deep Q-network, which learns
while it plays; a recorder makes rows of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.common.games import NOTHING_DONE, EndlessSource, Rule, Source, logged
from simkit.learners.common.off_policy.replay import Columns, NSteps, Replay, Trajectories
from simkit.learners.common.returns import MovingMean, credit, deviation_by_group
from simkit.learners.common.rollouts import Rollouts, play_on, roll_out
from simkit.learners.common.training import Stateful
from simkit.learners.networks.build import Network

__all__ = [
    "ComparingRecorder", "Endless", "Episodes", "Move", "NStepRecorder", "Transition",
]  # fmt: skip

Generators = Mapping[str, np.random.Generator]


class Episodes:
    """Rollouts of fresh slices, and a memory of the decisions that left a choice.

    A decision's return is counted from what is usual in its slice; see `credit`.
    """

    first_temperature: ClassVar = 0.01
    """Initial value of a nat of the actor's entropy, in deviations of the returns."""
    temperature_rate: ClassVar = 0.003
    """Learning rate of the logarithm of the temperature."""
    usual: ClassVar = 0.0
    """Mean reward per unit of time that is not counted."""

    def __init__(
        self, source: Source[Any], slices: int, rollouts: int, steps: int, replay: int,
        generators: Generators,
    ) -> None:  # fmt: skip
        """Begin with an empty memory.

        Args:
            source: where the slices come from.
            slices: fresh ones per iteration.
            rollouts: episodes of each slice.
            steps: n, decisions over which rewards are summed.
            replay: decisions that the memory holds.
            generators: ``job_sets`` draws the slices, ``actions`` the actions.
        """
        self.source, self.slices, self.rollouts, self.steps = source, slices, rollouts, steps
        self._generators = generators
        self.memory = Replay(replay)

    def parts(self) -> Mapping[str, Stateful]:
        """Return the parts of a checkpoint."""
        return {"memory": self.memory}

    def play(self, actor: Network, device: str) -> Mapping[str, float]:
        """Play and remember; return numbers to log, `NOTHING_DONE` if no slice has a job."""
        slices = self.source.draw(self._generators["job_sets"], self.slices)
        games = self.source.games(slices, self.rollouts)
        if not len(games.active):
            return NOTHING_DONE
        rollouts = roll_out(games, actor, self._generators["actions"], device)
        rows = self.decisions(rollouts, self.differences(rollouts))
        self.memory.extend(rows)
        return {
            **logged(games, rollouts.mean_return, len(rollouts.actions)),
            "choices": float(len(rows["actions"])),
        }

    def differences(self, rollouts: Rollouts) -> Floats:
        """Return (D,) the decisions' credit, in standard deviations of their group of slices."""
        earned = credit(
            rollouts.rewards, rollouts.steps, self.rollouts, by_step=self.source.in_steps,
            relative=self.source.relative,
        )  # fmt: skip
        gain = rollouts.rows(earned.gain)
        result: Floats = gain / deviation_by_group(gain, rollouts.groups(self.source, self.slices))
        return result

    def decisions(self, rollouts: Rollouts, difference: Floats) -> Columns:
        """Return the decisions that left a choice, with what came of them after n of these.

        Args:
            rollouts: D decisions.
            difference: (D,) see `differences`; what is earned between two decisions is theirs.
        """
        choices = rollouts.choices
        own: Ints = choices[np.lexsort((rollouts.decision[choices], rollouts.episode[choices]))]
        place = np.arange(len(own))
        later = np.minimum(place + self.steps, max(len(own) - 1, 0))
        same = rollouts.episode[own[later]] == rollouts.episode[own]
        over = ~same | (later < place + self.steps)
        after = own[np.where(over, place, later)]
        return {
            "seen": rollouts.seen[own],
            "allowed": rollouts.allowed[own],
            "actions": rollouts.actions[own],
            "rewards": (difference[own] - np.where(over, 0.0, difference[after])).astype(
                np.float32
            ),
            "passed": np.ones(len(own), np.float32),
            "over": over,
            "after": rollouts.seen[after],
            "allowed_after": rollouts.allowed[after],
        }


class Endless:
    """Games without an end, and a memory of their decisions.

    Rewards count above their mean per unit of time (R. S. Sutton and A. G. Barto, "Reinforcement
    learning", 2018, section 10.3).
    """

    first_temperature: ClassVar = 1.0
    """Initial value of a nat of the actor's entropy; rewards are at most about 1 per step of time,
    so entropy outweighs them at first."""
    temperature_rate: ClassVar = 0.005
    """Learning rate of the logarithm of the temperature, which thus follows the entropy within an
    iteration or two."""

    def __init__(
        self, source: EndlessSource[Any], games: int, decisions: int, replay: int,
        generators: Generators, mean: float | None = None,
    ) -> None:  # fmt: skip
        """Start the games.

        Args:
            source: where the games come from.
            games: N, played side by side.
            decisions: decisions of each game per iteration.
            replay: decisions that the memory holds.
            generators: ``streams`` draws the games' workloads, ``actions`` the actions.
            mean: a prior estimate of the mean reward per unit of time; None: none.
        """
        self.decisions, self._generators = decisions, generators
        self.games = source.endless(games, generators["streams"])
        self.memory = Trajectories(max(replay // games, 2))
        self.mean = MovingMean(first=mean)

    @property
    def usual(self) -> float:
        """Mean reward per unit of time that is not counted."""
        return self.mean.value

    def parts(self) -> Mapping[str, Stateful]:
        """Return the parts of a checkpoint."""
        return {"memory": self.memory, "games": self.games, "usual": self.mean}

    def play(self, actor: Network, device: str, rule: Rule | None = None) -> Mapping[str, float]:
        """Take some decisions in each game and remember them; return numbers to log.

        Args:
            actor: returns logits, by which actions are drawn.
            device: device of the actor.
            rule: returns the action of each game instead of the actor; None: none.

        Returns:
            ``value_per_hour``: reward per step of time; ``cost``: mean cost of such a step, the
            number of waiting jobs.
        """
        stretch = play_on(
            self.games, actor, self.decisions, self._generators["actions"], device, rule=rule
        )
        self.memory.extend({
            "seen": stretch.seen, "allowed": stretch.allowed, "actions": stretch.actions,
            "rewards": stretch.rewards, "passed": stretch.passed.astype(np.float64),
            "over": np.zeros(stretch.cut.shape, np.bool_), "known": ~stretch.cut,
        })  # fmt: skip
        # added up in the order in which it was paid
        value = float(np.cumsum(stretch.rewards.sum(axis=1))[-1])
        value_per_hour = value / max(int(stretch.passed.sum()), 1)
        self.mean.take(value_per_hour)
        return {"value_per_hour": value_per_hour, "cost": stretch.cost}


Transition = Mapping[str, npt.ArrayLike]
Seen = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Move:
    """An action of each of A active episodes."""

    episode: Ints
    """(A,) numbers of the episodes."""
    step: Ints
    """(A,) time steps."""
    seen: Seen
    """(A, …) what was seen; see `DQNTraining`."""
    actions: Ints
    """(A,)"""
    is_random: Bools
    """(A,) whether the action was not the best one."""
    is_free: Bools
    """(A,) whether there was another one."""
    rewards: Floats
    """(A,)"""
    after: Seen
    """(A, …) what was seen after it; 0 at an episode's end."""
    ends: Bools
    """(A,) whether the episode ended with it."""
    is_cut: Bools
    """(A,) whether it did as it was cut off."""


class NStepRecorder:
    """Makes n-step transitions of moves, as soon as they are complete."""

    def __init__(self, episodes: int, n: int, discount: float) -> None:
        self._n_steps = [NSteps(n, discount) for _ in range(episodes)]

    def add(self, move: Move) -> Iterator[Transition]:
        """Take a move of the active episodes; yield what is complete."""
        for row, steps in enumerate([self._n_steps[game] for game in move.episode.tolist()]):
            is_cut = move.is_cut[row]  # the outcome is unknown
            complete = steps.cut(move.seen[row]) if move.is_random[row] or is_cut else []
            if not is_cut:
                one = move.seen[row], int(move.actions[row]), float(move.rewards[row])
                complete += steps.add(*one, move.after[row], over=bool(move.ends[row]))
            yield from complete

    def rest(self) -> Iterator[Transition]:
        """Yield what is left when all episodes have ended: nothing."""
        return iter(())


class ComparingRecorder:
    """Values actions by their `credit`, when all episodes have ended.

    It is in deviations of its slice, so that slices with long waits count no more than others.
    """

    def __init__(self, episodes: int, rollouts: int, discount: float, *, by_step: bool) -> None:
        """Expect `rollouts` episodes of each slice; `by_step`: see `credit`."""
        self._episodes, self._rollouts = episodes, rollouts
        self._discount, self._by_step = discount, by_step
        self._moves: list[Move] = []

    def add(self, move: Move) -> Iterator[Transition]:
        """Take a move of the active episodes."""
        self._moves.append(move)
        return iter(())

    def rest(self) -> Iterator[Transition]:
        """Yield a transition for each decision that left a choice."""
        shape = len(self._moves), self._episodes
        rewards, steps = np.zeros(shape), np.zeros(shape, np.int64)
        for number, move in enumerate(self._moves):
            rewards[number, move.episode], steps[number, move.episode] = move.rewards, move.step
        earned = credit(
            rewards, steps, self._rollouts, by_step=self._by_step, discount=self._discount
        )
        slices = np.repeat(np.arange(self._episodes) // self._rollouts, len(rewards))
        unit = deviation_by_group(earned.gain.T.ravel(), slices).reshape(rewards.T.shape).T
        gain = earned.gain / unit
        for number, move in enumerate(self._moves):
            for row in np.flatnonzero(move.is_free).tolist():
                yield {
                    "seen": move.seen[row], "action": int(move.actions[row]),
                    "reward": float(gain[number, move.episode[row]]), "after": move.after[row],
                    "discount": 0.0,
                }  # fmt: skip
