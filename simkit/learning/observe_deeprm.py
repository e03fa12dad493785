"""DeepRM's two observations: the state as an image, and the same facts as a short vector.

H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource Management with Deep Reinforcement
Learning" (HotNets 2016): an image of the cluster's occupancy over the steps ahead, of the waiting
tasks' shapes, and of the backlog; their public code adds a column for the time since a job came.
There, the cells of running tasks have random grey levels, which only tell a task from its
neighbours; here a cell is 0 or 1, and occupied cells stand at the left of their row.

Both are functions of a `SlottedView` with any leading axes, so that one simulation and many
replicas that advance together see the same numbers.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simkit.learning.encoder import Numbers, SlotEncoder
from simkit.learning.schema import Field, ObservationSchema
from simkit.learning.slotted import Slotted, SlottedView
from simkit.learning.slotted_tracker import SlottedTracker
from simkit.policy import State


def deeprm_image(view: SlottedView, model: Slotted) -> Numbers:
    """Return (…, H, W) float32: the image of each replica; 20 x 224 with DeepRM's dimensions.

    From the left, for each resource of C units: C columns with a row's occupied units as ones
    from the left, then, for each of the M slots, C columns with ones in the first ``length`` rows
    and ``size`` columns. Then the backlog, ones filled in row by row, in as many columns as
    ``backlog_shown`` needs; last a column of the share since_arrival / memory.
    """
    schema = image_schema(model)
    picture = np.empty((*view.backlog.shape, *schema.shape), np.float32)
    _Image(picture, model).draw(view)
    return picture


def deeprm_compact(view: SlottedView, model: Slotted) -> Numbers:
    """Return (…, K) float32: H*R occupied shares, M*(1 + R) of slots, backlog, time since arrival.

    All are shares, at most 1: of the capacity, of ``max_length``, of ``backlog_shown`` and of
    ``memory``.
    """
    return _shares(view, _divisors(model))


@lru_cache(maxsize=32)
def image_schema(model: Slotted) -> ObservationSchema:
    """Return the meaning of the columns of `deeprm_image`."""
    rows, parts = model.horizon, []
    for r, units in enumerate(model.capacity):
        parts.append(
            Field(
                f"occupied.{r}", (rows, units), 0, 1, "1",
                f"row t: as many ones as units of resource {r} are held t steps ahead",
            )
        )  # fmt: skip
        parts += [
            Field(
                f"slot.{slot}.{r}", (rows, units), 0, 1, "1",
                f"ones: the steps (rows) and units of resource {r} that the task in slot {slot} "
                "takes",
            )
            for slot in range(model.slots)
        ]  # fmt: skip
    text = "ones, row by row: tasks behind the slots"
    parts.append(Field("backlog", (rows, model.backlog_columns), 0, 1, "1", text))
    text = f"steps since a job last came / {model.memory}, everywhere"
    parts.append(Field("since_arrival", (rows, 1), 0, 1, "1", text))
    return ObservationSchema("deeprm-image", tuple(parts), _dimensions(model), rows)


@lru_cache(maxsize=32)
def compact_schema(model: Slotted) -> ObservationSchema:
    """Return the meaning of the numbers of `deeprm_compact`."""
    count, steps = model.resources, model.horizon
    parts = (
        Field("occupied", (steps, count), 0, 1, "1", "units held in each step ahead / capacity"),
        Field(
            "slots", (model.slots, 1 + count), 0, 1, "1",
            f"of the task in each slot: steps / {model.max_length}, then units of each resource / "
            "capacity; zeros: empty",
        ),
        Field("backlog", (1,), 0, 1, "1", f"tasks behind the slots / {model.backlog_shown}"),
        Field("since_arrival", (1,), 0, 1, "1", f"steps since a job last came / {model.memory}"),
    )  # fmt: skip
    return ObservationSchema("deeprm-compact", parts, _dimensions(model))


class _Image:
    """An array of images, and views of its parts."""

    def __init__(self, picture: Numbers, model: Slotted) -> None:
        self._shown, self._memory = model.backlog_shown, model.memory
        rows = np.arange(model.horizon)
        self._steps = rows[:, None, None]  # (H, 1, 1)
        self._units = [np.arange(units) for units in model.capacity]
        self._occupied, self._slots, begin = [], [], 0
        for units in model.capacity:
            end = begin + units
            self._occupied.append(picture[..., begin:end])
            begin, end = end, end + units * model.slots
            shape = (*picture.shape[:-1], model.slots, units)
            self._slots.append(picture[..., begin:end].reshape(shape))
            begin = end
        self._backlog = picture[..., begin:-1]
        self._since = picture[..., -1]
        columns = model.backlog_columns
        self._numbers = rows[:, None] * columns + np.arange(columns)  # (H, columns)

    def draw(self, view: SlottedView) -> None:
        short = self._steps < view.length[..., None, :, None]  # (…, H, M, 1)
        for r, units in enumerate(self._units):
            np.less(units, view.occupied[..., r, None], out=self._occupied[r], casting="unsafe")
            narrow = units < view.size[..., None, :, r, None]  # (…, 1, M, C)
            np.logical_and(short, narrow, out=self._slots[r], casting="unsafe")
        waiting = np.minimum(view.backlog, self._shown)
        self._backlog[...] = self._numbers < waiting[..., None, None]
        self._since[...] = (view.since_arrival / self._memory)[..., None]


def _shares(view: SlottedView, whole: Numbers) -> Numbers:
    """Return a fresh array: steps, units and counts as shares of (K,) `whole`, at most 1."""
    if view.packed is not None:  # in the same order
        counts: Numbers = view.packed.astype(np.float32)
    else:
        shown, resources = view.occupied, view.size.shape[-1]
        counts = np.empty((*view.backlog.shape, len(whole)), np.float32)
        end = shown.shape[-2] * resources
        counts[..., :end].reshape(shown.shape)[...] = shown
        slots = counts[..., end:-2].reshape(*view.length.shape, 1 + resources)
        slots[..., 0], slots[..., 1:] = view.length, view.size
        counts[..., -2], counts[..., -1] = view.backlog, view.since_arrival
    np.minimum(counts, whole, out=counts)
    counts /= whole
    return counts


@lru_cache(maxsize=32)
def _divisors(model: Slotted) -> Numbers:
    """Return (K,) what the numbers of a compact observation are shares of."""
    slot = (model.max_length, *model.capacity)
    last = (model.backlog_shown, model.memory)
    whole = (*model.capacity * model.horizon, *slot * model.slots, *last)
    divisors = np.array(whole, np.float32)
    divisors.flags.writeable = False
    return divisors


class DeeprmImage(SlotEncoder):
    """The image of numbered slots; see `deeprm_image`."""

    def __init__(self, tracker: SlottedTracker) -> None:
        super().__init__(tracker)
        self.schema = image_schema(tracker.model)
        self._buffer = np.empty(self.schema.shape, np.float32)
        self._image = _Image(self._buffer, tracker.model)

    def encode(self, state: State) -> Numbers:
        """Return (H, W) float32."""
        self._image.draw(self.tracker.view())
        return self._buffer.copy()


class DeeprmCompact(SlotEncoder):
    """The short vector of numbered slots; see `deeprm_compact`."""

    def __init__(self, tracker: SlottedTracker) -> None:
        super().__init__(tracker)
        self.schema = compact_schema(tracker.model)
        self._whole = _divisors(tracker.model)

    def encode(self, state: State) -> Numbers:
        """Return (K,) float32."""
        return _shares(self.tracker.view(), self._whole)


def _dimensions(model: Slotted) -> dict[str, object]:
    """Return what shapes and scales depend on; the backlog's limit is not part of it."""
    names = ("capacity", "slots", "horizon", "max_length", "backlog_shown", "memory")
    return {name: getattr(model, name) for name in names}
