"""DeepRM's image and vector, Sofia's columns: cell by cell, for one state and many replicas."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.agent.observe_slots import (
    DeeprmCompact,
    DeeprmImage,
    SofiaCompact,
    SofiaShares,
    compact_schema,
    deeprm_compact,
    deeprm_image,
    image_schema,
    sofia_compact,
    sofia_schema,
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


SOFIA = Slotted((4, 8), slots=2, horizon=3, max_length=2, backlog_shown=4)
SEEN = SlottedView(
    occupied=np.array([[4, 1], [2, 0], [0, 0]]),
    length=np.array([2, 0]),
    size=np.array([[1, 6], [0, 0]]),
    backlog=np.array(3),
    since_arrival=np.array(0),
)
COLUMNS = np.array(
    [
        # cpu: held, slot 0, slot 1; mem: the same; the backlog's two columns, row by row
        [4, 1, 0, 1, 6, 0, 1, 1],
        [2, 1, 0, 0, 6, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
)


@pytest.mark.parametrize(("shares", "scale"), [(False, 1), (True, [4, 4, 4, 8, 8, 8, 1, 1])])
def test_sofias_columns_by_hand(shares, scale):
    table, schema = sofia_compact(SEEN, SOFIA, shares=shares), sofia_schema(SOFIA, shares=shares)
    np.testing.assert_allclose(table, COLUMNS / np.array(scale))
    assert (schema.name, schema.shape) == (
        ("sofia-shares" if shares else "sofia-compact"),
        table.shape,
    )
    long = SlottedView(**(vars(SEEN) | {"backlog": np.array(99)}))
    assert sofia_compact(long, SOFIA, shares=shares)[..., -2:].sum() == 4


def test_the_papers_dimensions():
    assert image_schema(Slotted()).shape == (20, 224)
    assert image_schema(Slotted(slots=5)).shape == (20, 124)
    assert compact_schema(Slotted()).shape == (20 * 2 + 10 * 3 + 2,)
    sofia = Slotted((50, 50), slots=10, horizon=60, max_length=45, backlog=None, backlog_shown=60)
    assert sofia_schema(sofia).shape == (60, 23)


models = st.builds(
    Slotted,
    capacity=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    slots=st.integers(1, 4),
    horizon=st.integers(1, 7),
    max_length=st.integers(1, 5),
    backlog_shown=st.integers(1, 9),
    memory=st.integers(1, 4),
)


SHOWN = (
    (deeprm_image, image_schema), (deeprm_compact, compact_schema), (sofia_compact, sofia_schema),
)  # fmt: skip


@given(models, st.integers(0, 2**31))
def test_replicas_see_what_each_would_see_alone(model, seed):
    many = random_view(model, seed, (2, 3))
    for show, schema in SHOWN:
        together = show(many, model)
        assert together.shape == (2, 3, *schema(model).shape)
        if show is not sofia_compact:  # which is in units
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
    for make, show in (
        (DeeprmImage, deeprm_image), (DeeprmCompact, deeprm_compact),
        (SofiaCompact, sofia_compact), (SofiaShares, partial(sofia_compact, shares=True)),
    ):  # fmt: skip
        encoder = make(Still(SMALL, view))
        first = encoder.encode(None)
        before = first.copy()
        view.occupied[:] = 0
        second = encoder.encode(None)
        assert np.array_equal(first, before)
        assert np.array_equal(second, show(view, SMALL))
        view = random_view(SMALL, 1)
