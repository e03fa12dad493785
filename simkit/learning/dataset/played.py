"""An episode that a policy plays while its actions are noted as numbers of an action space.

Every decision of the simulation goes to the policy. What it then does is looked up among the
numbered actions, and is carried out as the number says; what the environment does by itself (it
resumes what was suspended) is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from simkit.arrays import Bools, stream
from simkit.errors import PolicyError, RunError
from simkit.experiment import Experiment, blaming
from simkit.learning.actions import Actions
from simkit.learning.encoder import Encoder, Numbers
from simkit.learning.episodes import Episode
from simkit.learning.reward import Reward, WeightedRewards
from simkit.learning.rewards.base import earned
from simkit.policy import Action, Place, Reject, Resume, State, Suspend, WakeAt
from simkit.policy.task import Task

__all__ = ["Earnings", "PlayedEpisode", "Row"]


class Earnings(WeightedRewards):
    """A reward, and beside it a cost: another reward with the opposite sign."""

    def __init__(self, reward: Reward, cost: Reward) -> None:
        """Observe both."""
        super().__init__([(1.0, reward), (-1.0, cost)])
        self._reward, self._cost = reward, cost
        self.cost = 0.0
        """What was to be paid up to the last `collect`."""

    def collect(self, time_s: float) -> float:
        self.cost = 0.0 - earned(self._cost, time_s)
        return earned(self._reward, time_s)


class Row(NamedTuple):
    """A decision, as in `Dataset`; of the last one, what was seen."""

    observation: Numbers
    mask: Bools
    action: int = -1
    reward: float = 0.0
    cost: float = 0.0
    passed_s: float = 0.0
    probability: float = 0.0
    terminated: bool = False
    truncated: bool = False

    def settled(
        self, came: tuple[float, float, float], *, terminated: bool = False, truncated: bool = False
    ) -> Row:
        """Return the decision with the reward, cost and seconds that came of it."""
        reward, cost, passed_s = came
        return self._replace(
            reward=reward, cost=cost, passed_s=passed_s, terminated=terminated, truncated=truncated
        )


class PlayedEpisode:
    """One episode.

    A policy that draws its actions says with which probability it took the last one, as an
    attribute `probability`, which is read after each action; of others it is 1.
    """

    def __init__(
        self,
        experiment: Experiment,
        actions: Actions,
        encoder: Encoder,
        earnings: Earnings,
        name: str,
        max_decisions: int | None = None,
    ) -> None:
        """Build the system.

        Args:
            experiment: with the policy.
            actions: are reset, as are the next two.
            encoder: what is seen.
            earnings: what is earned and to be paid.
            name: of the policy, for messages.
            max_decisions: after so many the episode is truncated; None: never.
        """
        self._experiment, self._policy, self._name = experiment, experiment.policy, name
        self._actions, self._encoder, self._earnings = actions, encoder, earnings
        self._most = max_decisions
        self._episode = Episode(experiment, earnings)
        self._state: State = self._episode.state
        self._has_steps = experiment.scenario.scheduling.step is not None
        self._woken: set[float] = set()  # times at which the environment wakes by itself
        self._asked: set[float] = set()  # and those at which the policy wants to

    def rows(self) -> Iterator[Row]:
        """Yield the decisions, then what was seen last; nothing if nothing was asked.

        Raises RunError for an action that no number means, PolicyError or LimitError as a run does.
        """
        actions, state = self._actions, self._state
        self._begin()
        taken: Row | None = None
        made = 0
        while self._goes_on():
            stream_of = self._pulled()
            while actions.asks(state):
                seen, cut = self._look(), made == self._most
                came = self._what_came()  # before the first decision it is nobody's
                if taken is not None:
                    yield taken.settled(came, truncated=cut)
                if cut:
                    self._episode.close()
                    yield seen
                    return
                taken, made = self._answer(seen, next(stream_of, None)), made + 1
                meant = actions.action_of(state, taken.action)
                if meant is not None:
                    self._episode.apply(meant)
                elif actions.goes_on(state):
                    break
            if (more := next(stream_of, None)) is not None:
                raise self._foreign(more, "when no agent is asked")
        if taken is not None:
            out = self._episode.out_of_time
            yield taken.settled(self._what_came(), terminated=not out, truncated=out)
            yield self._look()

    def _begin(self) -> None:
        info = self._state.info
        self._encoder.reset(info)
        self._actions.reset(info)
        self._since_s, self._moved = self._state.now, True
        with blaming(self._experiment, lambda: "before the first job"):
            self._policy.reset(info, stream(self._experiment.scenario.seed, "policy"))

    def _goes_on(self) -> bool:
        """Let time go on to the next decision of the simulation; False: the episode is over."""
        self._carry_out(self._actions.end(self._state))
        if not self._has_steps and self._asked - self._woken:
            raise RunError(
                f"policy {self._name} at {self._state.now:g} s: asks for a decision at "
                f"{min(self._asked - self._woken):g} s, when an agent would not be asked; add "
                "`scheduling: {step: …}` to the scenario, or record another policy"
            )
        self._woken, self._asked, self._moved = set(), set(), True
        if not self._episode.advance():
            return False
        self._carry_out(self._actions.begin(self._state))
        return True

    def _carry_out(self, actions: Iterable[Action]) -> None:
        """Do what the environment does by itself."""
        for action in actions:
            if isinstance(action, WakeAt):
                self._woken.add(action.time_s)
            self._episode.apply(action)

    def _pulled(self) -> Iterator[Action]:
        """Yield what the policy does at this decision, without the times at which it wakes."""
        with self._blaming():
            done = self._policy.schedule(self._state)
            if not hasattr(done, "__iter__"):
                raise PolicyError(
                    f"policy {self._name}: schedule returned {done!r}; it must yield actions, or "
                    "return an iterable of them"
                )
            rest = iter(done)
        while True:
            with self._blaming():
                action = next(rest, None)
            if action is None:
                return
            if isinstance(action, WakeAt):
                self._asked.add(action.time_s)
            else:
                yield action

    def _blaming(self) -> AbstractContextManager[None]:
        return blaming(self._experiment, lambda: f"at {self._state.now:g} s")

    def _look(self) -> Row:
        """Return what is seen now."""
        self._actions.update(self._state)
        mask = self._actions.mask(self._state).view(np.bool_)
        return Row(self._encoder.encode(self._state), mask)

    def _answer(self, seen: Row, action: Action | None) -> Row:
        """Return the number of what the policy does; of nothing, the void action's."""
        probability = float(getattr(self._policy, "probability", 1.0))
        if action is not None:
            number = self._actions.number_of(self._state, action)
            if number is None:
                raise self._foreign(action, "which none of the numbered actions means")
            return seen._replace(action=number, probability=probability)
        void = self._actions.count - 1
        if not seen.mask[void]:
            raise RunError(
                f"policy {self._name} at {self._state.now:g} s: does nothing more, and an agent "
                "would have to act; take actions by which time may go on, such as start, or "
                "next-head and pick with hold: true, or classes with starts: now"
            )
        return seen._replace(action=void, probability=probability)

    def _what_came(self) -> tuple[float, float, float]:
        """Return reward, cost and time since the last call; 0 while time stands still."""
        if not self._moved:
            return 0.0, 0.0, 0.0
        reward, now = self._episode.collect(), self._episode.now
        passed, self._since_s, self._moved = now - self._since_s, now, False
        return reward, self._earnings.cost, passed

    def _foreign(self, action: Action, why: str) -> RunError:
        """Return the error of an action that cannot be recorded."""
        return RunError(
            f"policy {self._name} at {self._state.now:g} s: {self._told(action)}, {why}; "
            f"{_remedy(action)}, or record another policy"
        )

    def _told(self, action: Action) -> str:
        """Return what the policy does, in words."""
        if isinstance(action, Place):
            where = "nowhere" if not action.on else f"on {_machines(action, self._state)}"
            when = "now" if action.start is None else f"at {action.start:g} s"
            return f"places {self._job(action.task)} {where}, to start {when}"
        if isinstance(action, Suspend | Resume):
            verb = "suspends" if isinstance(action, Suspend) else "resumes"
            return f"{verb} {self._job(action.allocation.task)}"
        if isinstance(action, Reject):
            return f"rejects {self._job(action.task)}"
        return f"does {type(action).__name__}"

    def _job(self, task: Task) -> str:
        return f"job {self._experiment.trace.workload.job_id[task.job_index]}"


def _machines(place: Place, state: State) -> str:
    names = state.info.machine_names
    return ", ".join([names[machine] for machine, _ in place.on])


def _remedy(action: Action) -> str:
    """Return what may make an action one of those that are numbered."""
    if isinstance(action, Place):
        return (
            "an agent places the tasks that it is shown, each where it first fits and as early as "
            "its actions allow: raise slots or the actions' horizon and max_start, lower the "
            "policy's horizon, leave out its placement"
        )
    if isinstance(action, Suspend):
        return "take the actions ready-pool with suspend: 4, …"
    if isinstance(action, Resume):
        return "the environment resumes what was suspended by itself"
    if isinstance(action, Reject):
        return "take the actions ready-pool with reject: true"
    return "no actions can be recorded with it"
