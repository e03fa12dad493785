"""`simkit reproduce deeprm`, as small as it can be: every part of it runs, and goes on."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from simkit.learners.reproductions.deeprm import carry_out
from simkit.learners.reproductions.deeprm.figures import at_load, estimate_ratio
from simkit.learners.reproductions.deeprm.one_agent import FIRST_JUDGED
from simkit.learners.reproductions.deeprm.page import RESULT
from simkit.learners.reproductions.deeprm.study import (
    HEURISTICS,
    RATES,
    RESERVING,
    WITHHOLDING,
    DeepRMSetting,
    tasks,
)
from simkit.training import Workplace

pytestmark = pytest.mark.long

SMALL = DeepRMSetting(
    trained=(70, 130), judged=(70, 130), seeds=1, further_seeds=1, iterations=2, long_iterations=2, job_sets=3,
    rollouts=2, held_out=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the workplace after a reproduction, and what it said."""
    folder = tmp_path_factory.mktemp("reproduction")
    work = folder / "work"
    work.mkdir()
    said: list[str] = []
    place = Workplace(folder, work, quick=True, workers=1, say=said.append)
    carry_out(place, SMALL)
    return place, said


def test_page_tables_and_pictures_are_there(made):
    place, said = made
    names = {path.name for path in place.pages.iterdir() if path.is_file()}
    assert names == {
        "deeprm.md", "deeprm.csv", "deeprm-curves.csv", "deeprm-load.svg", "deeprm-learning.svg",
        "deeprm-withheld.svg", "deeprm-one-agent.md", "deeprm-one-agent.csv",
    }  # fmt: skip
    assert [line for line in said if line.startswith("trained")] != []


def test_the_page_has_a_number_in_every_cell(made):
    page = (made[0].pages / "deeprm.md").read_text()
    for text in (page, one_agent_page(made[0])):
        assert not re.findall(r"\b(?:nan|None|inf)\b", text)
        assert "quick version" in text
    assert all(f"]({name})" in page for name in re.findall(r"\]\((deeprm[^)]*)\)", page))
    assert {"70 %", "130 %"} <= set(re.findall(r"^\| (\d+ %) \|", page, re.MULTILINE))


def test_everyone_is_judged_with_all_their_jobs(made):
    table = pl.read_csv(made[0].pages / "deeprm.csv")
    agents = {task.name for task in tasks(SMALL)}
    rules = {*HEURISTICS, *RESERVING, *WITHHOLDING}
    assert set(table["label"]) == agents | rules
    assert (table.filter(pl.col("label").is_in(list(rules)))["unfinished"] == 0).all()
    assert (table["mean_slowdown"] >= 1).all()


def test_every_agent_is_judged_at_every_load_and_the_best_counts(made):
    table = pl.read_csv(made[0].pages / "deeprm.csv")
    for load in SMALL.judged:
        here = table.filter(pl.col("load") == load)
        assert {"deeprm-70-seed0", "deeprm-130-seed0"} <= set(here["label"])
    judged = pl.concat(
        map(pl.read_parquet, (made[0].work / "judged").glob("*.parquet")), how="diagonal_relaxed"
    )
    for load in SMALL.judged:
        found = at_load(judged, load, SMALL)
        assert set(found.by_training) == set(SMALL.trained)
        assert found.agent.value == min(e.value for e in found.by_training.values())
        assert found.agents == (f"deeprm-{found.trained}-seed0",)


def test_what_is_whole_is_not_done_again(made):
    place, said = made
    trained = {path: path.stat().st_mtime_ns for path in place.work.rglob("weights.safetensors")}
    judged = {path: path.stat().st_mtime_ns for path in (place.work / "judged").iterdir()}
    before = (place.pages / "deeprm.md").read_bytes()
    said.clear()
    carry_out(place, SMALL)
    assert (place.pages / "deeprm.md").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
    assert {path: path.stat().st_mtime_ns for path in judged} == judged
    assert not any(line.startswith("judged") for line in said)


def test_a_gain_is_of_all_jobs_and_paired():
    import numpy as np

    agent, rule = np.array([10.0, 30.0, 20.0]), np.array([20.0, 40.0, 40.0])
    found = estimate_ratio(agent, rule, 1.0, -1.0)
    assert found.value == pytest.approx(0.4)
    assert found.low <= found.value <= found.high
    alike = estimate_ratio(0.5 * rule, rule, 1.0, -1.0)  # half in every set: nothing is uncertain
    assert (alike.low, alike.value, alike.high) == pytest.approx((0.5, 0.5, 0.5))


def test_opponents_are_the_papers_and_the_best_of_them_is_taken(made):
    judged = pl.read_parquet(next((made[0].work / "judged").glob("70-*.parquet")))
    found = at_load(judged, 70, SMALL)
    assert found.best in set(HEURISTICS) - {"Random"}
    assert found.means[found.best] == min(
        found.means[label] for label in HEURISTICS if label != "Random"
    )


def test_one_agent_is_compared_with_rules_that_other_sets_chose(made):
    place = made[0]
    for load in SMALL.judged:
        tables = [
            pl.read_parquet(path) for path in (place.work / "judged").glob(f"one-agent-{load}-*")
        ]
        (choosing,) = (table for table in tables if table["seed"].min() < FIRST_JUDGED)
        judging = pl.concat([t for t in tables if t["seed"].min() >= FIRST_JUDGED], how="diagonal")
        assert set(choosing["seed"]).isdisjoint(judging["seed"])

        def means(table: pl.DataFrame) -> dict[str, float]:
            found = table.group_by("label").agg(pl.col("sum").sum() / pl.col("jobs").sum())
            return dict(found.iter_rows())

        before, after = means(choosing), means(judging)
        rules = [label for label in after if not label.startswith("ppo-")]
        families = ("SJF", "Packer", "Tetris", "headroom")
        assert {before[label] for label in rules} == {
            min(mean for label, mean in before.items() if label.startswith(family))
            for family in families
        }
        verdict, row = re.findall(rf"^\| {load} % \|.*\|$", one_agent_page(place), re.MULTILINE)
        agent, best = after["ppo-mixed-seed0"], min(after[label] for label in rules)
        over = f"{100 * (agent / best - 1):+.1f} %"
        assert f"| {over} [" in verdict
        assert f"| {agent:.3f} [" in row


def test_the_originals_unseen_sets_are_on_the_page_too(made):
    place = made[0]
    (path,) = (place.work / "judged").glob("one-agent-original-70-*")
    judged = pl.read_parquet(path)
    assert judged["set"].n_unique() == SMALL.held_out
    means = judged.group_by("label").agg(pl.col("sum").sum() / pl.col("jobs").sum())
    found = dict(means.iter_rows())
    (line,) = re.findall(r"On the original's own unseen sets.*", one_agent_page(place))
    assert f"agents of 70 % {found['ppo-70-seed0']:.3f}" in line
    assert f"all loads {found['ppo-mixed-seed0']:.3f}" in line


def one_agent_page(place: Workplace) -> str:
    return (place.pages / "deeprm-one-agent.md").read_text()


def test_the_published_page_on_one_agent_is_that_of_its_table():
    folder = Path(__file__).parents[3] / "docs" / "reproductions"
    page = (folder / "deeprm-one-agent.md").read_text("utf-8")
    table = pl.read_csv(folder / "deeprm-one-agent.csv")
    verdicts = re.findall(
        r"^\| (\d+) % \| .*?, ([\d.]+) \| ([+-][\d.]+) % \[([^,]+), ([^\]]+)\] .*\| (\S+) \|$",
        page, re.MULTILINE,
    )  # fmt: skip
    assert [int(load) for load, *_ in verdicts] == list(RATES)
    for load, rule, over, _, high, met in verdicts:
        here = table.filter(pl.col("load") == int(load))
        agents = here.filter(candidate="ppo-mixed")["mean_slowdown"]
        best = here.filter(pl.col("seed").is_null())["mean_slowdown"].min()
        assert len(agents) == 3
        assert float(rule) == pytest.approx(best, abs=6e-4)
        assert float(over) == pytest.approx(100 * (agents.mean() / best - 1), abs=0.06)
        strict = 50 <= int(load) <= 130
        assert (met == "yes") == (float(high) < 0 if strict else float(over) <= 1)


PAGE = (Path(__file__).parents[3] / "docs" / "reproductions" / "deeprm.md").read_text("utf-8")


def intervals(column: int, head: str) -> dict[int, tuple[int, int, int]]:
    """Return load → (value, low, high) of the percentages in a column of a table of the page."""
    rows = PAGE.partition(f"| load | {head}")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [row.split(" | ") for row in rows]
    return {
        int(row[0].strip("| %")): tuple(int(n) for n in re.findall(r"-?\d+", row[column])[:3])
        for row in cells
    }  # type: ignore[misc]


TRAINED = (10, 70, 110, 130, 184)


def of_trainings(here: dict[str, float]) -> dict[int, float]:
    """Return load of the training → mean slowdown over its agents, of the labels at a load."""
    seeds = {
        at: [here[name] for seed in range(3) if (name := f"deeprm-{at}-seed{seed}") in here]
        for at in TRAINED
    }
    return {at: sum(found) / len(found) for at, found in seeds.items()}


def test_the_published_result_quotes_the_page_and_its_table():
    assert RESULT in PAGE
    text = " ".join(RESULT.split())
    table = pl.read_csv(Path(__file__).parents[3] / "docs" / "reproductions" / "deeprm.csv")
    gains, rule = intervals(8, "SJF"), intervals(5, "DeepRM")
    agents = {}
    for load, (gain, low, high) in gains.items():
        here = dict(table.filter(pl.col("load") == load).select("label", "mean_slowdown").rows())
        best = min(here[label] for label in HEURISTICS if label != "Random")
        agents[load] = of_trainings(here)
        assert gain == round(100 * (1 - min(agents[load].values()) / best))
        reserving = min(here[label] for label in RESERVING)
        assert (reserving < best) == (load == 184)  # the only load at which reservations help
        assert (low > 0) == (load >= 50)
        assert high >= 0
    assert f"{gains[70][0]} % below the best of them at 70 %, {gains[110][0]} % at 110 %" in text
    assert f"and {gains[130][0]} % at 130 %" in text
    for load, here in agents.items():
        assert (min(here, key=here.__getitem__) >= 110) == (load >= 50)
    quoted = {load: [f"{agents[load][at]:.2f}" for at in (110, 130, 70)] for load in (70, 90)}
    for load, (at_110, at_130, at_70) in quoted.items():
        assert re.search(rf"at {load} % [a-z ]* {at_110} and {at_130}, that .*? is {at_70}", text)
    assert [load for load, (_, low, _) in rule.items() if low > 0] == [184]
    assert [load for load, (_, _, high) in rule.items() if high < 0] == [90]
    steps = dict(re.findall(r"^\| (.*?) \| [\d.]+ \| ([\d.]+) \|$", PAGE, re.MULTILINE))
    assert f"need {steps['DeepRM for completion time']} steps" in text
    assert f"needs {steps['Tetris 0.0005']}" in text
