"""The long table of a study: its estimates, and the questions that pages ask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from trainings import workplace

from simkit.analysis.intervals import Estimate, seed_interval, set_interval
from simkit.errors import RunError
from simkit.learners.studies.page import (
    CONFIRMED,
    NOT_CONFIRMED,
    SMALLER,
    Contents,
    answer,
    fill,
    markdown_table,
)
from simkit.learners.studies.pictures import curve, line, panel, picture
from simkit.learners.studies.results import BOUND, Best, Metric, Results, long
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


def test_the_interval_is_that_over_items_and_several_seeds_widen_it_as_errors_add_up():
    found = results()
    for arm in ("SJF", "agent"):
        sums, jobs = (found.values(name, arm, "0.7")[0] for name in ("sum", "jobs"))
        mine, over_items = (
            found.ask(f"slowdown | {arm} | 0.7"),
            set_interval(sums.mean(axis=0), jobs[0]),
        )
        assert mine.value == pytest.approx(sums.sum() / jobs.sum())
        reach = over_items.high - mine.value
        if arm == "agent":
            assert mine.by_seed == tuple((sums.sum(axis=1) / jobs.sum(axis=1)).tolist())
            reach = np.hypot(
                reach, seed_interval(np.array(mine.by_seed)).high - np.mean(mine.by_seed)
            )
        assert mine.high - mine.value == pytest.approx(reach)


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


def test_questions_compare_paired_by_item():
    found = results(minutes={"ppo": 12.5})
    sums, jobs = (found.values(name, "agent", "0.7")[0].mean(axis=0) for name in ("sum", "jobs"))
    rule = found.values("sum", "SJF", "0.7")[0][0]
    asked = {
        "less=SJF": (sums - rule).sum() / jobs.sum(),
        "over=SJF": sums.sum() / rule.sum(),
        "geometric over=SJF": np.exp(np.log(sums / rule).mean()),
        "over=SJF | percent": 100 * sums.sum() / rule.sum() - 100,
        "seed=1": found.ask("slowdown | agent | 0.7").by_seed[1],
        "item=2": sums[2] / jobs[2],
        "median": np.median(sums / jobs),
        "geometric mean": np.exp(np.log(sums / jobs).mean()),
        "won=SJF": 1.0,
    }
    for options, value in asked.items():
        assert found.ask(f"slowdown | agent | 0.7 | {options}").value == pytest.approx(value)
    assert found.ask("sum | agent | 0.7 | total").value == pytest.approx(2 * sums.sum())
    assert found.ask("minutes | ppo") == 12.5
    alone, power = (found.ask(f"slowdown | agent | 0.7{end}") for end in ("", " | exp"))
    assert (power.value, power.low, *power.by_seed) == pytest.approx(
        np.exp([alone.value, alone.low, *alone.by_seed])
    )


def test_a_name_stands_for_the_best_of_some_arms_in_a_case():
    worse = results().rows.with_columns(
        case=pl.lit("0.9"), value=pl.when(arm="FCFS").then(1.0).otherwise("value")
    )
    rules = Best("slowdown", ("SJF", "FCFS", "never judged"))
    found = replace(
        results(), rows=pl.concat([results().rows, worse]),
        best={"best rule": rules, "worst rule": replace(rules, highest=True)},
    )  # fmt: skip
    assert [found.named("best rule", case) for case in found.numbers("[x]")] == ["SJF", "FCFS"]
    assert found.named("worst rule", "0.7") == "FCFS"
    for question in ("slowdown | best rule | 0.7", "slowdown | agent | 0.7 | over=best rule"):
        assert found.ask(question) == found.ask(question.replace("best rule", "SJF"))
    page = "{{number: slowdown | SJF | 0.7 | less=best rule}}{{number: best rule | 0.9 : FC}}"
    assert fill(page, Contents(found)) == "FS"


def test_the_share_of_a_gap_is_paired_by_item_and_may_be_negative():
    rows = results().rows
    least = rows.filter(arm="agent", seed=0).with_columns(
        arm=pl.lit(BOUND), seed=pl.lit(None, pl.Int64),
        value=pl.when(metric="sum").then(pl.col("value") / 2).otherwise("value"),
    )  # fmt: skip
    found = replace(results(), rows=pl.concat([rows, least]))
    mine, rule, bound = (
        found.values("sum", arm, "0.7")[0].mean(axis=0) for arm in ("agent", "SJF", BOUND)
    )
    gains = found.rows.filter(metric="sum").with_columns(value=-pl.col("value"))
    for each, metric in ((found, "slowdown"), (Results(gains), "sum")):
        closed = each.ask(f"{metric} | agent | 0.7 | gap=SJF")
        assert closed.value == pytest.approx((rule - mine).sum() / (rule - bound).sum())
        assert closed.low < closed.value < closed.high
    assert found.ask("slowdown | FCFS | 0.7 | gap=SJF").high < 0
    assert found.ask("slowdown | bound | 0.7 | gap=SJF").value == pytest.approx(1.0)


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
    assert (read.facts, read.rows.equals(found.rows)) == (found.facts, True)
    means = pl.read_csv(tmp_path / "study.csv", schema_overrides={"case": pl.String})
    assert means.equals(found.means().with_columns(pl.col("sum", "jobs", "slowdown").round(5)))
    assert means["slowdown"].to_list() == pytest.approx(
        [found.mean("slowdown", "agent", "0.7", seed=seed) for seed in (0, 1)]
        + [found.mean("slowdown", arm, "0.7") for arm in ("SJF", "FCFS")],
        abs=1e-5,
    )


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
        "two": lambda _: 2,
        "holds": lambda _, word: word == "yes",
    }
    return Contents(results(minutes=12.5, commit="abc"), functions, small)


def test_holes_are_filled():
    text = fill(
        "{{number: two}} at {{number: commit}} in {{number: minutes : .1f}} min: "
        "{{number: slowdown | SJF | 0.7 : .0f}}", contents()
    )  # fmt: skip
    assert text == "2 at abc in 12.5 min: 4"


def test_columns_of_numbers_are_aligned_right():
    rows = [("", "n", "text"), ("a", "1.5 (1.0 to 2.0)", "x"), ("b", "–", "2 of 3")]
    assert markdown_table(rows).splitlines()[1] == "| --- | ---: | --- |"


@pytest.mark.parametrize("asked", ["FCFS = last; SJF; agent = ours", "ranked | slowdown | 0.7"])
def test_a_row_is_repeated_for_each_arm(asked):
    row = "| [label] | {{number: slowdown | [arm] | 0.7 | over=SJF : .1f}} | [other] |"
    found = fill(f"{{{{rows: {asked}}}}}\n{row}\nend", contents()).splitlines()
    rows = {"last": "2.3", "FCFS": "2.3", "SJF": "", "ours": "0.5", "agent": "0.5"}
    labels = ["last", "SJF", "ours"] if "=" in asked else ["agent", "SJF", "FCFS"]
    assert found == [*(f"| {label} | {rows[label]} | [other] |" for label in labels), "end"]


@pytest.mark.parametrize(
    ("rows", "row", "text"),
    [("cases | [x]", "[x]", "0.7"), ("arms | slowdown | 0.7", "[arm]", "agent SJF FCFS"),
     ("trainings | sum | agent | 0.7", "[label][by]", "all 0 | seed=0 1 | seed=1")],
)  # fmt: skip
def test_rows_are_listed_from_the_results(rows, row, text):
    assert fill(f"{{{{rows: {rows}}}}}\n{row}", contents()).replace("\n", " ") == text


@pytest.mark.parametrize("hole", ["{{number: three}}", "{{verdict: hold | yes}}"])
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


def test_a_picture_draws_answers_over_the_numbers_in_cases_and_leaves_out_what_is_not_there():
    rows = results().rows
    higher = rows.with_columns(case=pl.lit("0.9"), value=pl.col("value") * 2)
    found = replace(results(), rows=pl.concat([rows, higher]))
    draw = picture(
        panel(line("sum | agent | [x]", band=0.1, color="k"), line("sum | nobody | [x]")),
        panel(curve("sum", "agent", "0.7", "the agent"), log=[1, 10], legend={}),
    )
    left, right = draw(found).axes
    x, y = left.lines[0].get_data()
    assert len(left.lines) == 1
    assert (list(x), list(y)) == (
        [0.7, 0.9],
        [found.mean("sum", "agent", one) for one in ("0.7", "0.9")],
    )
    assert [list(each.get_ydata()) for each in right.lines] == found.values("sum", "agent", "0.7")[
        0
    ].tolist()
