"""What the tests of learners share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest


@pytest.fixture
def torch_logits() -> Callable[[Mapping[str, Any], Any], Any]:
    """Return the dense perceptron as torch works it out, with a graph where weights want one."""
    torch = pytest.importorskip("torch")

    def logits(weights: Mapping[str, Any], inputs: Any) -> Any:
        last, flow = len(weights) // 2 - 1, inputs
        for layer in range(last + 1):
            flow = flow @ weights[f"layers.{layer}.weight"] + weights[f"layers.{layer}.bias"]
            flow = flow if layer == last else torch.relu(flow)
        return flow

    return logits
