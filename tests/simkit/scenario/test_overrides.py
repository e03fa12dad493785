"""Paths typed on the command line start from the working folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.errors import ScenarioError
from simkit.scenario.overrides import anchor_paths, parse_sweep

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
    ("policy.statistics", "vecnormalize.pkl", "/here/vecnormalize.pkl"),  # a file, or null
    ("policy.statistics", None, None),
    # rows of lists
    ("metrics", ["mine.py:tail", "installed"], ["/here/mine.py:tail", "installed"]),  # short
    ("metrics.custom", ["mine.py:tail"], ["/here/mine.py:tail"]),
    ("metrics.custom.0", "mine.py:tail", "/here/mine.py:tail"),
    ("processes", [{"path": "mine.py:P"}], [{"path": "/here/mine.py:P"}]),
    (
        "power.sources.wind.signal",
        {"type": "sum", "signals": [{"type": "csv", "path": "a.csv"}]},
        {"type": "sum", "signals": [{"type": "csv", "path": "/here/a.csv"}]},
    ),
    ("policy.args.files", ["a.py:b"], ["a.py:b"]),
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


SWEEPS: list[tuple[str, list[Any]]] = [
    ("seed=0,1,2", [0, 1, 2]),
    ("seed= 0 , 1", [0, 1]),
    ("policy.backfill=none,easy", ["none", "easy"]),
    ("policy={order: sjf, backfill: easy},{order: fcfs}",
     [{"order": "sjf", "backfill": "easy"}, {"order": "fcfs"}]),
    ("power.hours=[1,2],[3]", [[1, 2], [3]]),
    ("workload.path='a,b.swf',c.swf", ["a,b.swf", "c.swf"]),
    ("workload.path='it''s, here',\"a\\\",b\"", ["it's, here", 'a",b']),
    ("workload.path=${DATA}/a.swf,${DATA}/b.swf", ["${DATA}/a.swf", "${DATA}/b.swf"]),
    ("limits.decisions=null,10", [None, 10]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values"), SWEEPS)
def test_commas_sweep_a_key(text: str, values: list[Any]) -> None:
    assert parse_sweep([text]) == ([], {text.partition("=")[0]: values})


@pytest.mark.parametrize(
    "text", ["seed=1", "power.hours=[1,2]", "name='a,b'", "policy={order: sjf, backfill: easy}"]
)
def test_lists_mappings_and_quoted_texts_are_one_value(text: str) -> None:
    assert parse_sweep([text]) == ([text], {})


@pytest.mark.parametrize("text", ["seed=1,", "seed=,", "seed=1,,2"])
def test_an_empty_value_between_commas_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="has an empty value; write values"):
        parse_sweep([text])
