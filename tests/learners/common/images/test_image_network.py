"""The network over an image: sizes, what is shared, and the same without torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from simkit.learners.common.images.network import ImageEncoder, ImageNetwork
from simkit.learners.common.inference import plain_network
from simkit.learners.common.shapes import ImageShape
from simkit.learners.common.torch_training import weights_of


def shape(**changes: Any) -> ImageShape:
    small: dict[str, Any] = {
        "type": "image", "rows": 9, "columns": 12, "facts": 6, "convolutions": 2, "filters": 3,
        "kernel": 3, "image_units": 8, "fact_units": 5, "embedding": 4, "hidden": 7, "outputs": 4,
    }  # fmt: skip
    return ImageShape.model_validate({**small, **changes})


def test_each_filter_takes_its_cells():
    """9 rows become 7, then 5; 12 columns become 5 at stride 2, then 2."""
    assert shape().filtered == (5, 2)
    assert shape(convolutions=1, stride=1).filtered == (7, 10)


def test_too_many_layers_are_refused():
    with pytest.raises(ValidationError, match="too many for an image of 9 x 12 cells"):
        shape(convolutions=4)


@pytest.mark.parametrize("changes", [{}, {"convolutions": 1}, {"stride": 1, "kernel": 2}])
def test_without_torch_it_says_the_same(changes):
    torch.manual_seed(0)
    told = shape(**changes)
    network = ImageNetwork(told)
    for each in network.parameters():
        torch.nn.init.normal_(each, 0.0, 0.5)
    plain = plain_network(told, weights_of(network))
    seen = np.random.default_rng(0).uniform(-1, 1, (3, 5, told.inputs)).astype(np.float32)
    flat = torch.from_numpy(seen.reshape(15, -1))
    wanted = network(flat).detach().numpy().reshape(3, 5, -1)
    np.testing.assert_allclose(plain.logits(seen), wanted, rtol=1e-4, atol=1e-5)
    assert np.abs(wanted).max() <= plain.largest(1.0)


def test_a_frozen_head_teaches_the_encoder_nothing():
    torch.manual_seed(0)
    encoder = ImageEncoder(shape())
    free, frozen = ImageNetwork(shape(), encoder), ImageNetwork(shape(), encoder, frozen=True)
    seen = torch.randn(6, shape().inputs)
    frozen(seen).square().sum().backward()
    assert all(each.grad is None for each in encoder.parameters())
    free(seen).square().sum().backward()
    assert all(each.grad is not None for each in encoder.parameters())
