"""The reproduction of the Sofia study: its numbers, its sentences, and a tiny run to the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from simkit.analysis.intervals import Interval
from simkit.learners.reproductions.sofia import carry_out
from simkit.learners.reproductions.sofia.curves import Cost, Curve, band, saving, smooth
from simkit.learners.reproductions.sofia.findings import (
    ALWAYS,
    against,
    converges,
    cost,
    counting,
    fewer_samples,
    likeliest,
    overtaking,
)
from simkit.learners.reproductions.sofia.judge import (
    CUT,
    HEURISTICS,
    PACKER,
    REFERENCE,
    Estimate,
    Score,
    at_the_cut,
)
from simkit.learners.reproductions.sofia.study import METHODS, Setting, Task
from simkit.learners.reproductions.sofia.tables import Results, orders
from simkit.training.reproduction import Workplace

pytestmark = pytest.mark.long

TINY = Setting(
    seeds=2, iterations=3, pilot_iterations=1, held_out_every=1, batches={0.7: 1, 0.4: 1},
    timed=1, methods=tuple(METHODS),
    arguments={"job_sets": 2, "rollouts": 2, "held_out_sets": 2}, workload={"positions": 12},
)  # fmt: skip


def curve(slowdown: list[float], method: str = "natural", seed: int = 0) -> Curve:
    """Return a curve with a look every 100 decisions, whose return is minus its slowdown."""
    values, looks = np.array(slowdown, float), np.arange(len(slowdown), dtype=float)
    task = Task(method, None, seed)
    return Curve(task, looks, 100 * looks, values, -values, (1.0, 1.0), (0.0, 0.0))


def score(label: str, everyone: float, at_cut: float, *, done: float = 1.0) -> Score:
    def estimate(value: float) -> Estimate:
        return Estimate(value, Interval(value - 0.5, value + 0.5, 0.95, "", 5))

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
    found = Curve.of(Task("natural", None, 1), rows)
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
SENTENCES = [
    (converges([curve([9, 5, 5, 5]), curve([9, 5, 5, 5.1])]), "The natural gradient converges"),
    (converges([curve([9, 5, 5, 5]), curve([5, 9, 9, 9])]), "is not shown to converge"),
    (cost(dict.fromkeys(("gradient", "natural, all decisions"), Cost(1, 1)) | {"natural": Cost(1.5, 1)}), "at most twice a plain one:** 1.50 times"),
    (cost(dict.fromkeys(("gradient", "natural, all decisions"), Cost(1, 1)) | {"natural": Cost(2.5, 1)}), "more than twice"),
    (against(score("a", 8, 4), score(REFERENCE, 9, 4), "SJF"), "better than SJF:** a slowdown of 8.00, 11 % below its 9.00; 2 of 2"),
    (against(score("a", 8, 4), score(REFERENCE, 9, 4), "SJF"), "-0.40 to +0.60 over batches, which leaves it undecided"),
    (against(score("a", 9.05, 4), score("SJF", 9, 4), "SJF"), "not better than SJF:** a slowdown of 9.05, 1 % above its 9.00; 1 of 2"),
    (counting({"SJF": score("SJF", 8, 6), "a": score("a", 9, 3, done=0.4)}), "makes 2 of 2 look better, most of all a: 3.00 instead of 9.00, with 40 % of the jobs finished. It gives 2 of 2 places to somebody else; first by it is a, and of all jobs SJF."),
    (counting({"SJF": score("SJF", 8, 3), "a": score("a", 9, 9.5)}), "makes 1 of 2 look better, most of all SJF: 3.00 instead of 8.00, with 100 % of the jobs finished. It gives 0 of 2 places to somebody else; SJF is first by both."),
    (likeliest(score("a", 8, 7), score("b", 9, 5, done=0.5), score(REFERENCE, 8.5, 6)), "9.00 instead of 8.00 with all jobs counted, and 5.00 instead of 7.00 by the study's count, with 50 % of the jobs finished: behind that SJF with all jobs counted, and ahead of it by the study's count."),
    (likeliest(score("a", 8, 7), score("b", 9, 5), score(REFERENCE, 8.5, 4)), "behind that SJF by both counts."),
    (overtaking([score(ALWAYS, 9, 5, done=0.5), score(REFERENCE, 8, 6), score(PACKER, 10, 10)]), "passes** SJF at rates of 0.7. At 0.7 it is 5.00 instead of 9.00, with 50 % of the jobs finished: a published order can rest on the count."),
    (overtaking([score(ALWAYS, 9, 9), score(REFERENCE, 8, 8), score(PACKER, 10, 10)]), "is the same by both counts at 0.7"),
    (overtaking([score(ALWAYS, 5, 4.9), score(REFERENCE, 6, 3), score(PACKER, 7, 2)]), "the order of the three is another by it at rates of 0.7."),
    (overtaking([score(ALWAYS, 11, 9, done=0.5), score(REFERENCE, 8, 8), score(PACKER, 10, 10)]), "rest on the count. It is ahead of SJF at no rate by either count."),
    (" ".join(fewer_samples({"natural": [FAST, FAST], "adam": [SLOW, SLOW]})), "takes fewer samples than Adam, tuned:** 20 % of them (20 to 20 % over seeds), fewer in 2 of 2 seeds; in the end, its return is at least as good in 2."),
    (" ".join(fewer_samples({"natural": [FAST, SLOW], "adam": [SLOW, FAST]})), "at least as good in 1. So few seeds do not make that sure."),
    (" ".join(fewer_samples({"natural": [FAST], "adam": [SLOW]})), "20 % of them, fewer in 1 of 1 seed; in the end, its return is at least as good in 1. One seed tells little."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "part"), SENTENCES)
def test_sentences_follow_from_numbers(text: str, part: str) -> None:
    assert part in text


def test_the_order_by_both_counts() -> None:
    here = [
        score(ALWAYS, 12, 5, done=0.5), score(METHODS["natural"].label, 9, 9),
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
    study = {METHODS["study"].label} if tuned != METHODS["study"].rates[0] else set()
    assert set(at_training["label"]) == study | {
        *HEURISTICS, METHODS["natural"].label, f"{METHODS['natural'].label}, greedy",
        METHODS["adam"].label,
    }  # fmt: skip
    assert judged["unfinished"].sum() == 0

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.parquet")}
    again = carry_out(place(tmp_path, said), replace(TINY))
    assert again.read_text("utf-8") == text
    assert before == {path: path.stat().st_mtime_ns for path in before}
