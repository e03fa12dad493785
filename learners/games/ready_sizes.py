"""Games on pools of several sizes side by side, so that one agent learns for all sizes.

An observation of a set of jobs gives shares of the pool, so one network can read pools of any size;
the dissertation's image grows with the pool (University of Virginia, 2023, section 8.2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simkit.agent.encoder import Numbers
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.games.ready_pool import ReadySource
from simkit.learners.lockstep.ready_pool.games import ReadyGames
from simkit.scenario import Scenario

__all__ = ["GamesOfSizes", "SourceOfSizes"]


class GamesOfSizes:
    """Endless games of several sources, numbered source by source."""

    def __init__(self, parts: Sequence[ReadyGames]) -> None:
        self.parts = tuple(parts)
        ends = np.cumsum([len(part.active) for part in parts])
        self._cuts = ends[:-1]
        self.active: Ints = np.arange(ends[-1])

    @property
    def begun(self) -> Bools:
        """(N,) whether another game began at the end of the last step."""
        return np.concatenate([part.begun for part in self.parts])

    @property
    def passed(self) -> Ints:
        """(N,) hours that the last step took."""
        return np.concatenate([part.passed for part in self.parts])

    @property
    def cost(self) -> Floats:
        """(N,) what the last step cost."""
        return np.concatenate([part.cost for part in self.parts])

    def observe(self) -> Numbers:
        """Return (N, K) observations."""
        return np.concatenate([part.observe() for part in self.parts])

    def mask(self) -> Bools:
        """Return (N, M) which actions are allowed."""
        return np.concatenate([part.mask() for part in self.parts])

    def step(self, actions: Ints) -> Floats:
        """Take one action in every game; return (N,) rewards."""
        chosen = np.split(actions, self._cuts)
        paid = [part.step(own) for part, own in zip(self.parts, chosen, strict=True)]
        return np.concatenate(paid)

    def state(self) -> dict[str, Any]:
        """Return the state of all games; see `restore`."""
        return {
            f"{number}:{name}": value
            for number, part in enumerate(self.parts)
            for name, value in part.state().items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        for number, part in enumerate(self.parts):
            own = f"{number}:"
            part.restore({k.removeprefix(own): v for k, v in state.items() if k.startswith(own)})


class SourceOfSizes(ReadySource):
    """A source whose endless games have pools of several sizes; other games have the scenario's."""

    def __init__(self, scenario: Scenario, units: Sequence[int], **arguments: Any) -> None:
        """Read a scenario.

        Args:
            scenario: the workload must be ``rare``, on a pool of `workload.units` processors and as
                many GPUs that always have power.
            units: sizes of the pools to play on.
            arguments: those of `ReadySource`.

        Raises ScenarioError, all problems at once, for another scenario.
        """
        super().__init__(scenario, **arguments)
        self._parts = [ReadySource(_resized(scenario, size), **arguments) for size in units]

    def endless(self, count: int, rng: np.random.Generator) -> GamesOfSizes:  # type: ignore[override]
        """Return endless games, split evenly over the sizes."""
        counts = [len(part) for part in np.array_split(np.arange(count), len(self._parts))]
        if not min(counts):
            raise ScenarioError(
                f"learn.arguments.games: is {count}, fewer than the {len(counts)} sizes in units; "
                "give more"
            )
        return GamesOfSizes(
            [part.endless(n, rng) for part, n in zip(self._parts, counts, strict=True)]
        )


def _resized(scenario: Scenario, units: int) -> Scenario:
    """Return the scenario with a pool of another size, whose jobs keep their shares of the pool."""
    sections = scenario.model_dump(mode="json")
    workload, cluster = sections["workload"], sections["cluster"]
    own, machines = workload.get("units"), cluster.get("machines") or []
    pool = {"count": 1, "processors": own, "gpu": own}
    fits = len(machines) == 1 and all(machines[0].get(key) == pool[key] for key in pool)
    if workload.get("type") != "rare" or workload.get("max_units") is not None or not fits:
        raise ScenarioError(
            "learn.arguments.units: changes the size of the workload rare and its pool, one "
            "machine with `workload.units` processors and as many gpu; train on such a scenario, "
            "or leave units out"
        )
    if sections.get("power") is not None:
        raise ScenarioError(
            "learn.arguments.units: pools of other sizes would need other power; leave power out"
        )
    workload["units"] = units
    machines[0] |= {"processors": units, "gpu": units}
    return Scenario.model_validate(sections)
