"""A trial: one run of a policy through a case, watched for what a run by itself does not see."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from traceback import extract_tb
from typing import Any

import polars as pl

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import PolicyError
from simkit.experiment.check_cases import Case
from simkit.policy import Action, Policy, State
from simkit.seeds import stream

MOST_DECISIONS = 10_000
"""Decisions in a case; its makespan is some thousand seconds under any policy that works."""
MOST_ACTIONS = 5_000
"""Actions in one decision; a case has some hundred instances."""


class BrokenRule(Exception):  # noqa: N818 - not an error of simkit's, but a result
    """A rule that the policy broke: its name, and how."""

    def __init__(self, rule: str, how: str) -> None:
        super().__init__(f"{rule}: {how}")
        self.rule = rule
        self.how = how


class Trial:
    """The records of a run, and weak references to all that the policy was shown in it."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.tables: dict[str, list[pl.DataFrame]] = {}
        self.shown: list[weakref.ref[Any]] = []
        self._seed = seed

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Take records; a trial is the sink of its own run."""
        self.tables.setdefault(table, []).append(rows)

    def run(self, policy: Policy) -> None:
        """Replay the case.

        Raises BrokenRule for the first rule that the policy breaks.
        """
        case = self.case
        recorder = Recorder(case.workload, case.cluster.resources, self)
        simulation = Simulation(
            case.workload, case.cluster, recorder, rules=case.rules, seed=self._seed
        )
        self.shown.append(weakref.ref(simulation.info))
        with _Blame("error", self._where("reset", None)):
            policy.reset(simulation.info, stream(self._seed, "policy"))
        for decision, state in enumerate(simulation.decisions()):
            if decision == MOST_DECISIONS:
                raise BrokenRule(
                    "endless",
                    f"{self._where('schedule', state)} was called {MOST_DECISIONS} times; "
                    "WakeAt only while it serves a purpose",
                )
            self.shown += [weakref.ref(task) for task in state.arrived]
            for action in self._actions(policy, state):
                with _Blame("illegal-action", f"{self._where('schedule', state)}: {action!r}"):
                    simulation.apply(action)

    def _actions(self, policy: Policy, state: State) -> Iterator[Action]:
        """Yield the policy's actions, and see to it that it changes nothing by itself."""
        where = self._where("schedule", state)
        before = _fingerprint(state)
        with _Blame("error", where):
            returned = policy.schedule(state)
        try:
            actions = iter(returned)
        except TypeError:
            raise BrokenRule(
                "iterable",
                f"{where} returned {type(returned).__name__}; yield actions or return a list",
            ) from None
        for _ in range(MOST_ACTIONS):
            with _Blame("error", where):
                action = next(actions, None)
            _check_unchanged(state, before, where)
            if action is None:
                return
            yield action
            before = _fingerprint(state)
        raise BrokenRule(
            "endless", f"{where} has yielded {MOST_ACTIONS} actions; it must come to an end"
        )

    def _where(self, method: str, state: State | None) -> str:
        if state is None:
            return f"{method} ({self.case.name})"
        return f"{method} ({self.case.name}, at {state.now:g} s, {len(state.queue)} waiting)"

    def frame(self, table: str) -> pl.DataFrame:
        """Return a table of the records."""
        return pl.concat(self.tables[table])

    def first_difference(self, other: Trial) -> str | None:
        """Return the table in which two trials of a case differ first, or None."""
        for table in self.tables:
            if not self.frame(table).equals(other.frame(table)):
                return table
        return None


class _Blame:
    """Turns what is raised inside into a broken rule; a write to a read-only array into its own."""

    def __init__(self, rule: str, where: str) -> None:
        self._rule = rule
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: Any
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, BrokenRule):
            return
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise BrokenRule(
                "read-only", f"{self._where} writes to an array of the state; write to a copy"
            ) from error
        what = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
        place = ""
        if self._rule == "error":
            frame = extract_tb(error.__traceback__)[-1]
            place = f" ({Path(frame.filename).name}, line {frame.lineno})"
        raise BrokenRule(self._rule, f"{self._where}: {what}{place}") from error


def _fingerprint(state: State) -> dict[str, Any]:
    """Return what a policy can reach and must leave alone: name → value."""
    return {
        "now": state.now,
        "queue": [
            (task.index, task.remaining, task.estimate_s, task.request, task.instances, task.gang)
            for task in state.queue.tasks
        ],
        "arrived": [task.index for task in state.arrived],
        "ended": [allocation.rank for allocation in state.ended],
        "reservations": [
            (task.index, place.on, place.start) for task, place in state.reservations.items()
        ],
        "running": [allocation.rank for allocation in state.running],
        "suspended": [allocation.rank for allocation in state.suspended],
        "expected_ends": [(end, rank) for end, rank, _ in state.expected_ends],
        "steps": list(state.steps),
        "free": state.free.tolist(),
        "capacity": state.capacity.tolist(),
    }


def _check_unchanged(state: State, before: dict[str, Any], where: str) -> None:
    """Raise BrokenRule if the policy has changed something other than by an action."""
    for part, now in _fingerprint(state).items():
        if now != before[part]:
            raise BrokenRule(
                "read-only",
                f"{where} changes state.{part}; yield actions, and plan in copies "
                "(state.profile(), state.room.copy(), list(state.queue))",
            )
