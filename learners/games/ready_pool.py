"""Ready pools as a source: games on streams of a scenario's jobs, with an end or without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from simkit.agent.encoder import ObservationSchema
from simkit.agent.ready_pool import (
    ReadyPool,
    ready_context_size,
    ready_set_schema,
    ready_size,
)
from simkit.arrays import Ints, stream
from simkit.learners.common.bundle import describe_view, of_ready_pool
from simkit.learners.common.games import Rule
from simkit.learners.lockstep.ready_pool.accounts import COSTS, Cost
from simkit.learners.lockstep.ready_pool.games import REWARD, ReadyGames
from simkit.learners.lockstep.ready_pool.rules import ORDERS
from simkit.learners.lockstep.ready_pool.streams import JobStreams, StreamSource
from simkit.learners.networks.shapes import PerceptronShape, SetScorerShape
from simkit.scenario import Scenario

__all__ = ["HORIZON", "ReadySource"]

HORIZON: Final = 48
"""Steps that can be planned ahead, as in the dissertation."""
_WAITING: Final = 144
"""Scale of the number of jobs behind the ready pool, if the scenario does not limit it."""


class ReadySource:
    """Makes games with a scenario's pool, jobs and power; a `Source` whose slices are streams."""

    greedy: ClassVar = True
    in_steps: ClassVar = True
    relative: ClassVar = False
    criterion: ClassVar = "lost_value"
    teachers: ClassVar[Mapping[str, Rule]] = ORDERS
    less_is_better: ClassVar = ("lost_value", "lost_value_drawn")
    endless_metrics: ClassVar = (*less_is_better, "cost", "cost_drawn")
    """Held-out metrics of agents that play games without an end."""
    held_out_metrics: ClassVar[tuple[str, ...]] = (
        "lost_value", "cost", "jobs", "unfinished", "decisions", "return",
    )  # fmt: skip

    def __init__(
        self, scenario: Scenario, *, hours: int, most_decisions: int | None = None,
        max_start: int = 0, reject: bool = False, horizon: int = HORIZON,
        cost: Cost = "waiting", discount: float = 1.0,
    ) -> None:  # fmt: skip
        """Read a scenario; raises ScenarioError as `StreamSource` does.

        Args:
            scenario: its admission sets the size of the ready pool and whether late jobs leave.
            hours: steps of a game.
            most_decisions: of a game that ends.
            max_start: the last step ahead in which a job may start.
            reject: whether jobs may be rejected.
            horizon: steps that can be planned ahead.
            cost: what the games count as costs.
            discount: γ per step, for the value at the decision.
        """
        admission, self.hours = scenario.admission, hours
        self.late_leave = admission.late == "leave"
        self._most = most_decisions
        self._streams = StreamSource(scenario, hours + horizon, (REWARD, COSTS[cost]))
        self.resources, self.units = self._streams.resources, self._streams.units
        waiting = _WAITING if admission.backlog is None else admission.backlog
        # the stream source has already refused a scenario without slots
        self.pool = ReadyPool(
            resources=len(self._streams.resources), ready=admission.slots or 1,
            waiting=max(waiting, 1), horizon=horizon, max_start=max_start,
            step_s=self._streams.step_s,
        )  # fmt: skip
        self.rules: dict[str, Any] = {
            "late_leave": self.late_leave, "reject": reject, "backlog": admission.backlog,
            "cost": cost, "discount": discount,
        }  # fmt: skip

    @property
    def metrics_of_runs(self) -> Mapping[str, str]:
        """Criterion → the value that counts in a run, which goes on until all jobs have ended."""
        earned = "in_time" if self.late_leave else "by_last_submit"
        return dict.fromkeys(self.less_is_better, f"job_value.{earned}")

    @property
    def whole_pool(self) -> float:
        """The value of the whole pool for one step: the unit of rewards."""
        return self.pool.worth * float(sum(self.units))

    @property
    def schema(self) -> ObservationSchema:
        """The meaning of the numbers of an observation."""
        return ready_set_schema(self.pool)

    def scorer(self, hidden: int) -> SetScorerShape:
        """Return the shape of a scorer of jobs that reads `ready_set`.

        It scores placing each job and doing nothing, and, if that is allowed, rejecting each job.
        """
        pool = self.pool
        return SetScorerShape(
            type="set-scorer", context=ready_context_size(pool), items=pool.ready,
            features=ready_size(pool), hidden=hidden, scores=2 if self.rules["reject"] else 1,
            others=1, activation="relu",
        )  # fmt: skip

    def describe(self, shape: PerceptronShape | SetScorerShape) -> dict[str, Any]:
        kind = of_ready_pool(
            self.schema.name, self.pool, in_time=self.late_leave, reject=self.rules["reject"]
        )
        return describe_view(shape, self.schema, kind)

    def streams(self, seeds: Sequence[int]) -> JobStreams:
        """Return the stream of each seed."""
        return self._streams.draw(seeds)

    def draw(self, rng: np.random.Generator, count: int) -> JobStreams:
        return self.streams(rng.integers(2**31, size=count).tolist())

    def held_out(self, count: int) -> JobStreams:
        return self.draw(stream(0, "ready_pool.held_out"), count)

    def group_of(self, count: int) -> Ints:
        return np.zeros(count, np.int64)

    def games(self, slices: JobStreams, replicas: int = 1) -> ReadyGames:
        return ReadyGames(
            self.pool, slices, replicas, hours=self.hours, most_decisions=self._most, **self.rules
        )

    def endless(self, count: int, rng: np.random.Generator) -> ReadyGames:
        """Return games without an end on streams whose seeds `rng` draws."""
        fresh = partial(self.draw, rng)
        return ReadyGames(self.pool, fresh(count), hours=self.hours, fresh=fresh, **self.rules)
