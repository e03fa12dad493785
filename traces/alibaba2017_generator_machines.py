"""Generated machines: the table server_event, and how their batch instances load them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simkit.workload import Floats, Ints

from . import alibaba2017_model_instances as model
from .alibaba2017_generator_instances import Attempts
from .alibaba2017_model import DAY_S, MACHINES

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class GeneratedMachines:
    """M machines with ids 1 … M, added before the trace, and E soft errors of some of them."""

    mem: Floats
    """(M,) relative to the largest machine's."""
    disk: Floats
    error_time_s: Ints
    """(E,) in order for each machine, not for all together, as in the trace."""
    error_machine: Ints
    error: list[str]

    def __len__(self) -> int:
        """Return M."""
        return len(self.mem)

    def frame(self) -> pl.DataFrame:
        """Return the rows of server_event; an error carries the capacity 0."""
        import polars as pl

        machines, errors = len(self), len(self.error)
        none = np.zeros(errors)
        return pl.DataFrame(
            {
                "time_s": np.concatenate((np.zeros(machines, np.int64), self.error_time_s)),
                "machine_id": np.concatenate((np.arange(1, machines + 1), self.error_machine)),
                "event": ["add"] * machines + ["softerror"] * errors,
                "detail": [None] * machines + self.error,
                "cpu": np.concatenate((np.full(machines, model.CORES), none.astype(np.int64))),
                "mem": _numbers(np.concatenate((self.mem, none))),
                "disk": _numbers(np.concatenate((self.disk, none))),
            }
        )


def draw_machines(machines: int, rng: np.random.Generator) -> GeneratedMachines:
    """Draw machines with 64 cores; of 1,313 seven have soft errors, of fewer at least one."""
    sizes = np.array([size for size, _ in model.CAPACITIES])
    counts = np.array([count for _, count in model.CAPACITIES])
    capacity = sizes[rng.choice(len(sizes), machines, p=counts / counts.sum())]
    faulty = -(-model.FAULTY_MACHINES * machines // MACHINES)
    times = [_error_times(rng) for _ in range(faulty)]
    owner = rng.permutation(machines)[:faulty] + 1
    names = [name for name, _ in model.ERRORS]
    counts = np.array([count for _, count in model.ERRORS])
    lengths = [len(each) for each in times]
    kinds = rng.choice(len(names), sum(lengths), p=counts / counts.sum())
    return GeneratedMachines(
        mem=capacity[:, 0],
        disk=capacity[:, 1],
        error_time_s=np.concatenate(times),
        error_machine=np.repeat(owner, lengths),
        error=[names[kind] for kind in kinds],
    )


def _error_times(rng: np.random.Generator) -> Ints:
    """Return when one faulty machine has errors: every two hours to the day's end, or a few."""
    if rng.random() < model.LASTING_SHARE:
        begin = rng.integers(1, DAY_S // 2)
        times = begin + np.arange(DAY_S // model.RETURN_S + 1) * model.RETURN_S
        return np.asarray(times[times < DAY_S])
    low, high = model.FEW_ERRORS
    begin = rng.integers(1, DAY_S - model.RETURN_S)
    return np.sort(begin + rng.integers(0, model.RETURN_S, rng.integers(low, high, endpoint=True)))


def _numbers(values: Floats) -> pl.Series:
    """Return numbers as text, whole ones without decimals, as the trace has them."""
    import polars as pl

    return pl.Series([f"{value:.16g}" for value in values], dtype=pl.String)


class BatchLoad:
    """Sums what batch instances use of each machine, as means over intervals of time.

    The use of an instance is even over its run; attempts of which no end is known are left out.
    """

    def __init__(self, machines: int, edges_s: Floats) -> None:
        """Begin with nothing.

        Args:
            machines: M.
            edges_s: (K + 1,) ascending: where K intervals begin and end.
        """
        self._machines, self._edges = machines, edges_s
        self._sums = np.zeros((2, 2, machines, len(edges_s) + 1))

    def add(self, attempts: Attempts) -> None:
        """Add a batch of attempts."""
        ended = (attempts.end_s > 0) & (attempts.machine > 0)
        machine = attempts.machine[ended] - 1
        for sign, times in ((1, attempts.start_s[ended]), (-1, attempts.end_s[ended])):
            cell = machine * (len(self._edges) + 1) + np.searchsorted(self._edges, times)
            for kind, used in enumerate((attempts.cpu[ended], attempts.mem[ended])):
                for power, weight in enumerate((used, used * times)):
                    total = np.bincount(cell, weight, self._sums[0, 0].size)
                    self._sums[kind, power] += sign * total.reshape(self._sums[0, 0].shape)

    def means(self) -> tuple[Floats, Floats]:
        """Return (M, K) cores and (M, K) memory in use on average."""
        # What has been used up to an edge e: the sum of use · (e − start) over what has started,
        # less the same with the ends.
        amount, moment = np.cumsum(self._sums, axis=-1)[..., :-1].swapaxes(0, 1)
        used = np.diff(self._edges * amount - moment, axis=-1)
        cpu, mem = np.maximum(used, 0) / np.diff(self._edges)
        return cpu, mem
