"""Paths typed on the command line start from the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.scenario.overrides import anchor_paths

HERE = Path("/here")
SETTINGS: list[tuple[str, Any, Any]] = [
    # key, value, result
    ("policy.path", "mine.py:Mine", "/here/mine.py:Mine"),
    ("policy.path", "/there/mine.py:Mine", "/there/mine.py:Mine"),
    ("policy.order", "sub/mine.py:Order", "/here/sub/mine.py:Order"),  # the short form
    ("policy.order.type", "mine.py:Order", "/here/mine.py:Order"),
    ("policy.name", "mine.py:Mine", "/here/mine.py:Mine"),
    ("estimates", "mine.py:Guess", "/here/mine.py:Guess"),
    ("workload.path", "log.swf", "/here/log.swf"),
    ("workload", {"type": "swf", "path": "log.swf"}, {"type": "swf", "path": "/here/log.swf"}),
    (
        "policy",
        {"path": "mine.py:Mine", "args": {"path": "a.txt"}},
        {"path": "/here/mine.py:Mine", "args": {"path": "a.txt"}},
    ),
    # what is no path
    ("policy.order", "sjf", "sjf"),
    ("policy.name", "package.module:Mine", "package.module:Mine"),
    ("workload.path", "sample:lublin_1000", "sample:lublin_1000"),
    ("policy.args.path", "a.py:b", "a.py:b"),
    ("name", "log.swf", "log.swf"),
    ("seed", 3, 3),
    ("no.such.key", "mine.py:Mine", "mine.py:Mine"),
]


@pytest.mark.parametrize(("key", "value", "expected"), SETTINGS)
def test_what_is_a_path_starts_from_the_folder(key: str, value: Any, expected: Any) -> None:
    assert anchor_paths({key: value}, HERE) == {key: expected}
