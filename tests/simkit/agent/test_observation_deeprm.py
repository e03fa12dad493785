"""DeepRM's image and short vector: cell by cell, for one state and for many replicas."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.observe_slots import (
    DeeprmCompact,
    DeeprmImage,
    compact_schema,
    deeprm_compact,
    deeprm_image,
    image_schema,
)
from simkit.agent.slotted import Slotted, SlottedView

SMALL = Slotted(
    capacity=(2, 3), slots=2, horizon=4, max_length=3, backlog=None, backlog_shown=5, memory=4
)


def random_view(model: Slotted, seed: int, lead: tuple[int, ...] = ()) -> SlottedView:
    """Draw a view; lengths, backlogs and times also beyond what is shown of them."""
    rng = np.random.default_rng(seed)
    length = rng.integers(0, model.horizon + 3, (*lead, model.slots))
    most = np.array(model.capacity) + 1
    size = rng.integers(0, most, (*lead, model.slots, model.resources))
    return SlottedView(
        rng.integers(0, most, (*lead, model.horizon, model.resources)),
        length,
        np.where(length[..., None] > 0, size, 0),
        np.asarray(rng.integers(0, 2 * model.backlog_shown, lead)),
        np.asarray(rng.integers(0, model.memory + 1, lead)),
    )


def test_an_image_by_hand():
    view = SlottedView(
        occupied=np.array([[2, 1], [1, 1], [0, 0], [0, 3]]),
        length=np.array([3, 0]),
        size=np.array([[1, 2], [0, 0]]),
        backlog=np.array(3),
        since_arrival=np.array(1),
    )
    rows = [
        # cpu  slot 0 slot 1   mem  slot 0 slot 1 backlog, since
        "11    10     00       100  110    000    11",
        "10    10     00       100  110    000    10",
        "00    10     00       000  110    000    00",
        "00    00     00       111  000    000    00",
    ]
    image = deeprm_image(view, SMALL)
    assert image.dtype == np.float32
    assert image[:, :-1].tolist() == [[float(c) for c in row.replace(" ", "")] for row in rows]
    assert image[:, -1].tolist() == [0.25] * 4


def test_a_vector_by_hand():
    view = SlottedView(
        occupied=np.array([[2, 1], [1, 0], [0, 0], [0, 3]]),
        length=np.array([3, 0]),
        size=np.array([[1, 3], [0, 0]]),
        backlog=np.array(1),
        since_arrival=np.array(4),
    )
    third = np.float32(1 / 3)
    assert deeprm_compact(view, SMALL).tolist() == [
        1, third, 0.5, 0, 0, 0, 0, 1,  # step by step: cpu, mem
        1, 0.5, 1, 0, 0, 0,  # slot by slot: length, cpu, mem
        np.float32(0.2), 1,
    ]  # fmt: skip


def test_the_papers_dimensions():
    assert image_schema(Slotted()).shape == (20, 224)
    assert image_schema(Slotted(slots=5)).shape == (20, 124)
    assert compact_schema(Slotted()).shape == (20 * 2 + 10 * 3 + 2,)


def test_a_length_of_the_backlog_changes_no_number():
    assert image_schema(Slotted(backlog=None)).sha256 == image_schema(Slotted()).sha256


models = st.builds(
    Slotted,
    capacity=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    slots=st.integers(1, 4),
    horizon=st.integers(1, 7),
    max_length=st.integers(1, 5),
    backlog_shown=st.integers(1, 9),
    memory=st.integers(1, 4),
)


@given(models, st.integers(0, 2**31))
def test_replicas_see_what_each_would_see_alone(model, seed):
    many = random_view(model, seed, (2, 3))
    for show, schema in ((deeprm_image, image_schema), (deeprm_compact, compact_schema)):
        together = show(many, model)
        assert together.shape == (2, 3, *schema(model).shape)
        assert 0 <= together.min() <= together.max() <= 1
        for at in np.ndindex(2, 3):
            alone = SlottedView(
                **{name: np.asarray(a[at]) for name, a in vars(many).items() if a is not None}
            )
            assert np.array_equal(show(alone, model), together[at])


@given(models, st.integers(0, 2**31))
def test_fields_of_the_image_say_what_the_view_says(model, seed):
    view = random_view(model, seed)
    image, schema = deeprm_image(view, model), image_schema(model)
    shown = {f.name: image[:, begin:end] for f, begin, end in schema.places()}
    rows = np.arange(model.horizon)
    for r, units in enumerate(model.capacity):
        columns = np.arange(units)
        assert np.array_equal(shown[f"occupied.{r}"], columns < view.occupied[:, r, None])
        for slot in range(model.slots):
            box = np.outer(rows < view.length[slot], columns < view.size[slot, r])
            assert np.array_equal(shown[f"slot.{slot}.{r}"], box)
    filled = shown["backlog"].reshape(-1)
    waiting = min(int(view.backlog), model.backlog_shown)
    assert filled.tolist() == [1] * waiting + [0] * (len(filled) - waiting)
    assert (shown["since_arrival"] == np.float32(view.since_arrival / model.memory)).all()


class Still:
    """Slots in which nothing moves."""

    def __init__(self, model: Slotted, view: SlottedView) -> None:
        self.model, self._view = model, view

    def view(self) -> SlottedView:
        return self._view


def test_encoders_return_fresh_arrays():
    view = random_view(SMALL, 1)
    for make, show in ((DeeprmImage, deeprm_image), (DeeprmCompact, deeprm_compact)):
        encoder = make(Still(SMALL, view))
        first = encoder.encode(None)
        before = first.copy()
        view.occupied[:] = 0
        second = encoder.encode(None)
        assert np.array_equal(first, before)
        assert np.array_equal(second, show(view, SMALL))
        view = random_view(SMALL, 1)
