"""A device that is not there is refused before a training begins, with the remedy."""

from __future__ import annotations

from simkit.learners.common import arguments as devices
from simkit.learners.common.arguments import check_device


def test_the_cpu_is_always_there():
    assert check_device("cpu") == []


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda _name: None)
    assert check_device("cuda") == [
        "device: 'cuda' needs torch: pip install 'simkit-cluster[learn]'"
    ]
