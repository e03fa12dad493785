"""DeepRM's image without its pixels: the first layer as sums of rows of prefix-sum tables.

The image consists of rectangles of ones that grow from one corner: some units of a row, some rows
and columns of a slot. A rectangle adds the sum of the weights over it to a hidden unit, and
cumulative sums fill a table of all such sums (F. C. Crow, "Summed-area tables for texture mapping",
1984). An image of 4,480 pixels is then 62 rows of the tables. Only their numbers are stored. The
result is the same as with the pixels of `simkit.agent.observe_slots.deeprm_image`.

On the CPU, SciPy's sparse matrices carry the gradient back to the tables: torch's own operation for
a sum of rows takes fourteen times as long there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from simkit.agent.slotted import Slotted, SlottedView

__all__ = ["ImageLayer", "TableLayout"]


class TableLayout:
    """Where the tables' rows are, end to end.

    For each resource: of each step ahead, the units held in it, 0 to C; of each slot, the lengths
    0 to H by the sizes 0 to C. Then the backlog, 0 to what is shown, and the steps since an
    arrival, 0 to `memory`.
    """

    def __init__(self, model: Slotted) -> None:
        self._model = model
        self._occupied, self._slots, end = [], [], 0
        for units in model.capacity:
            self._occupied.append(end + np.arange(model.horizon) * (units + 1))
            end += model.horizon * (units + 1)
            area = (model.horizon + 1) * (units + 1)
            self._slots.append(end + np.arange(model.slots) * area)
            end += model.slots * area
        self._backlog = end
        self._since = end + model.backlog_shown + 1
        last = self._since + model.memory
        self._type = np.int16 if last <= np.iinfo(np.int16).max else np.int32

    def rows(self, view: SlottedView) -> npt.NDArray[Any]:
        """Return (A, F): which rows of the tables make up each of A images."""
        model, parts = self._model, []
        length = np.minimum(view.length, model.horizon).astype(np.int64)  # (A, M)
        for r, units in enumerate(model.capacity):
            parts.append(view.occupied[..., r] + self._occupied[r])  # (A, H)
            parts.append(length * (units + 1) + view.size[..., r] + self._slots[r])  # (A, M)
        parts.append(np.minimum(view.backlog, model.backlog_shown)[:, None] + self._backlog)
        parts.append(view.since_arrival[:, None] + self._since)
        # contiguous by image, as the sparse product needs; views are contiguous by replica
        return np.ascontiguousarray(
            np.concatenate(parts, axis=1, dtype=self._type, casting="unsafe")
        )


class ImageLayer(nn.Module):
    """The first layer for DeepRM's image, with the weights of a `Dense` over its pixels."""

    def __init__(self, model: Slotted, hidden: int) -> None:
        """Draw weights as `Dense` does."""
        super().__init__()
        self._model = model
        columns = sum(model.capacity) * (1 + model.slots) + model.backlog_columns + 1
        self.weight = nn.Parameter(torch.empty(model.horizon * columns, hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))
        nn.init.xavier_normal_(self.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Return (A, hidden), images times weights and the bias, of (A, F) `TableLayout.rows`."""
        if rows.is_cuda:
            sums = functional.embedding_bag(rows.int(), self.table(), mode="sum")
        else:
            sums = _SumOfRows.apply(rows, self.table())  # type: ignore[no-untyped-call]
        return sums + self.bias

    def table(self) -> Tensor:
        """Return (rows, hidden): the sums of the weight over all rectangles."""
        model, hidden = self._model, self.weight.shape[1]
        pixels = self.weight.reshape(model.horizon, -1, hidden)  # (H, W, hidden)
        parts, column = [], 0
        for units in model.capacity:
            first, column = column + units, column + units * (1 + model.slots)
            held, slots = pixels[:, first - units : first], pixels[:, first:column]
            apart = slots.reshape(model.horizon, model.slots, units, hidden)
            areas = apart.cumsum(dim=2).cumsum(dim=0)  # (H, M, C, hidden)
            lengths = functional.pad(areas.transpose(0, 1), (0, 0, 1, 0, 1, 0))
            parts += [functional.pad(held.cumsum(dim=1), (0, 0, 1, 0)), lengths]
        shown = pixels[:, column:-1].reshape(-1, hidden)[: model.backlog_shown]
        parts.append(functional.pad(shown.cumsum(dim=0), (0, 0, 1, 0)))
        shares = torch.arange(model.memory + 1, device=pixels.device) / model.memory
        parts.append(torch.outer(shares.to(pixels.dtype), pixels[:, -1].sum(dim=0)))
        return torch.cat([part.reshape(-1, hidden) for part in parts])


class _SumOfRows(torch.autograd.Function):
    """(A, hidden): for each of A lists of rows, the sum of these rows of a table; on the CPU."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.length = len(table)
        return functional.embedding_bag(rows.int(), table, mode="sum")

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[None, Tensor]:
        (rows,) = ctx.saved_tensors
        images, parts = rows.shape
        ends = np.arange(0, images * parts + 1, parts, dtype=np.int32)
        ones = np.ones(images * parts, slope.numpy().dtype)
        places = rows.numpy().ravel().astype(np.int32)
        matrix = sparse.csr_array((ones, places, ends), shape=(images, ctx.length))
        return None, torch.from_numpy(matrix.T @ slope.numpy())
