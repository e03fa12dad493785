"""The tables give what the pixels give: product and gradient, for any model and view."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import embedding_bag

from simkit.agent.observe_slots import deeprm_image, image_schema
from simkit.agent.slotted import Slotted, SlottedView
from simkit.learners.networks.build import Dense
from simkit.learners.networks.image_layer import ImageLayer, TableLayout, _SumOfRows

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


def compare(model: Slotted, seed: int, dtype: torch.dtype, tolerance: float) -> None:
    """Compare products and gradients with those of a dense layer over the pixels."""
    rng = np.random.default_rng(seed)
    view = some_view(model, rng, rows=12)
    layer, dense = ImageLayer(model, 3).to(dtype), Dense(image_schema(model).size, 3).to(dtype)
    dense.load_state_dict(layer.state_dict())
    pixels = torch.from_numpy(deeprm_image(view, model).reshape(12, -1)).to(dtype)
    slope = torch.from_numpy(rng.normal(size=(12, 3))).to(dtype)
    found, expected = layer(torch.from_numpy(TableLayout(model).rows(view))), dense(pixels)
    assert found.detach().numpy() == pytest.approx(expected.detach().numpy(), abs=tolerance)
    found.backward(slope)
    expected.backward(slope)
    for mine, theirs in zip(layer.parameters(), dense.parameters(), strict=True):
        assert mine.grad.numpy() == pytest.approx(theirs.grad.numpy(), abs=tolerance)


@settings(deadline=None)
@given(MODELS, st.integers(0, 2**32 - 1))
def test_product_and_gradient_are_those_of_the_pixels(model, seed):
    # the image is of float32 shares, so that is how near the two can be
    compare(model, seed, torch.float64, 1e-5)


def test_on_a_gpu_torch_does_the_same():
    """The two ways to add rows agree; both run on the CPU."""
    rows = torch.tensor([[0, 2, 2], [1, 0, 3]], dtype=torch.int16)
    tables = [torch.arange(8.0).reshape(4, 2).requires_grad_() for _ in range(2)]
    ours = _SumOfRows.apply(rows, tables[0])
    theirs = embedding_bag(rows.int(), tables[1], mode="sum")
    slope = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    ours.backward(slope)
    theirs.backward(slope)
    assert ours.tolist() == theirs.tolist() == [[8, 11], [8, 11]]
    assert tables[0].grad.tolist() == tables[1].grad.tolist()


def test_gradients_have_gradients():
    rows = torch.tensor([[0, 2, 2], [1, 0, 3]], dtype=torch.int16)
    table = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda t: _SumOfRows.apply(rows, t) ** 2, (table,))


def test_without_gradients_the_tables_follow_the_weights():
    model = Slotted()
    layer = ImageLayer(model, 2)
    copied = copy.deepcopy(layer)
    for each in (layer, copied, layer):
        with torch.inference_mode():
            assert torch.equal(each.table(), each._sums())
        with torch.no_grad():
            each.weight.mul_(2.0)
            assert torch.equal(each.table(), each._sums())
        nn.init.normal_(each.weight)
        with torch.inference_mode():
            assert torch.equal(each.table(), each._sums())
