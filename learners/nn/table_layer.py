"""DeepRM's image without its pixels: the first layer as sums of rows of prefix-sum tables.

The image consists of rectangles of ones that grow from one corner: some units of a row, some rows
and columns of a slot. A rectangle adds the sum of the weights over it to a hidden unit, and
cumulative sums fill a table of all such sums (Crow, "Summed-area tables for texture mapping",
1984). An image of 4,480 pixels is then 62 rows of the tables. Only their numbers are stored, and
the product with the weights is sparse. The result is the same as with the pixels of
`simkit.learning.observe_deeprm.deeprm_image`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from simkit.learners.nn.perceptron import Array
from simkit.learning.slotted import Slotted, SlottedView

Stored = npt.NDArray[np.integer]


class TableLayer:
    """The first layer for DeepRM's image, an `InputLayer`."""

    def __init__(self, model: Slotted) -> None:
        """Lay out the tables, end to end.

        For each resource: of each step ahead, the units held in it, 0 to C; of each slot, the
        lengths 0 to H by the sizes 0 to C. Then the backlog, 0 to what is shown, and the steps
        since an arrival, 0 to `memory`.
        """
        self._model = model
        self._backlog_columns = model.backlog_columns
        columns = sum(model.capacity) * (1 + model.slots) + self._backlog_columns + 1
        self.inputs = model.horizon * columns
        """K: pixels of the image."""
        self._occupied, self._slots, end = [], [], 0
        for units in model.capacity:
            self._occupied.append(end + np.arange(model.horizon) * (units + 1))
            end += model.horizon * (units + 1)
            area = (model.horizon + 1) * (units + 1)
            self._slots.append(end + np.arange(model.slots) * area)
            end += model.slots * area
        self._backlog = end
        self._since = end + model.backlog_shown + 1
        self.rows = self._since + model.memory + 1
        """Rows of all tables together."""
        self._stored_type = np.min_scalar_type(self.rows)

    def stored(self, view: SlottedView) -> Stored:
        """Return (A, F): which rows of the tables make up each of A images."""
        model, parts = self._model, []
        length = np.minimum(view.length, model.horizon).astype(np.int64)  # (A, M)
        for r, units in enumerate(model.capacity):
            parts.append(view.occupied[..., r] + self._occupied[r])  # (A, H)
            parts.append(length * (units + 1) + view.size[..., r] + self._slots[r])  # (A, M)
        parts.append(np.minimum(view.backlog, model.backlog_shown)[:, None] + self._backlog)
        parts.append(view.since_arrival[:, None] + self._since)
        # contiguous by image, as the sparse product needs; views are contiguous by replica
        stored = np.concatenate(parts, axis=1, dtype=self._stored_type, casting="unsafe")
        return np.ascontiguousarray(stored)

    def table(self, weight: Array) -> Array:
        """Return (rows, hidden): the sums of a weight (K, hidden) over all rectangles."""
        model, hidden = self._model, weight.shape[1]
        pixels = weight.reshape(model.horizon, -1, hidden)  # (H, W, hidden)
        table = np.zeros((self.rows, hidden), weight.dtype)
        for held, slots, wide, shapes in self._blocks(table, pixels):
            np.cumsum(wide, axis=1, out=held[:, 1:])
            sums = shapes.cumsum(axis=2)  # (M, H, C, hidden)
            np.cumsum(sums, axis=1, out=slots[:, 1:, 1:])
        shown = pixels[:, -1 - self._backlog_columns : -1].reshape(-1, hidden)
        np.cumsum(shown[: model.backlog_shown], axis=0, out=table[self._backlog + 1 : self._since])
        table[self._since :] = np.outer(self._shares(weight.dtype), pixels[:, -1].sum(axis=0))
        return table

    def product(self, stored: Stored, table: Array) -> Array:
        """Return (A, hidden): the images times the weights."""
        result: Array = self.matrix(stored, table.dtype) @ table
        return result

    def gradient(self, stored: Stored, cotangent: Array) -> Array:
        """Return (K, hidden): the images, transposed, times a cotangent (A, hidden)."""
        return self.fold(self.matrix(stored, cotangent.dtype).T @ cotangent)

    def fold(self, slopes: Array) -> Array:
        """Return (K, hidden) by the weights, of a derivative (rows, hidden) by the tables."""
        model, (_, hidden), dtype = self._model, slopes.shape, slopes.dtype
        weight = np.zeros((self.inputs, hidden), dtype)
        pixels = weight.reshape(model.horizon, -1, hidden)
        for held, slots, wide, shapes in self._blocks(slopes, pixels):
            wide[...] = sums_from(held, 1)[:, 1:]
            shapes[...] = sums_from(sums_from(slots, 1), 2)[:, 1:, 1:]
        shown = np.zeros((model.horizon * self._backlog_columns, hidden), dtype)
        shown[: model.backlog_shown] = sums_from(slopes[self._backlog + 1 : self._since], 0)
        pixels[:, -1 - self._backlog_columns : -1] = shown.reshape(model.horizon, -1, hidden)
        pixels[:, -1] = self._shares(dtype) @ slopes[self._since :]
        return weight

    def _blocks(self, table: Array, pixels: Array) -> list[tuple[Array, Array, Array, Array]]:
        """Return, for each resource, the parts of the tables and of the weights that match.

        They share memory with both: (H, C + 1, hidden) and (M, H + 1, C + 1, hidden) of the
        tables, (H, C, hidden) and (M, H, C, hidden) of the weights.
        """
        model, hidden, blocks, column = self._model, table.shape[1], [], 0
        for r, units in enumerate(model.capacity):
            first, begin = self._occupied[r][0], self._slots[r][0]
            end = begin + model.slots * (model.horizon + 1) * (units + 1)
            held = table[first:begin].reshape(model.horizon, units + 1, hidden)
            slots = table[begin:end].reshape(model.slots, model.horizon + 1, units + 1, hidden)
            wide = pixels[:, column : column + units]
            column += units
            blocks.append((held, slots, wide, _side_by_side(pixels, column, units, model.slots)))
            column += units * model.slots
        return blocks

    def _shares(self, dtype: npt.DTypeLike) -> Array:
        """Return (memory + 1,) the value of the image's last column for each number of steps."""
        return (np.arange(self._model.memory + 1) / self._model.memory).astype(dtype)

    def matrix(self, stored: Stored, dtype: npt.DTypeLike) -> sparse.csr_array:
        """Return (A, rows): ones at the rows that make up each image."""
        images, parts = stored.shape
        ends = np.arange(0, images * parts + 1, parts, dtype=np.int32)
        ones = np.ones(images * parts, dtype)
        return sparse.csr_array(
            (ones, stored.ravel().astype(np.int32), ends), shape=(images, self.rows)
        )


def _side_by_side(pixels: Array, column: int, units: int, blocks: int) -> Array:
    """Return (blocks, H, units, hidden): blocks of columns from `column` on, a view."""
    part = pixels[:, column : column + blocks * units]
    apart = part.reshape(len(pixels), blocks, units, -1)  # splitting an axis copies nothing
    return apart.swapaxes(0, 1)


def sums_from(array: Array, axis: int) -> Array:
    """Return the sums from each entry of an axis to its end."""
    return np.flip(np.flip(array, axis).cumsum(axis), axis)
