"""Sofia's observation as a few numbers, and its product with a weight as sums from tables.

A slot's column repeats one number in its first rows, so its product with a weight is that number
times the sum of the weight's first rows. The same holds for the backlog's ones. The sums are
calculated once for each change of the weight. Instead of the 1,380 numbers of the study's state,
151 small integers are stored, and 141 rows are added.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from simkit.learners.nn.input_layers import Stored
from simkit.learners.nn.perceptron import Array
from simkit.learners.nn.table_layer import sums_from
from simkit.learning.observe_sofia import sofia_schema
from simkit.learning.slotted import Slotted, SlottedView


class SofiaLayer:
    """The first layer for Sofia's observation, an `InputLayer`.

    A table's rows are, in this order: the weights of the occupied columns, (H, R); for each
    resource and slot the sums of its first 0 … H weights, (R, M, H + 1); likewise for the backlog's
    first 0 … B ones, (B + 1).
    """

    def __init__(self, model: Slotted, *, shares: bool) -> None:
        self._model = model
        self.inputs = sofia_schema(model, shares=shares).size
        self._scale = np.array(
            [1 / units if shares else 1 for units in model.capacity], np.float32
        )  # (R,)
        self._held = model.horizon * model.resources
        """Row of a table at which the sums begin."""
        runs = model.resources * model.slots
        self._begins = np.arange(runs) * (model.horizon + 1)
        """(R * M,) where each slot's sums begin, counted from `_held`."""
        self._backlog = runs * (model.horizon + 1)
        """Where the backlog's sums begin, counted from `_held`."""
        most = max(*model.capacity, model.horizon, model.backlog_shown)
        self._type = np.int16 if most <= np.iinfo(np.int16).max else np.int32

    def stored(self, view: SlottedView) -> Stored:
        """Return (A, H * R + R * M + M + 1): occupied, sizes, lengths, and the backlog."""
        games = len(view.backlog)
        parts = (
            view.occupied.reshape(games, -1),
            view.size.swapaxes(1, 2).reshape(games, -1),
            np.minimum(view.length, self._model.horizon),
            np.minimum(view.backlog, self._model.backlog_shown)[:, None],
        )
        return np.concatenate(parts, axis=1, dtype=self._type, casting="unsafe")

    def table(self, weight: Array) -> Array:
        """Return (rows, hidden): a weight (K, hidden) summed as the class says, times the scale."""
        held, slots, backlog = self._parts(weight)
        scale = self._scale.astype(weight.dtype)
        hidden = weight.shape[1]
        return np.concatenate(
            (
                (held * scale[:, None]).reshape(-1, hidden),
                (_sums_to(slots, 2) * scale[:, None, None, None]).reshape(-1, hidden),
                _sums_to(backlog, 0),
            )
        )

    def matrix(self, stored: Stored, dtype: npt.DTypeLike) -> sparse.csr_array:
        """Return (A, rows): how often each row of the table is in each observation."""
        held = sparse.csr_array(stored[:, : self._held].astype(dtype))
        return sparse.hstack((held, self._sums(stored, dtype)), format="csr")

    def product(self, stored: Stored, table: Array) -> Array:
        """Return (A, hidden): the observations times the weight."""
        held = stored[:, : self._held].astype(table.dtype)
        result: Array = held @ table[: self._held]
        result += self._sums(stored, table.dtype) @ table[self._held :]
        return result

    def gradient(self, stored: Stored, cotangent: Array) -> Array:
        """Return (K, hidden): the observations, transposed, times a cotangent (A, hidden)."""
        dtype = cotangent.dtype
        of_held = stored[:, : self._held].astype(dtype).T @ cotangent
        of_sums = self._sums(stored, dtype).T @ cotangent
        return self.fold(np.concatenate((of_held, of_sums)))

    def fold(self, slopes: Array) -> Array:
        """Return (K, hidden) by the weight, of a derivative (rows, hidden) by the table."""
        model, (_, hidden), dtype = self._model, slopes.shape, slopes.dtype
        of_held, of_sums = slopes[: self._held], slopes[self._held :]
        scale = self._scale.astype(dtype)
        weight = np.zeros((self.inputs, hidden), dtype)
        held, slots, backlog = self._parts(weight)
        held[...] = of_held.reshape(held.shape) * scale[:, None]
        runs = of_sums[: self._backlog].reshape(*slots.shape[:2], model.horizon + 1, hidden)
        slots[...] = sums_from(runs, 2)[:, :, 1:] * scale[:, None, None, None]
        backlog[...] = sums_from(of_sums[self._backlog :], 0)[1:]
        columns = model.backlog_columns
        rows = weight.reshape(model.horizon, -1, hidden)
        shown = np.zeros((model.horizon * columns, hidden), dtype)
        shown[: model.backlog_shown] = backlog
        rows[:, -columns:] = shown.reshape(model.horizon, columns, hidden)
        return weight

    def _parts(self, weight: Array) -> tuple[Array, Array, Array]:
        """Return a weight's (H, R, hidden), (R, M, H, hidden) and (B, hidden); the last a copy."""
        model, hidden = self._model, weight.shape[1]
        wide = 1 + model.slots
        rows = weight.reshape(model.horizon, -1, hidden)  # (H, W, hidden)
        columns = rows[:, : model.resources * wide]
        blocks = columns.reshape(model.horizon, model.resources, wide, hidden)  # copies nothing
        backlog = rows[:, model.resources * wide :].reshape(-1, hidden)
        return (
            blocks[:, :, 0],
            blocks[:, :, 1:].transpose(1, 2, 0, 3),
            backlog[: model.backlog_shown].copy(),
        )

    def _sums(self, stored: Stored, dtype: npt.DTypeLike) -> sparse.csr_array:
        """Return (A, sums): which sums make up each observation, and how often."""
        model, games = self._model, len(stored)
        runs = model.resources * model.slots
        size = stored[:, self._held : self._held + runs]
        length = np.tile(stored[:, self._held + runs : -1], (1, model.resources))
        row = np.empty((games, runs + 1), np.int32)
        np.add(length, self._begins, out=row[:, :-1], casting="unsafe")
        np.add(stored[:, -1], self._backlog, out=row[:, -1], casting="unsafe")
        times = np.ones((games, runs + 1), dtype)
        times[:, :-1] = size
        ends = np.arange(0, row.size + 1, runs + 1, dtype=np.int32)
        width = self._backlog + model.backlog_shown + 1
        return sparse.csr_array((times.ravel(), row.ravel(), ends), shape=(games, width))


def _sums_to(array: Array, axis: int) -> Array:
    """Return the sums of the first 0, 1, … entries of an axis."""
    none = np.zeros_like(np.take(array, [0], axis))
    return np.concatenate((none, np.cumsum(array, axis=axis)), axis=axis)
