"""The first layer for DeepRM's image, without its pixels: sums of rows of prefix-sum tables.

The image consists of rectangles of ones that grow from one corner: some units of a row, some rows
and columns of a slot. A rectangle adds the sum of the weights under it to a hidden unit, and
cumulative sums fill a table of all such sums (F. C. Crow, "Summed-area tables for texture mapping",
1984). An image of 4,480 pixels thus becomes 62 rows of the tables, stored by their numbers. The
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
    """Row numbers of the tables, stored end to end.

    Each resource has one table per step ahead, with a row for 0 to C occupied units, and one table
    per slot, with a row for each length 0 to H and size 0 to C. Then come the tables of the backlog
    that is shown, and of the steps since an arrival, 0 to `memory`.
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
        """Return (A, F) numbers of the table rows that make up each of A images."""
        model, parts = self._model, []
        length = np.minimum(view.length, model.horizon).astype(np.int64)  # (A, M)
        for r, units in enumerate(model.capacity):
            parts.append(view.occupied[..., r] + self._occupied[r])  # (A, H)
            parts.append(length * (units + 1) + view.size[..., r] + self._slots[r])  # (A, M)
        parts.append(np.minimum(view.backlog, model.backlog_shown)[:, None] + self._backlog)
        parts.append(view.since_arrival[:, None] + self._since)
        # contiguous by image, as the sparse product needs; views are contiguous by episode
        return np.ascontiguousarray(
            np.concatenate(parts, axis=1, dtype=self._type, casting="unsafe")
        )


class ImageLayer(nn.Module):
    """A layer over DeepRM's image with the same weights as a `Dense` over its pixels."""

    def __init__(self, model: Slotted, hidden: int) -> None:
        """Draw weights as `Dense` does."""
        super().__init__()
        self._model = model
        columns = sum(model.capacity) * (1 + model.slots) + model.backlog_columns + 1
        self.weight = nn.Parameter(torch.empty(model.horizon * columns, hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))
        nn.init.xavier_normal_(self.weight)
        self._kept: tuple[tuple[int, int], Tensor] | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """Return (A, hidden) outputs for (A, F) row numbers from `TableLayout.rows`."""
        if rows.is_cuda:
            sums = functional.embedding_bag(rows.int(), self.table(), mode="sum")
        else:
            sums = _SumOfRows.apply(rows, self.table())  # type: ignore[no-untyped-call]
        return sums + self.bias

    def table(self) -> Tensor:
        """Return (rows, hidden) sums of the weights under all rectangles.

        Without gradients it is kept until the weights change: rollouts ask for it at every step.
        """
        if torch.is_grad_enabled():
            return self._sums()
        state = id(self.weight), self.weight._version
        if self._kept is None or self._kept[0] != state:
            self._kept = state, self._sums()
        return self._kept[1]

    def _sums(self) -> Tensor:
        model, hidden = self._model, self.weight.shape[1]
        pixels = self.weight.reshape(model.horizon, -1, hidden)  # (H, W, hidden)
        parts, column = [], 0
        for units in model.capacity:
            first, column = column + units, column + units * (1 + model.slots)
            occupied, slots = pixels[:, first - units : first], pixels[:, first:column]
            by_slot = slots.reshape(model.horizon, model.slots, units, hidden)
            areas = by_slot.cumsum(dim=2).cumsum(dim=0)  # (H, M, C, hidden)
            lengths = functional.pad(areas.transpose(0, 1), (0, 0, 1, 0, 1, 0))
            parts += [functional.pad(occupied.cumsum(dim=1), (0, 0, 1, 0)), lengths]
        shown = pixels[:, column:-1].reshape(-1, hidden)[: model.backlog_shown]
        parts.append(functional.pad(shown.cumsum(dim=0), (0, 0, 1, 0)))
        shares = torch.arange(model.memory + 1, device=pixels.device) / model.memory
        parts.append(torch.outer(shares.to(pixels.dtype), pixels[:, -1].sum(dim=0)))
        return torch.cat([part.reshape(-1, hidden) for part in parts])


class _SumOfRows(torch.autograd.Function):
    """Maps each of A lists of row numbers to the sum of these rows, (A, hidden); on the CPU."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.length = len(table)
        return functional.embedding_bag(rows.int(), table, mode="sum")

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[None, Tensor]:
        (rows,) = ctx.saved_tensors
        return None, _AddedToRows.apply(rows, slope, ctx.length)  # type: ignore[no-untyped-call]


class _AddedToRows(torch.autograd.Function):
    """The transpose: adds each of (A, hidden) numbers to the rows of its list; (rows, hidden).

    It is a function of its own so that gradients have gradients, as the natural gradient needs.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slope: Tensor, length: int) -> Tensor:
        ctx.save_for_backward(rows)
        images, parts = rows.shape
        ends = np.arange(0, images * parts + 1, parts, dtype=np.int32)
        ones = np.ones(images * parts, slope.numpy().dtype)
        places = rows.numpy().ravel().astype(np.int32)
        matrix = sparse.csr_array((ones, places, ends), shape=(images, length))
        return torch.from_numpy(matrix.T @ slope.numpy())

    @staticmethod
    def backward(ctx: Any, along: Tensor) -> tuple[None, Tensor, None]:
        (rows,) = ctx.saved_tensors
        return None, _SumOfRows.apply(rows, along), None  # type: ignore[no-untyped-call]
