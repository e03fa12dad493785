"""The reproduction of the Sofia study: its numbers, its conclusions, and a tiny run to the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from simkit.analysis.intervals import Interval
from simkit.learners.reproductions.sofia import carry_out
from simkit.learners.reproductions.sofia.curves import TrainingCurve, band, saving, smooth
from simkit.learners.reproductions.sofia.judge import (
    CUT,
    GREEDY,
    GREEDY_TOO,
    HEURISTICS,
    PACKER,
    REFERENCE,
    MeanEstimate,
    Score,
    at_the_cut,
)
from simkit.learners.reproductions.sofia.page import RESULT
from simkit.learners.reproductions.sofia.study import METHODS, SofiaRun, SofiaSetting
from simkit.learners.reproductions.sofia.tables import Results, orders
from simkit.training import Workplace

pytestmark = pytest.mark.long

TINY = SofiaSetting(
    seeds=2, iterations=8, pilot_iterations=1, held_out_every=1, batches={0.7: 1, 0.4: 1},
    timed=1, methods=tuple(METHODS),
    arguments={"job_sets": 2, "rollouts": 2, "held_out_sets": 2}, workload={"positions": 12},
)  # fmt: skip


def curve(slowdown: list[float], method: str = "natural", seed: int = 0) -> TrainingCurve:
    """Return a curve with a look every 100 decisions, whose return is minus its slowdown."""
    values, looks = np.array(slowdown, float), np.arange(len(slowdown), dtype=float)
    task = SofiaRun(method, 0.01, seed)
    return TrainingCurve(task, looks, 100 * looks, values, -values, (1.0, 1.0), (0.0, 0.0))


def score(label: str, everyone: float, at_cut: float, *, done: float = 1.0) -> Score:
    def estimate(value: float) -> MeanEstimate:
        return MeanEstimate(value, Interval(value - 0.5, value + 0.5, 0.95, "", 5))

    seeds = () if label in HEURISTICS else (everyone - 0.1, everyone + 0.1)
    return Score(0.7, label, seeds, 5, estimate(everyone), estimate(at_cut), done, 0, estimate(0.1))


def test_a_look_is_averaged_with_those_just_before() -> None:
    assert smooth(np.array([3.0, 5, 1, 6, 2])).tolist() == [3, 4, 3, 4, 3]


def test_rows_become_a_curve_of_samples() -> None:
    rows = [
        {"iteration": 0.0, "held_out_slowdown": 9.0, "held_out_return": -90.0},
        {"iteration": 1.0, "decisions": 70.0, "load": 1.1, "last_load": 0.5},
        {"iteration": 2.0, "decisions": 80.0, "load": 1.0, "last_load": 0.25,
         "held_out_slowdown": 7.0, "held_out_return": -70.0},
    ]  # fmt: skip
    found = TrainingCurve.of(SofiaRun("natural", 0.01, 1), rows)
    assert found.decisions.tolist() == [0, 150]
    assert found.load == (1.1, 1.0)
    assert found.load_at_cut == (0.5, 0.25)
    assert [(row["iteration"], row["held_out_slowdown"]) for row in found.as_rows()] == [(0, 9.0), (2, 7.0)]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "samples"),
    [
        (9.0, 0),  # untrained already
        (7.0, 200),  # the mean of 9, 7 and 5
        (5.0, 300),  # of 7, 5 and 3; a single look was there before
        (4.9, None),  # never
    ],
)
def test_samples_to_a_level(level: float, samples: float | None) -> None:
    assert curve([9, 7, 5, 3]).samples_to(level) == samples


def test_a_saving_is_paired_by_seed() -> None:
    found = saving([FAST, FAST], [SLOW, SLOW])
    assert found.shares == (100 / 500, 100 / 500)  # 6 on average: after one look, and after five
    assert found.mean == pytest.approx(0.2)
    assert found.bounds == pytest.approx((0.2, 0.2))
    assert found.ends_better == 2
    turned = saving([SLOW], [FAST])  # the same level, 6: that the fast one ends better is no matter
    assert (turned.shares, turned.ends_better, turned.bounds) == ((5.0,), 0, None)


def test_a_band_ends_where_the_shortest_does() -> None:
    found = band([curve([4, 4, 4]), curve([6, 6, 6, 6], seed=1)])
    assert found.decisions[-1] == 200
    assert found.mean == pytest.approx(5.0)
    assert (found.low < 5).all()
    assert np.isnan(band([curve([4, 4])]).low).all()


def test_what_is_finished_at_the_cut() -> None:
    jobs = pl.DataFrame(
        {"end_time_s": [150.0, 151.0, None], "turnaround_time_s": [150.0, 151.0, None],
         "trace_run_time_s": [30.0, 3.0, 3.0]}
    )  # fmt: skip
    assert CUT == 150
    assert at_the_cut(jobs) == {"done_at_cut": 1, "sum_at_cut": 150 / 30}


FAST, SLOW = curve([9, 3, 3, 3, 3, 3, 3]), curve([9, 9, 9, 6, 6, 6, 6], "adam")


DOCS = Path(__file__).parents[3] / "docs" / "reproductions"


@pytest.fixture
def published() -> dict[str, list[TrainingCurve]]:
    """Return the curves of the committed table, by method."""
    names = {method.label: name for name, method in METHODS.items()}
    found: dict[str, list[TrainingCurve]] = {}
    table = pl.read_csv(DOCS / "sofia-curves.csv")
    for (label, seed), rows in table.group_by("method", "seed", maintain_order=True):
        columns = ("iteration", "decisions", "held_out_slowdown", "held_out_return")
        values = [rows[name].to_numpy().astype(float) for name in columns]
        run = SofiaRun(names[str(label)], 0.0, int(str(seed)))
        found.setdefault(names[str(label)], []).append(TrainingCurve(run, *values, (0, 0), (0, 0)))
    return found


def test_the_published_result_is_on_the_page() -> None:
    assert RESULT in (DOCS / "sofia.md").read_text("utf-8")


def test_the_result_quotes_the_learning_curves(published: dict[str, list[TrainingCurve]]) -> None:
    natural, text = published["natural"], " ".join(RESULT.split())
    fell = [f"{100 * (1 - one.end / one.slowdown[0]):.0f} %" for one in natural]
    assert f"in all 3 trainings, by {fell[0]}, {fell[1]} and {fell[2]}" in text
    for method, words in (("adam", "tuned Adam's samples"), ("study", "those of Adam 0.001")):
        found = saving(natural, published[method])
        assert found.bounds is not None
        low, high = (f"{100 * bound:.0f}" for bound in found.bounds)
        assert re.search(rf"{100 * found.mean:.0f} % of {words} \({low} to {high} %", text)
        assert max(found.shares) < 1
        assert found.ends_better == len(natural) == 3
    found = saving(natural, published["proximal"])
    assert found.bounds is not None
    low, high = (f"{100 * bound:.0f}" for bound in found.bounds)
    assert f"{100 * found.mean:.0f} % of its samples ({low} to {high} %)" in text
    assert min(found.shares) > 1
    page = (DOCS / "sofia.md").read_text("utf-8")
    costs = re.findall(r"^\| natural.* \| ([\d.]+) \| [\d.]+ \|$", page, re.MULTILINE)
    assert f"{costs[0]} times, with Fisher products" in text
    assert f"{costs[1]} times over all" in text
    assert float(costs[0]) < 2


def test_the_result_quotes_the_judged_table() -> None:
    rows = pl.read_csv(DOCS / "sofia-judged.csv").to_dicts()
    judged = {(row["rate"], row["label"]): row for row in rows}
    agent, greedy = METHODS["natural"].label, METHODS["natural"].label + GREEDY
    text, best = " ".join(RESULT.split()), "Small and soon first"
    here = {label: row for (rate, label), row in judged.items() if rate == 0.7}
    value = {label: row["slowdown"] for label, row in here.items()}
    cut = {label: row["slowdown_at_cut"] for label, row in here.items()}
    mine, ours = value[agent], here[agent]
    apart = ours["less_reserving_sjf_low"], ours["less_reserving_sjf_high"]
    above, below = 100 * (mine / value[REFERENCE] - 1), 100 * (1 - mine / value["SJF"])
    assert f"{mine:.2f} against {value[REFERENCE]:.2f}, {above:.0f} % above" in text
    assert f"{apart[0]:.2f} to {apart[1]:.2f} over batches" in text
    ppo, recipe = value[METHODS["proximal"].label], here[METHODS["ppo"].label + GREEDY]
    assert f"{ppo:.2f} with PPO and {mine:.2f} with the natural gradient" in text
    low, high = recipe["less_reserving_sjf_low"], recipe["less_reserving_sjf_high"]
    assert low < 0 < high
    said = f"greedy it has {recipe['slowdown']:.2f}, and the difference is {low:.2f} to {high:.2f}"
    assert said in text
    rule = here[best]
    low, high = -rule["less_reserving_sjf_high"], -rule["less_reserving_sjf_low"]
    assert f"has {rule['slowdown']:.2f}, and is below SJF by {low:.2f} to {high:.2f}" in text
    assert f"{below:.0f} % below its {value['SJF']:.2f}" in text
    flattered = [label for label in here if cut[label] < value[label]]
    assert f"flatters {len(flattered)} of {len(here)}" in text
    assert max(here, key=lambda label: value[label] - cut[label]) == "Packer"
    done = f"{100 * here['Packer']['done_at_cut']:.0f} % of the jobs"
    assert f"{cut['Packer']:.2f} instead of {value['Packer']:.2f}, with {done}" in text
    assert min(value, key=value.__getitem__) == min(cut, key=cut.__getitem__) == best
    done = f"{100 * here[greedy]['done_at_cut']:.0f} % of the jobs"
    assert f"{value[greedy]:.2f} instead of {mine:.2f} with all jobs counted" in text
    assert (
        f"{cut[greedy]:.2f} instead of {cut[agent]:.2f} by the study's count, with {done}" in text
    )
    for rate in (0.3, 0.5, 0.7, 0.9):
        one, sjf, packer = (judged[rate, label] for label in (greedy, REFERENCE, PACKER))
        assert sjf["slowdown_at_cut"] < one["slowdown_at_cut"] < packer["slowdown_at_cut"]
        assert one["slowdown"] > packer["slowdown"] > sjf["slowdown"]
    low = judged[0.3, greedy]
    said = f"{low['slowdown_at_cut']:.2f} instead of {low['slowdown']:.2f}"
    assert f"{said}, with {100 * low['done_at_cut']:.0f} % of the jobs" in text


def test_the_order_by_both_counts() -> None:
    here = [
        score(METHODS["natural"].label + GREEDY, 12, 5, done=0.5), score(METHODS["natural"].label, 9, 9),
        score(REFERENCE, 8, 8), score(PACKER, 10, 7),
    ]  # fmt: skip
    text = orders(Results(replace(TINY, batches={0.7: 1}), {}, {}, {}, here))
    assert text.splitlines()[2:] == [
        "| 0.7 | 50 % | SJF 8.00 < Packer 10.00 < agent, greedy 12.00 "
        "| agent, greedy 5.00 < Packer 7.00 < SJF 8.00 |",
        "| 0.7 | 100 % | SJF 8.00 < agent, drawn 9.00 < Packer 10.00 "
        "| Packer 7.00 < SJF 8.00 < agent, drawn 9.00 |",
    ]


def place(folder: Path, said: list[str]) -> Workplace:
    pages, work = folder / "pages", folder / "work"
    pages.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    return Workplace(pages, work, True, 1, said.append)


def test_a_tiny_run_writes_the_page_and_is_not_done_twice(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    pytest.importorskip("matplotlib")
    said: list[str] = []
    page = carry_out(place(tmp_path, said), TINY)
    names = sorted(path.name for path in page.parent.iterdir())
    assert names == [
        "sofia-curves.csv", "sofia-curves.svg", "sofia-figure4.svg", "sofia-judged.csv", "sofia.md",
    ]  # fmt: skip
    text = page.read_text("utf-8")
    assert "nan" not in text
    assert set(re.findall(r"\]\((.+?)\)", text)) == set(names) - {"sofia.md"}
    judged = pl.read_csv(page.parent / "sofia-judged.csv")
    at_training = judged.filter(pl.col("rate") == 0.7)
    looks = pl.read_csv(page.parent / "sofia-curves.csv")
    assert looks["seed"].unique().sort().to_list() == [0, 1]
    tuned = looks.filter(pl.col("method") == METHODS["adam"].label)["learning_rate"][0]
    # tuned to the study's learning rate, Adam is the study's
    study = {METHODS["study"].label} if tuned != METHODS["study"].values[0] else set()
    greedy = {METHODS[name].label + GREEDY for name in GREEDY_TOO}
    agents = {method.label for name, method in METHODS.items() if name != "study"}
    assert set(at_training["label"]) == study | {*HEURISTICS} | agents | greedy
    assert judged["unfinished"].sum() == 0

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.parquet")}
    again = carry_out(place(tmp_path, said), replace(TINY))
    assert again.read_text("utf-8") == text
    assert before == {path: path.stat().st_mtime_ns for path in before}
