"""Whole episodes by scorers of jobs on a GPU: an episode a thread, by the functions of the CPU.

The costs differ from the CPU's in last bits, as its mean adds up in another order, and logarithms
and products with sums are rounded otherwise there. So may a start, where two scores are almost
equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from simkit.arrays import Floats
from simkit.errors import PluginError
from simkit.learners.common.gpu import cuda_module, without_gpu
from simkit.learners.scorers.job_kernel import Scratch, episode, scratch_of
from simkit.learners.scorers.job_model import Call, Windows
from simkit.machine_code import dispatcher

__all__ = ["GpuPlayer"]

cuda: Any = cuda_module()
_episode: Any = dispatcher(episode)

BLOCK: Final = 64
"""Threads of a block."""
THREADS = 32_768
"""Most threads at a time; each plays one episode after another."""
BYTES: Final = 8 * 2**30
"""Most memory of all scratches."""


class GpuPlayer:
    """Plays windows on the GPU; keeps its memory from call to call."""

    def __init__(self) -> None:
        """Take the GPU; raises PluginError without one."""
        if problem := without_gpu():
            raise PluginError(problem)
        self._scratch: Any = None
        self._of = (0, 0, 0, 0)

    def slowdowns(self, windows: Windows, call: Call) -> Floats:
        """Return (C, W) mean bounded slowdowns of windows by candidates.

        Args:
            windows: W.
            call: with C candidates on these windows.
        """
        (candidates, units), count = call.picker.out.shape, len(windows.jobs)
        threads = self._make_room(candidates * count, windows.most, windows.users, units)
        costs = cuda.device_array((candidates, count))
        _play[threads // BLOCK, BLOCK](
            *map(self._sent, (call.columns, call.picker, call.rules)), self._scratch, costs
        )
        found: Floats = costs.copy_to_host()
        return found

    def _sent(self, arrays: Any) -> Any:
        """Return a named tuple with its arrays on the GPU."""
        return type(arrays)(
            *[cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arrays]
        )

    def _make_room(self, episodes: int, most: int, users: int, units: int) -> int:
        """Make the scratch for so many threads, and return their number."""
        one = scratch_of(most, max(users, 1), units)
        each = sum(array.nbytes for array in one) + 8 * most
        threads = max(min(episodes, THREADS, BYTES // each), 1)
        threads = -(-threads // BLOCK) * BLOCK
        if self._of != (threads, most, users, units):
            self._scratch, self._of = None, (threads, most, users, units)
            shapes: Sequence[np.ndarray[Any, Any]] = [*one, np.empty(most)]
            self._scratch = tuple(
                cuda.device_array((*array.shape, threads), array.dtype) for array in shapes
            )
        return threads


def _fill(columns: Any, picker: Any, rules: Any, scratch: Any, costs: Floats) -> None:
    """Fill (C, W) costs; threads lie along the last axis of the scratch."""
    t = cuda.grid(1)
    at, counts, queue, running, ending, recent, known, predicted, inside, line, keys, start = (
        scratch
    )
    own = Scratch(
        at[:, t], counts[:, t], queue[:, t], running[:, t], ending[:, t], recent[:, :, t],
        known[:, t], predicted[:, t], inside[:, :, t], line[:, t], keys[:, t],
    )  # fmt: skip
    starts = start[:, t]
    for number in range(t, costs.size, cuda.gridsize(1)):
        w, c = number // costs.shape[0], number % costs.shape[0]
        _episode(columns, w, picker, c, rules, own, starts)
        first, total = columns.first[w], 0.0
        jobs = columns.first[w + 1] - first
        for k in range(jobs):
            run = columns.run[first + k]
            took = starts[k] - columns.submit[first + k] + run
            total += max(took / max(run, 10.0), 1.0)
        costs[c, w] = total / jobs


_play: Any = cuda.jit(_fill)
