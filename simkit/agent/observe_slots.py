"""Observations of numbered slots: as a set of tasks, DeepRM's image and vector, Sofia's columns.

``slot-set``: what is held in the steps ahead, then the task of each slot. Unlike DeepRM's image it
shows how long each task has waited, whether it could start now or at all, and how many jobs have
come so far: an agent for several loads has to tell them apart. A task's numbers stand together, so
that a network can look at every slot with the same weights.

``deeprm-image`` and ``deeprm-compact``: H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource
Management with Deep Reinforcement Learning" (HotNets 2016): an image of the cluster's occupancy
over the steps ahead, of the waiting tasks' shapes, and of the backlog; their public code adds a
column for the time since a job came. There, the cells of running tasks have random grey levels,
which only distinguish a task from its neighbours; here a cell is 0 or 1, and occupied cells stand
at the left of their row. The vector holds the same facts.

``sofia-compact`` and ``sofia-shares``: the state of the public code behind "Resource management
with deep reinforcement learning" (Sofia, 2021): for each resource a column of the units that are
held in each step ahead, then, for each slot, a column with the units that its task asks for in as
many rows as it takes steps; after all resources the backlog as ones. There, numbers are units;
shares of the capacity hold the same information and suit initial weights of the usual size.

All are functions of a `SlottedView` with any leading axes, so that one simulation and many replicas
that advance together see the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np

from simkit.agent.encoder import Field, Numbers, ObservationSchema
from simkit.agent.slotted import Slotted, SlottedView
from simkit.agent.slotted_tracker import SlottedTracker
from simkit.arrays import Ints
from simkit.policy import State, SystemInfo

JOBS, STEPS = 4, 12
"""Units of the jobs that have come and of the time since the first one."""
LARGEST = 6
"""Most of these units that are shown."""


@dataclass(frozen=True)
class SlotFacts:
    """What `slot_set` shows in addition to a `SlottedView`; every array may have leading axes."""

    earliest: Ints
    """(…, M) first step ahead at which each slot's task can start; -1: none, or empty."""
    waited: Ints
    """(…, M) steps since its job came; 0 for an empty slot."""
    arrived: Ints
    """(…) jobs that have come so far, rejected ones too."""
    elapsed: Ints
    """(…) steps since the first one came."""

    def take(self, rows: Ints | slice) -> SlotFacts:
        """Return those of some replicas, the leading axis."""
        return SlotFacts(
            self.earliest[rows], self.waited[rows], self.arrived[rows], self.elapsed[rows]
        )


def slot_set(view: SlottedView, facts: SlotFacts, model: Slotted) -> Numbers:
    """Return (…, K) float32: H·R + 4 numbers of the whole, then 6 + R of each of the M slots."""
    lead, slots, count = view.backlog.shape, model.slots, model.resources
    earliest, waited, elapsed = facts.earliest, facts.waited, facts.elapsed
    whole = context_size(model)
    numbers = np.empty((*lead, whole + slots * slot_size(model)), np.float32)
    held = view.occupied / np.array(model.capacity, np.float32)
    numbers[..., : whole - 4] = held.reshape(*lead, whole - 4)
    numbers[..., whole - 4] = np.minimum(view.backlog / model.backlog_shown, 1.0)
    numbers[..., whole - 3] = np.minimum(view.since_arrival / model.memory, 1.0)
    # By how much likelier one load is than another is linear in these two.
    numbers[..., whole - 2] = np.minimum(facts.arrived / JOBS, LARGEST)
    numbers[..., whole - 1] = np.minimum(elapsed / STEPS, LARGEST)
    tasks = numbers[..., whole:].reshape(*lead, slots, slot_size(model))
    tasks[..., 0] = view.length > 0
    tasks[..., 1] = np.minimum(view.length / model.max_length, 1.0)
    tasks[..., 2 : 2 + count] = np.minimum(view.size / np.array(model.capacity, np.float32), 1.0)
    tasks[..., 2 + count] = waited / (waited + model.max_length)
    tasks[..., 3 + count] = earliest == 0
    tasks[..., 4 + count] = earliest >= 0
    tasks[..., 5 + count] = np.maximum(earliest, 0) / model.horizon
    return numbers


def context_size(model: Slotted) -> int:
    """Return how many numbers describe the whole: H·R + 4."""
    return model.horizon * model.resources + 4


def slot_size(model: Slotted) -> int:
    """Return how many numbers describe a slot: 6 + R."""
    return 6 + model.resources


def slot_set_schema(model: Slotted) -> ObservationSchema:
    """Return the meaning of the numbers of `slot_set`."""
    count, slots = model.resources, model.slots
    parts = (
        Field(
            "occupied", (model.horizon, count), 0, 1, "1",
            "units held in each step ahead / capacity",
        ),
        Field("backlog", (1,), 0, 1, "1", f"tasks behind the slots / {model.backlog_shown}"),
        Field("since_arrival", (1,), 0, 1, "1", f"steps since a job last came / {model.memory}"),
        Field(
            "arrivals", (2,), 0, LARGEST, "1",
            f"jobs that have come / {JOBS}, and steps since the first one came / {STEPS}, each at "
            f"most {LARGEST}",
        ),
        Field(
            "slots", (slots, slot_size(model)), 0, 1, "1",
            f"of each slot: 1 if it holds a task; its steps / {model.max_length}; units of each "
            f"resource / capacity; w / (w + {model.max_length}) of the w steps that it has waited; "
            "1 if it can start now; 1 if it can start within the horizon; its earliest start in "
            f"steps ahead / {model.horizon}, 0 if there is none",
        ),
    )  # fmt: skip
    names = ("capacity", "slots", "horizon", "max_length", "backlog_shown", "memory")
    return ObservationSchema(SlotSet.name, parts, {name: getattr(model, name) for name in names})


class SlotEncoder(ABC):
    """An encoder of numbered slots, which their owner updates before each call of `encode`.

    A subclass says once what is seen, as a function of arrays with any leading axes: a run and
    games in lock-step read it alike, by `SLOT_ENCODERS`.
    """

    of_slots = True
    name: ClassVar[str]
    """The observation's."""

    @classmethod
    @abstractmethod
    def schema_of(cls, model: Slotted) -> ObservationSchema:
        """Return the meaning of the numbers."""

    @classmethod
    @abstractmethod
    def numbers_of(
        cls, view: SlottedView, model: Slotted, facts: Callable[[], SlotFacts]
    ) -> Numbers:
        """Return (…, *shape) float32.

        Args:
            view: with any leading axes.
            model: its dimensions.
            facts: returns what is not in the view; takes its time.
        """

    def __init__(self, tracker: SlottedTracker) -> None:
        self.tracker = tracker
        self.schema = self.schema_of(tracker.model)

    def reset(self, info: SystemInfo) -> None:  # noqa: B027
        """Do nothing: the tracker's owner resets it."""

    def encode(self, state: State) -> Numbers:
        """Return float32 of the schema's shape."""
        return self.numbers_of(self.tracker.view(), self.tracker.model, self._facts)

    def _facts(self) -> SlotFacts:
        tracker, slots = self.tracker, range(self.tracker.model.slots)
        return SlotFacts(
            earliest=np.array([tracker.earliest(slot) for slot in slots]),
            waited=np.array([tracker.waited(slot) for slot in slots]),
            arrived=np.array(tracker.arrived),
            elapsed=np.array(tracker.elapsed()),
        )


class SlotSet(SlotEncoder):
    """The set of the tasks in numbered slots; see `slot_set`."""

    name = "slot-set"

    @classmethod
    def schema_of(cls, model: Slotted) -> ObservationSchema:
        return slot_set_schema(model)

    @classmethod
    def numbers_of(
        cls, view: SlottedView, model: Slotted, facts: Callable[[], SlotFacts]
    ) -> Numbers:
        return slot_set(view, facts(), model)


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

    name = "deeprm-image"

    @classmethod
    def schema_of(cls, model: Slotted) -> ObservationSchema:
        return image_schema(model)

    @classmethod
    def numbers_of(
        cls, view: SlottedView, model: Slotted, facts: Callable[[], SlotFacts]
    ) -> Numbers:
        return deeprm_image(view, model)

    def __init__(self, tracker: SlottedTracker) -> None:
        super().__init__(tracker)
        self._buffer = np.empty(self.schema.shape, np.float32)
        self._image = _Image(self._buffer, tracker.model)

    def encode(self, state: State) -> Numbers:
        """Return (H, W) float32, as `numbers_of` does, but quicker."""
        self._image.draw(self.tracker.view())
        return self._buffer.copy()


class DeeprmCompact(SlotEncoder):
    """The short vector of numbered slots; see `deeprm_compact`."""

    name = "deeprm-compact"

    @classmethod
    def schema_of(cls, model: Slotted) -> ObservationSchema:
        return compact_schema(model)

    @classmethod
    def numbers_of(
        cls, view: SlottedView, model: Slotted, facts: Callable[[], SlotFacts]
    ) -> Numbers:
        return deeprm_compact(view, model)

    def __init__(self, tracker: SlottedTracker) -> None:
        super().__init__(tracker)
        self._whole = _divisors(tracker.model)

    def encode(self, state: State) -> Numbers:
        """Return (K,) float32, as `numbers_of` does, but quicker."""
        return _shares(self.tracker.view(), self._whole)


def _dimensions(model: Slotted) -> dict[str, object]:
    """Return what shapes and scales depend on; the backlog's limit is not part of it."""
    names = ("capacity", "slots", "horizon", "max_length", "backlog_shown", "memory")
    return {name: getattr(model, name) for name in names}


def sofia_compact(view: SlottedView, model: Slotted, *, shares: bool = False) -> Numbers:
    """Return (…, H, W) float32, W = R * (1 + M) + backlog columns; 60 x 23 with Sofia's model.

    From the left, for each resource: the units held in each of the steps ahead, and for each slot
    the units asked for in its first ``length`` rows. Then the backlog, ones filled in row by row,
    in as many columns as ``backlog_shown`` needs.

    Args:
        view: with any leading axes.
        model: its dimensions.
        shares: whether units are divided by the capacity.
    """
    rows, wide = np.arange(model.horizon), 1 + model.slots
    columns = model.backlog_columns
    width = model.resources * wide + columns
    table = np.empty((*view.backlog.shape, model.horizon, width), np.float32)
    running = rows[:, None] < view.length[..., None, :]  # (…, H, M)
    for r, capacity in enumerate(model.capacity):
        begin, scale = r * wide, np.float32(1 / capacity if shares else 1)
        table[..., begin] = view.occupied[..., r]
        np.multiply(
            running, view.size[..., None, :, r], out=table[..., begin + 1 : begin + wide],
            casting="unsafe",
        )  # fmt: skip
        if shares:
            table[..., begin : begin + wide] *= scale
    numbers = rows[:, None] * columns + np.arange(columns)
    waiting = np.minimum(view.backlog, model.backlog_shown)
    table[..., -columns:] = numbers < waiting[..., None, None]
    return table


def sofia_schema(model: Slotted, *, shares: bool = False) -> ObservationSchema:
    """Return the meaning of the columns of `sofia_compact`."""
    parts, rows = [], model.horizon
    for r, capacity in enumerate(model.capacity):
        high, unit, amount = (1, "1", "share") if shares else (capacity, "unit", "units")
        text = f"row t: {amount} of resource {r} held t steps ahead"
        parts.append(Field(f"occupied.{r}", (rows, 1), 0, high, unit, text))
        parts += [
            Field(
                f"slot.{slot}.{r}", (rows, 1), 0, high, unit,
                f"{amount} of resource {r} that the task in slot {slot} asks for, in as many rows "
                "as it takes steps; zeros: empty",
            )
            for slot in range(model.slots)
        ]  # fmt: skip
    text = "ones, row by row: tasks behind the slots"
    parts.append(Field("backlog", (rows, model.backlog_columns), 0, 1, "1", text))
    names = ("capacity", "slots", "horizon", "backlog_shown")
    dimensions = {name: getattr(model, name) for name in names}
    name = SofiaShares.name if shares else SofiaCompact.name
    return ObservationSchema(name, tuple(parts), dimensions, rows)


class SofiaCompact(SlotEncoder):
    """The columns of numbered slots, in units; see `sofia_compact`."""

    name = "sofia-compact"
    shares = False

    @classmethod
    def schema_of(cls, model: Slotted) -> ObservationSchema:
        return sofia_schema(model, shares=cls.shares)

    @classmethod
    def numbers_of(
        cls, view: SlottedView, model: Slotted, facts: Callable[[], SlotFacts]
    ) -> Numbers:
        return sofia_compact(view, model, shares=cls.shares)


class SofiaShares(SofiaCompact):
    """The columns of numbered slots, in shares of the capacity; see `sofia_compact`."""

    name = "sofia-shares"
    shares = True


SLOT_ENCODERS: Final[Mapping[str, type[SlotEncoder]]] = {
    kind.name: kind for kind in (DeeprmImage, DeeprmCompact, SlotSet, SofiaCompact, SofiaShares)
}
"""Observations of numbered slots by name."""
