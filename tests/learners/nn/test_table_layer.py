"""The tables give what the pixels give: product and gradient, for any model and view."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.learners.nn.table_layer import TableLayer
from simkit.learning.observe_deeprm import deeprm_image
from simkit.learning.slotted import Slotted, SlottedView

MODELS = st.builds(
    Slotted,
    capacity=st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple),
    slots=st.integers(1, 4),
    horizon=st.integers(2, 9),
    max_length=st.just(5),
    backlog_shown=st.integers(1, 20),
    memory=st.integers(1, 5),
)


def some_view(model: Slotted, rng: np.random.Generator, rows: int) -> SlottedView:
    """Return anything that can be seen, lengths and backlogs beyond the picture too."""
    length = rng.integers(0, model.horizon + 3, (rows, model.slots))
    units = [rng.integers(1, c + 1, (rows, model.slots)) for c in model.capacity]
    held = [rng.integers(0, c + 1, (rows, model.horizon)) for c in model.capacity]
    return SlottedView(
        occupied=np.stack(held, axis=-1),
        length=length,
        size=np.stack(units, axis=-1) * (length > 0)[..., None],
        backlog=rng.integers(0, model.backlog_shown + 4, rows),
        since_arrival=rng.integers(0, model.memory + 1, rows),
    )


def compare(model: Slotted, seed: int, dtype: type, tolerance: float) -> None:
    rng, layer = np.random.default_rng(seed), TableLayer(model)
    view = some_view(model, rng, rows=12)
    pixels = deeprm_image(view, model).reshape(12, -1)
    weight = rng.normal(size=(layer.inputs, 3)).astype(dtype)
    slope = rng.normal(size=(12, 3)).astype(dtype)
    stored = layer.stored(view)
    assert layer.product(stored, layer.table(weight)) == pytest.approx(
        pixels @ weight, abs=tolerance
    )
    assert layer.gradient(stored, slope) == pytest.approx(pixels.T @ slope, abs=tolerance)


@given(MODELS, st.integers(0, 2**32))
def test_product_and_gradient_are_those_of_the_pixels(model: Slotted, seed: int) -> None:
    # the image is of float32 shares, so that is how near the two can be
    compare(model, seed, np.float64, 1e-5)


def test_with_the_dimensions_of_the_paper_in_single_precision() -> None:
    compare(Slotted(), 0, np.float32, 2e-4)


def test_an_image_of_4480_pixels_is_62_numbers_of_two_bytes() -> None:
    layer = TableLayer(Slotted())
    stored = layer.stored(some_view(Slotted(), np.random.default_rng(0), rows=3))
    assert (layer.inputs, stored.shape, stored.itemsize) == (4480, (3, 62), 2)
