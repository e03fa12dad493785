"""The long table of a study: its estimates, and the questions that pages ask."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from trainings import workplace

from simkit.analysis.intervals import Estimate, estimate, seed_interval, set_interval
from simkit.errors import RunError
from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED, SMALLER, Contents, answer, fill
from simkit.learners.studies.results import BOUND, Metric, Results, long
from simkit.learners.studies.trainings import Part, kept_tables


def results(**facts) -> Results:
    """Return an agent of two seeds and two rules on eight batches of unequal numbers of jobs."""
    rng, jobs = np.random.default_rng(5), np.arange(3, 11)
    parts = []
    for arm, seeds, mean in (("agent", (0, 1), 2.0), ("SJF", (None,), 4.0), ("FCFS", (None,), 9.0)):
        for seed in seeds:
            slowdown = mean * rng.uniform(0.9, 1.1, 8)
            parts.append(pl.DataFrame({
                "arm": arm, "seed": pl.Series([seed] * 8, dtype=pl.Int64), "case": "0.7",
                "item": range(8), "sum": slowdown * jobs, "jobs": jobs,
            }))  # fmt: skip
    rows = long(pl.concat(parts), ["sum", "jobs"])
    return Results(rows, facts, {"slowdown": Metric("sum", "jobs")})


def test_a_rule_alone_has_the_interval_over_items():
    found = results()
    sums, jobs = (found.values(name, "SJF", "0.7")[0] for name in ("sum", "jobs"))
    mine, over_items = found.ask("slowdown | SJF | 0.7"), set_interval(sums[0], jobs[0])
    assert mine.value == pytest.approx(sums.sum() / jobs.sum())
    assert (mine.low, mine.high) == (over_items.low, over_items.high)
    assert mine.by_seed == ()


def test_several_seeds_widen_the_interval_as_errors_add_up():
    found = results()
    sums, jobs = (found.values(name, "agent", "0.7")[0] for name in ("sum", "jobs"))
    mine = found.ask("slowdown | agent | 0.7")
    over_items = set_interval(sums.mean(axis=0), jobs[0])
    over_seeds = seed_interval(np.array(mine.by_seed))
    assert mine.by_seed == tuple((sums.sum(axis=1) / jobs.sum(axis=1)).tolist())
    assert mine.high - mine.value == pytest.approx(
        np.hypot(over_items.high - mine.value, over_seeds.high - np.mean(mine.by_seed))
    )


def test_with_one_item_the_interval_is_that_over_seeds():
    shares = np.array([[0.1], [0.2], [0.12]])
    found = estimate(shares, np.ones(1))
    over_seeds = seed_interval(shares[:, 0])
    assert (found.low, found.high) == (
        pytest.approx(over_seeds.low),
        pytest.approx(over_seeds.high),
    )
    assert estimate(shares[:1], np.ones(1)) == Estimate(0.1)


def test_means_alone_keep_their_published_interval_and_widen_it_by_the_seeds():
    items = results()
    asked = "slowdown | agent | 0.7 | over=SJF"
    alone = items.rows.group_by("arm", "seed", "case", "metric", maintain_order=True).agg(
        pl.lit(0).alias("item"), pl.col("value").sum()
    )
    over_items = set_interval(*(
        items.values("sum", arm, "0.7")[0].mean(axis=0) for arm in ("agent", "SJF")
    ))  # fmt: skip
    known = {"intervals": {asked: [over_items.low, over_items.high],
                           f"{asked} | seed=0": [0.25, 0.75]}}  # fmt: skip
    means = Results(alone.select(items.rows.columns), known, items.metrics)
    assert means.ask(asked).low == pytest.approx(items.ask(asked).low)
    assert means.ask(asked).high == pytest.approx(items.ask(asked).high)
    assert means.ask(f"{asked} | seed=0").low == 0.25
    assert means.ask(f"{asked} | seed=1").low is None


def test_a_ratio_to_nothing_is_no_number_and_one_to_little_has_no_interval():
    ones, rare = np.ones((2, 8)), np.array([[4.0] + [0.0] * 7])
    assert answer(estimate(ones, np.ones(8), 0.0 * rare, relation="ratio"), ".2f ±") == "–"
    assert answer(estimate(ones, np.ones(8), rare, relation="ratio"), ".2f ±") == "2.00"


@pytest.mark.parametrize("seeds", [1, 4])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(seeds):
    rng, held, cases = np.random.default_rng(seeds), 0, 300
    for _ in range(cases):
        quality = rng.normal(10.0, 1.0, (seeds, 1)) if seeds > 1 else np.full((1, 1), 10.0)
        difficulty, noise = rng.normal(0.0, 3.0, 30), rng.normal(0.0, 1.0, (seeds, 30))
        found = estimate(quality + difficulty + noise, np.ones(30))
        held += found.low <= 10.0 <= found.high
    assert 0.91 <= held / cases <= 0.99


def test_blocks_of_items_that_overlap_are_drawn_together():
    rng = np.random.default_rng(3)
    levels = np.repeat(rng.normal(0.0, 1.0, 12), 10)[None]
    alone = estimate(levels, np.ones(120))
    together = estimate(levels, np.ones(120), blocks=np.arange(120) // 10)
    assert together.value == pytest.approx(alone.value)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_questions_compare_paired_by_item():
    found = results(minutes=12.5)
    sums, jobs = (found.values(name, "agent", "0.7")[0].mean(axis=0) for name in ("sum", "jobs"))
    rule = found.values("sum", "SJF", "0.7")[0][0]
    less, over, geometric = (
        found.ask(f"slowdown | agent | 0.7 | {how}=SJF")
        for how in ("less", "over", "geometric over")
    )
    assert less.value == pytest.approx((sums - rule).sum() / jobs.sum())
    assert over.value == pytest.approx(sums.sum() / rule.sum())
    assert geometric.value == pytest.approx(np.exp(np.log(sums / rule).mean()))
    assert found.ask("slowdown | agent | 0.7 | over=SJF | percent").value == pytest.approx(
        100 * over.value - 100
    )
    assert found.ask("slowdown | agent | 0.7 | seed=1").value == pytest.approx(
        found.ask("slowdown | agent | 0.7").by_seed[1]
    )
    assert found.ask("minutes") == 12.5
    here = found.ask("slowdown | agent | 0.7 | less=SJF | item=3")
    assert here.value == pytest.approx((sums - rule)[3] / jobs[3])
    alone, power = (found.ask(f"slowdown | agent | 0.7{end}") for end in ("", " | exp"))
    assert (power.value, power.low, *power.by_seed) == pytest.approx(
        np.exp([alone.value, alone.low, *alone.by_seed])
    )


def test_the_share_of_a_gap_is_paired_by_item_and_may_be_negative():
    rows = results().rows
    least = rows.filter(arm="agent", seed=0).with_columns(
        arm=pl.lit(BOUND), seed=pl.lit(None, pl.Int64),
        value=pl.when(metric="sum").then(pl.col("value") / 2).otherwise("value"),
    )  # fmt: skip
    found = Results(pl.concat([rows, least]), {}, {"slowdown": Metric("sum", "jobs")})
    mine, rule, bound = (
        found.values("sum", arm, "0.7")[0].mean(axis=0) for arm in ("agent", "SJF", BOUND)
    )
    closed = found.ask("slowdown | agent | 0.7 | gap=SJF")
    assert closed.value == pytest.approx((rule - mine).sum() / (rule - bound).sum())
    assert closed.low < closed.value < closed.high
    assert found.ask("slowdown | FCFS | 0.7 | gap=SJF").high < 0
    assert found.ask("slowdown | bound | 0.7 | gap=SJF").value == pytest.approx(1.0)
    gains = found.rows.filter(metric="sum").with_columns(value=-pl.col("value"))
    closed_gain = Results(gains).ask("sum | agent | 0.7 | gap=SJF")
    assert closed_gain.value == pytest.approx(closed.value)
    assert closed_gain.low < closed_gain.value < closed_gain.high


def test_what_never_ended_is_infinite_and_has_no_interval():
    slowdown = np.array([[1.0, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, np.inf]])
    found = estimate(slowdown, np.ones(6), np.ones((1, 6)), relation="difference")
    assert found == Estimate(np.inf, None, None, (2.5, np.inf))
    assert answer(found, ".2f") == "1 of 2 never done"


@pytest.mark.parametrize(
    "question",
    ["minuets", "slowdown | agnet | 0.7", "slowdown | agent | 0.9", "slow | agent | 0.7",
     "slowdown | agent | 0.7 | item=8",
     "slowdown | agent | 0.7 | lest=SJF", "slowdown | agent | 0.7 | less=SFJ"],
)  # fmt: skip
def test_a_question_that_names_nothing_is_refused(question):
    with pytest.raises(RunError):
        results(minutes=1.0).ask(question)


def test_results_are_read_as_they_were_written(tmp_path):
    found = results(minutes=2, chosen={"rate": 0.1})
    found.write(tmp_path, "study")
    read = Results.read(tmp_path, "study", metrics=found.metrics)
    assert read.facts == found.facts
    for arm in ("agent", "SJF", "FCFS"):
        question = f"slowdown | {arm} | 0.7"
        assert read.ask(question) == found.ask(question)
    means = pl.read_csv(tmp_path / "study.csv", schema_overrides={"case": pl.String})
    assert means.equals(found.means().with_columns(pl.col("sum", "jobs", "slowdown").round(5)))
    assert means["slowdown"].to_list() == pytest.approx(
        [found.mean("slowdown", "agent", "0.7", seed=seed) for seed in (0, 1)]
        + [found.mean("slowdown", arm, "0.7") for arm in ("SJF", "FCFS")],
        abs=1e-5,
    )
    assert json.loads((tmp_path / "study.json").read_text("utf-8"))["minutes"] == 2


def of_number(number: int) -> pl.DataFrame:
    return pl.DataFrame({"number": [number]})


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_a_kept_table_is_computed_anew_only_if_what_it_depends_on_differs(workers, tmp_path):
    said = list[str]()
    place = replace(workplace(tmp_path, said), workers=workers)
    parts = [Part(f"part {n}", [n], of_number, (n,)) for n in (1, 2)]
    for _ in range(2):
        assert [table.item() for table in kept_tables(place, parts)] == [1, 2]
    assert sorted(said) == ["judged part 1", "judged part 2"]
    kept_tables(place, [replace(parts[0], depends_on=[3])])
    assert said[2:] == ["judged part 1"]


def contents(*, small: bool = False) -> Contents:
    functions = {
        "ranked": lambda found, case: found.ranked("slowdown", case),
        "table": lambda _: [
            ("", "n", "text"),
            ("a", "1.5 (1.0 to 2.0)", "x"),
            ("b", "–", "2 of 3"),
        ],
        "two": lambda _: 2,
        "holds": lambda _, word: word == "yes",
    }
    return Contents(results(minutes=12.5, commit="abc"), functions, small)


def test_holes_are_filled():
    text = fill(
        "{{number: two}} at {{number: commit}} in {{number: minutes : .1f}} min: "
        "{{number: slowdown | SJF | 0.7 : .0f}}\n{{table: table}}", contents()
    )  # fmt: skip
    assert text.splitlines() == [
        "2 at abc in 12.5 min: 4", "|  | n | text |", "| --- | ---: | --- |",
        "| a | 1.5 (1.0 to 2.0) | x |", "| b | – | 2 of 3 |",
    ]  # fmt: skip


@pytest.mark.parametrize("asked", ["FCFS = last; SJF; agent = ours", "ranked | 0.7"])
def test_a_row_is_repeated_for_each_arm(asked):
    row = "| [label] | {{number: slowdown | [arm] | 0.7 | over=SJF : .1f}} | [other] |"
    found = fill(f"{{{{rows: {asked}}}}}\n{row}\nend", contents()).splitlines()
    rows = {"last": "2.3", "FCFS": "2.3", "SJF": "", "ours": "0.5", "agent": "0.5"}
    labels = ["last", "SJF", "ours"] if "=" in asked else ["agent", "SJF", "FCFS"]
    assert found == [*(f"| {label} | {rows[label]} | [other] |" for label in labels), "end"]


@pytest.mark.parametrize(
    "hole", ["{{table: everybody}}", "{{number: three}}", "{{verdict: hold | yes}}"]
)
def test_a_hole_that_names_nothing_is_refused(hole):
    with pytest.raises(RunError, match="did you mean|no fact|names|is not"):
        fill(hole, contents())


def test_a_small_version_has_a_dash_for_what_it_does_not_measure():
    page = "{{number: slowdown | agent | 0.9}}, {{verdict: slowdown | agent | 0.9 > 1}}"
    assert fill(page, contents(small=True)) == "–, –"
    assert fill("{{number: slowdown | agent | 0.9 : .1f ?}}", contents()) == "–"


def test_an_answer_has_the_form_asked_for():
    found = Estimate(0.5, 0.25, 0.75, (0.4, 0.6))
    assert [answer(found, spec) for spec in ("", ".1f ±", "low", "high .1f", "seeds .1f", "+.1f ±")] == [
        "0.50", "0.5 (0.2 to 0.8)", "0.25", "0.8", "0.4, 0.6", "+0.5 (+0.2 to +0.8)"
    ]  # fmt: skip
    assert answer(Estimate(0.5), "low") == answer(Estimate(0.5), "seeds") == "–"


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [("slowdown | agent | 0.7 | less=SJF < 0", CONFIRMED),
     ("slowdown | agent | 0.7 | over=SJF <= 0.9", CONFIRMED),
     ("slowdown | agent | 0.7 | over=SJF <= 0.1", SMALLER),
     ("slowdown | agent | 0.7 | over=SJF >= 1.1", NOT_CONFIRMED),
     ("slowdown | FCFS | 0.7 | over=SJF | percent >= 100", CONFIRMED),
     ("holds | yes", CONFIRMED), ("holds | no", NOT_CONFIRMED)],
)  # fmt: skip
def test_a_claim_is_judged_by_its_rule(rule, verdict):
    assert fill(f"{{{{verdict: {rule}}}}}", contents()) == verdict
