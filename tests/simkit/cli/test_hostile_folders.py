"""A damaged or hostile run folder is a sentence in every command that reads one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simkit.experiment.api import simulate

Damage = Callable[[Path], object]


def table(name, **columns):
    """Return what replaces columns of a table."""

    def damage(folder):
        path = folder / f"{name}.parquet"
        pl.read_parquet(path).with_columns(**columns).write_parquet(path)

    return damage


def text(file, content):
    return lambda folder: (folder / file).write_text(content)


def in_json(file, change):
    def damage(folder):
        content = json.loads((folder / file).read_text())
        change(content)
        (folder / file).write_text(json.dumps(content))

    return damage


def nested(levels):
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


NAN, INF, TEXT = (pl.lit(float("nan")), pl.lit(float("inf")), pl.lit("x"))
DAMAGES: dict[str, Damage] = {
    "100,000 brackets in run.json": text("run.json", "[" * 100_000),
    "100,000 brackets in metrics.json": text("metrics.json", "[" * 100_000),
    "300 levels in run.json": in_json("run.json", lambda c: c.update(scenario=nested(300))),
    "NaN in run.json": in_json("run.json", lambda c: c.update(epoch_s=float("nan"))),
    "a number in metrics.json that is text": in_json(
        "metrics.json", lambda c: c["wait_time_s"].update(mean="x")
    ),
    "a metric that is text": in_json("metrics.json", lambda c: c.update(wait_time_s="x")),
    "metrics that are a list": text("metrics.json", "[]"),
    "NaN as submit time": table("jobs", submit_time_s=NAN),
    "NaN as wait": table("jobs", wait_time_s=NAN),
    "text as wait": table("jobs", wait_time_s=TEXT),
    "text as submit time": table("jobs", submit_time_s=TEXT),
    "text as processors": table("jobs", processors=TEXT),
    "endless end": table("jobs", end_time_s=INF),
    "submitted at 1e300 s": table("jobs", submit_time_s=pl.lit(1e300)),
    "no status": table("jobs", status=pl.lit(None, pl.String)),
    "a status that is a number": table("jobs", status=pl.lit(1)),
    "lists": table("jobs", more=pl.lit([1.0])),
    "NaN in the timeline": table("timeline", time_s=NAN),
    "text in the timeline": table("timeline", waiting=TEXT),
    "text in allocations": table("allocations", machine_id=TEXT),
    "a gang that is a number": table("tasks", gang=pl.lit(1.5)),
    "an empty table": text("jobs.parquet", ""),
    "a table that is text": text("tasks.parquet", "job_id\n1\n"),
}
COMMANDS = ["plot {0}", "plot {0} --by user", "compare {0} good", "compare good {0} --by size",
            "export {0} out.swf", "export {0} out.csv", "verify {0}", "summarise {0}",
            "report {0}", "report good {0}"]  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A run of a few jobs."""
    folder = tmp_path_factory.mktemp("runs") / "good"
    simulate({"workload": {"type": "lublin", "jobs": 30, "processors": 8}}, output=folder)
    return folder


@pytest.mark.sampled
@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_folder_is_a_sentence(name, words, good, simkit):
    shutil.copytree(good, "good")
    shutil.copytree(good, "bad")
    DAMAGES[name](Path("bad"))
    done = simkit(*words.format("bad").split())
    if "verify" in words:
        assert done.code in (1, 2)
        return
    needs = "metrics" not in name and "metric" not in name
    if needs and name not in ("no status", "100,000 brackets in metrics.json"):
        assert done.code == 2, (done.out, done.err)
        assert "bad" in done.err
        assert (
            done.err.strip().endswith(("run the scenario again", "instead")) or "format" in done.err
        )
