"""Games of pools of several sizes side by side, so that one agent learns for all of them.

What a set of jobs shows are shares of the pool, so that a network that reads it can look at pools
of any size; the dissertation's image grows with the pool (University of Virginia, 2023, section
8.2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.lockstep.ready_pool.accounts import Cost
from simkit.learners.lockstep.ready_pool.endless import EndlessReadyGames
from simkit.learners.lockstep.ready_pool.games import Passed, ReadyGames
from simkit.learners.ready_pool.source import ReadySource
from simkit.scenario import Scenario

__all__ = ["GamesOfSizes", "SourceOfSizes"]


class GamesOfSizes:
    """Endless games of several sources, one source's behind another's."""

    def __init__(self, parts: Sequence[EndlessReadyGames]) -> None:
        self.parts = tuple(parts)
        ends = np.cumsum([len(part.active) for part in parts])
        self._cuts = ends[:-1]
        self.active: Ints = np.arange(ends[-1])

    @property
    def begun(self) -> Bools:
        """(N,) whether the last step ended with the beginning of another game."""
        return np.concatenate([part.begun for part in self.parts])

    def mask(self) -> Bools:
        """Return (N, M) what can be done."""
        return np.concatenate([part.mask() for part in self.parts])

    def step(self, actions: Ints) -> Passed:
        """Take one action in every game; see `ReadyGames.step`."""
        chosen = np.split(actions, self._cuts)
        went = [part.step(own) for part, own in zip(self.parts, chosen, strict=True)]
        columns = zip(*[vars(each).values() for each in went], strict=True)
        return Passed(*[np.concatenate(column) for column in columns])

    def state(self) -> dict[str, Any]:
        """Return all that they know; see `restore`."""
        return {
            f"{number}:{name}": value
            for number, part in enumerate(self.parts)
            for name, value in part.state().items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        for number, part in enumerate(self.parts):
            mine = f"{number}:"
            part.restore({k.removeprefix(mine): v for k, v in state.items() if k.startswith(mine)})


class SourceOfSizes(ReadySource):
    """A source whose endless games are of pools of several sizes; all others of the scenario's."""

    def __init__(self, scenario: Scenario, units: Sequence[int], **told: Any) -> None:
        """Read a scenario.

        Args:
            scenario: of the workload ``rare``, on a pool of `workload.units` processors and as many
                GPUs that always have power.
            units: sizes of the pools to play in.
            told: as of `ReadySource`.

        Raises ScenarioError, all problems at once, for another scenario.
        """
        super().__init__(scenario, **told)
        self._parts = [ReadySource(_of_size(scenario, size), **told) for size in units]

    def endless(self, games: int, rng: np.random.Generator) -> GamesOfSizes:  # type: ignore[override]
        """Return games that go on for ever, as many of each size as of the others, or one more."""
        counts = [len(part) for part in np.array_split(np.arange(games), len(self._parts))]
        if not min(counts):
            raise ScenarioError(
                f"learn.arguments.games: is {games}, fewer than the {len(counts)} sizes of units; "
                "give more"
            )
        return GamesOfSizes(
            [part.endless(n, rng) for part, n in zip(self._parts, counts, strict=True)]
        )

    def see(self, games: ReadyGames | GamesOfSizes) -> Numbers:
        if not isinstance(games, GamesOfSizes):
            return super().see(games)
        pairs = zip(self._parts, games.parts, strict=True)
        return np.concatenate([part.see(own) for part, own in pairs])

    def paid(self, games: ReadyGames | GamesOfSizes) -> Floats:
        if not isinstance(games, GamesOfSizes):
            return super().paid(games)
        pairs = zip(self._parts, games.parts, strict=True)
        return np.concatenate([part.paid(own) for part, own in pairs])

    def cost(self, games: ReadyGames | GamesOfSizes, name: Cost) -> Floats:
        if not isinstance(games, GamesOfSizes):
            return super().cost(games, name)
        pairs = zip(self._parts, games.parts, strict=True)
        return np.concatenate([part.cost(own, name) for part, own in pairs])


def _of_size(scenario: Scenario, units: int) -> Scenario:
    """Return a scenario with a pool of another size, and jobs of the same shares of it."""
    told = scenario.model_dump(mode="json")
    workload, cluster = told["workload"], told["cluster"]
    own, machines = workload.get("units"), cluster.get("machines") or []
    pool = {"count": 1, "processors": own, "gpu": own}
    fits = len(machines) == 1 and all(machines[0].get(key) == pool[key] for key in pool)
    if workload.get("type") != "rare" or workload.get("max_units") is not None or not fits:
        raise ScenarioError(
            "learn.arguments.units: changes the size of the workload rare and its pool, one "
            "machine with `workload.units` processors and as many gpu; train on such a scenario, "
            "or leave units out"
        )
    if told.get("power") is not None:
        raise ScenarioError(
            "learn.arguments.units: pools of other sizes would need other power; leave power out"
        )
    workload["units"] = units
    machines[0] |= {"processors": units, "gpu": units}
    return Scenario.model_validate(told)
