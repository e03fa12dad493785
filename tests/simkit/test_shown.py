"""What notebooks show: every result as a small table of escaped text, and short text at a prompt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simkit
from simkit import shown
from simkit.power.signal_trace import PowerTrace
from simkit.results.run_folder import MemoryRun
from simkit.training.train import Trained
from simkit.workload import RowReport, Trace, Workload

EVIL = "<script>alert(1)</script>\x1b[31m"
MOST_BYTES = 20_000


class _Tags(HTMLParser):
    """Collects tags, those that are open, and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.styles += [value for name, value in attrs if name == "style"]
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(value: Any) -> str:
    """Assert that a value's HTML is well-formed, harmless, small and without colours."""
    html: str = value._repr_html_()
    tags = _Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    known = {"table", "thead", "tbody", "tr", "th", "td", "div", "b", "small", "details", "summary"}
    assert tags.seen <= {*known, "br", "pre"}
    assert "color" not in "".join(tags.styles)
    assert "background" not in "".join(tags.styles)
    assert "\x1b" not in html
    assert "None" not in html
    assert len(html.encode()) < MOST_BYTES
    return html


@pytest.fixture(scope="module")
def run() -> simkit.Run:
    return foreign("easy")


def foreign(backfill: str) -> simkit.Run:
    """Return a run whose name is a stranger's."""
    policy = {"order": "fcfs", "backfill": backfill}
    made = simkit.simulate(
        "quickstart", policy=policy, overrides={"workload.window": {"jobs": 200}}
    )
    made.info["name"] = EVIL
    return made


class Broken:
    def reset(self, info: Any, rng: Any) -> None:
        pass

    def schedule(self, state: Any) -> Iterator[Any]:
        raise ValueError(EVIL)
        yield


def results(run: simkit.Run, tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """Yield each kind of result, and a word that its table has."""
    other = foreign("none")
    yield run, "wait_time_s"
    yield run.metrics, "bounded_slowdown"
    yield run.summary(), "utilisation_processors"
    yield simkit.compare_runs(run, other), "turnaround_time_s"
    yield simkit.compare_runs(run, other, by="user"), "user"
    grid = {"name": "n", "workload": {"type": "lublin", "jobs": 20, "processors": 8}}
    sweep = simkit.run_sweep(grid, tmp_path / "sweep", sweep={"seed": [0, 1]}, workers=1)
    yield sweep, "makespan_s"
    yield simkit.summarise(sweep, by=["name"]), "wait_time_s"
    workload = Workload.from_jobs(
        {"job_id": [1], "submit_time_s": [0.0], "run_time_s": [1.0], "processors": [1.0]},
        epoch_s=1e9,
    )
    yield workload, "1 job"
    report = RowReport(read=3, accepted=1, dropped={EVIL: 2})
    yield Trace(workload, report, (Path(EVIL.replace("/", "")),)), "3 rows read = 1 accepted"
    power = PowerTrace(np.array([0.0, 60.0]) + 1e9, np.array([1.0, 2.0]), "W", "UTC", name=EVIL)
    yield power, "2 values in W"
    rows = ({"iteration": 0.0, "held_out_slowdown": 4.0}, {"iteration": 1.0, "return": 2.0})
    info = {"name": EVIL, "learner": EVIL, "scenario": {"learn": {"criterion": "slowdown"}}}
    yield Trained(tmp_path, info, rows, was_finished=True), "held_out_slowdown"


def test_every_result_is_a_table_in_a_notebook(run: simkit.Run, tmp_path: Path) -> None:
    for value, word in results(run, tmp_path):
        html = check(value)
        assert word in html, type(value)
        text = repr(value)
        assert len(text) < 6000, type(value)
        assert "\x1b" not in text
        if EVIL[:8] in text:  # at a prompt it is only text
            assert "&lt;script&gt;" in html, type(value)


def test_results_that_lack_something_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    bare = MemoryRun({"name": EVIL, "status": "failed", "jobs": 3}, {})
    assert "failed" in check(bare)
    odd = simkit.simulate("quickstart", overrides={"workload.window": {"jobs": 1}}).metrics
    odd.clear()
    assert repr(odd) == "{}"
    check(odd)
    odd["wait_time_s"] = {"mean": "?", "unit": "s", "p50": "?"}
    assert "wait_time_s" in repr(odd)
    assert "wait_time_s" in check(odd)
    grid = {"name": "n", "workload": {"type": "lublin", "jobs": 20, "processors": 8}}
    failed = simkit.run_sweep(grid, tmp_path, policy=Broken, sweep={"seed": [0]}, workers=1)
    assert "failed" in check(failed)
    assert "ValueError" in check(failed)
    assert repr(failed[0]).startswith("<failed: seed=0: ")


def test_metrics_are_a_dictionary_like_any_other(run: simkit.Run) -> None:
    assert json.loads(json.dumps(run.metrics)) == run.metrics == dict(run.metrics)


def test_a_comparison_prints_the_table_of_the_command_line(
    run: simkit.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import redirect_stdout
    from io import StringIO

    from simkit.cli.run_text import comparison_blocks
    from simkit.cli.text import print_blocks

    monkeypatch.setenv("COLUMNS", "140")
    comparison = simkit.compare_runs(run, run)
    printed = StringIO()
    with redirect_stdout(printed):
        print_blocks(comparison_blocks(comparison))
    assert f"{comparison!r}\n" == printed.getvalue()
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, repr(comparison).splitlines()[2:6])) <= 60


def test_a_summary_is_text_at_a_prompt(run: simkit.Run) -> None:
    text = str(run.summary())
    assert "wait_time_s" in text
    assert "bounded_slowdown" in text
    assert run.digest in text
    assert "200 finished" in text


def test_comparisons_of_the_same_runs_are_equal_and_plain_in_json(run: simkit.Run) -> None:
    one, other = simkit.compare_runs(run, run), simkit.compare_runs(run, run)
    assert one == other
    assert set(one.as_json()) == {
        "a", "b", "seeds", "differences", "only_in_a", "only_in_b", "unfinished_in_a",
        "unfinished_in_b", "changes",
    }  # fmt: skip
    json.dumps(one.as_json())


def test_own_results_can_be_shown() -> None:
    html = (
        shown.table(("user", EVIL), [(EVIL, 1)]) + shown.heading(EVIL, EVIL) + shown.notes([EVIL])
    )
    html += shown.facts({EVIL: EVIL, "empty": ""}) + shown.folded(EVIL, "<b>x</b>")
    check(shown.Shown("text", html))
    assert "<script" not in html
    assert "empty" not in html


CELLS = """
import os, simkit
SMALL = 8

class Base:
    def reset(self, info, rng):
        with open(os.environ["PLACE"] + f"/{os.getpid()}.pid", "w"):
            pass

class SmallFirst(Base):
    def schedule(self, state):
        for task in sorted(state.queue, key=order):
            if on := state.fit(task):
                yield simkit.Place(task, on)

def order(task):
    return task.instances > SMALL

sweep = simkit.run_sweep(
    {"name": "mine", "workload": {"type": "lublin", "jobs": 60, "processors": 64}},
    os.environ["PLACE"] + "/sweep",
    sweep={"policy": [SmallFirst, "fcfs"], "workload.offered_load": [0.6, 0.8], "seed": [0, 1, 2]},
    workers=2,
)
assert all(outcome.state == "done" for outcome in sweep), list(sweep)
print(sweep._repr_html_().count("<tr>"))
print(simkit.summarise(sweep, by=["policy"]))
print("pyplot" in str(sorted(__import__("sys").modules)))
sweep.plot("workload.offered_load", by="policy").savefig(os.environ["PLACE"] + "/sweep.png")
"""


@pytest.mark.thorough
def test_a_class_of_a_notebook_sweeps_in_parallel(tmp_path: Path) -> None:
    """As in a kernel, the code comes from no file, and its class is in ``__main__``."""
    pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-"], input=CELLS, capture_output=True, text=True,
        timeout=300, env={**os.environ, "PLACE": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, *table, pyplot = done.stdout.splitlines()
    assert rows == "13"  # heads and twelve runs
    assert "__main__:SmallFirst" in "".join(table)
    assert pyplot == "False"  # pictures need no global state
    assert (tmp_path / "sweep.png").stat().st_size > 10_000
    assert len([*tmp_path.glob("*.pid")]) == 2  # both workers ran the class
