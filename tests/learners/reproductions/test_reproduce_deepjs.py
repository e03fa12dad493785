"""The comparison with DeepJS: its trainings, its counts by hand, and a tiny run to the page."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("cma")
pytest.importorskip("matplotlib")
pytest.importorskip("numba")
pytest.importorskip("torch")

from simkit.errors import RunError
from simkit.learners.reproductions.deepjs import carry_out
from simkit.learners.reproductions.deepjs.judge import (
    BALANCE,
    BOUND,
    FIRST_FIT,
    TETRIS,
    standing,
    standings,
)
from simkit.learners.reproductions.deepjs.options import gain
from simkit.learners.reproductions.deepjs.page import PUBLISHED, RESULT, spans
from simkit.learners.reproductions.deepjs.study import (
    FULL,
    QUICK,
    DeepJSSetting,
    agents,
    scenario_of,
)
from simkit.training import Workplace

TINY = DeepJSSetting(
    trained=7,
    judged=(200, 203),
    seeds=2,
    ten_machines_seeds=1,
    program_seeds=1,
    repeats=1,
    alone=1,
    generations=1,
    variant_repeats=1,
    draws=2,
)


def test_no_agent_is_trained_on_what_judges() -> None:
    for setting in (FULL, QUICK):
        assert all(agent.chunks[1] < setting.judged[0] for agent in agents(setting))


def test_every_training_has_a_name_of_its_own() -> None:
    names = [agent.name for agent in agents(FULL)]
    assert len(set(names)) == len(names)
    assert [name for name in names if name.startswith("deepjs-paper")] == [
        "deepjs-paper-seed0", "deepjs-paper-seed1", "deepjs-paper-seed2",
    ]  # fmt: skip


def test_the_papers_320_chunks_are_read_in_two_ways() -> None:
    assert spans(FULL) == ((200, 519), (202, 521))
    assert spans(QUICK) == ((200, 239),)


def judged(**makespans: list[list[float]]) -> pl.DataFrame:
    """Return a table of schedulers, a list of makespans for each draw."""
    rows = [
        {"label": label.replace("_", " "), "seed": 0 if len(draws) > 1 else None, "draw": draw,
         "chunk": chunk, "makespan": value}
        for label, draws in makespans.items()
        for draw, values in enumerate(draws)
        for chunk, value in enumerate(values)
    ]  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


TABLE = judged(
    lower_bound=[[4.0, 8.0, 10.0]],
    Tetris=[[9.0, 9.0, 9.0]],
    balance=[[4.0, 8.0, 20.0]],
    agent=[[8.0, 8.0, 20.0], [4.0, 16.0, 10.0]],
    **{"first-fit": [[8.0, 12.0, 15.0]]},
)


def test_a_standing_by_hand() -> None:
    found = standing(TABLE, "agent")
    assert found.runs == 2
    assert found.makespan == 11.0
    assert found.against[FIRST_FIT] == (1.0, 0.5, 1.5)
    assert found.against[TETRIS] == (1.5, 0.0, 1.5)
    # to the bound 2, 1, 2 and 1, 2, 1; to balance 2, 1, 1 and 1, 2, 1/2
    assert found.over_bound == pytest.approx(2**0.5)
    assert found.log_ratio == pytest.approx(np.log(2) / 6)


def test_the_best_is_last_and_the_bound_is_no_scheduler() -> None:
    labels = [one.label for one in standings(TABLE, (0, 2))]
    assert labels == [FIRST_FIT, "agent", BALANCE, TETRIS]


def test_without_the_table_it_says_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMKIT_DATA", raising=False)
    with pytest.raises(RunError, match="set SIMKIT_DATA to the folder"):
        scenario_of(next(agents(TINY)), TINY)


SHARED = Path(__file__).parents[4] / "shared"
DATA = Path(os.environ.get("SIMKIT_DATA", SHARED / "data"))


@pytest.mark.skipif(
    not (DATA / "alibaba" / "cloudsimpy_jobs.csv.gz").is_file(), reason="no table; set SIMKIT_DATA"
)
def test_a_tiny_run_to_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIMKIT_DATA", str(DATA))
    pages, work = tmp_path / "pages", tmp_path / "work"
    pages.mkdir()
    work.mkdir()
    said: list[str] = []
    page = carry_out(Workplace(pages, work, True, 1, said.append), TINY)
    text = page.read_text("utf-8")
    assert "45/36/239" in text
    assert "0.74" in text
    for name in ("figure4.svg", "figure5.svg", "figure6.svg", "judged.csv", "sliding.csv"):
        assert (pages / f"deepjs-{name}").is_file()
    found = pl.read_csv(pages / "deepjs-judged.csv")
    bound = found.filter(pl.col("label") == BOUND)["makespan"]
    for (label,), rows in found.group_by("label"):
        assert (rows["makespan"].to_numpy().reshape(-1, 4) >= bound.to_numpy()).all(), label
    said.clear()
    carry_out(Workplace(pages, work, True, 1, said.append), TINY)
    assert [text for text in said if text.startswith("judged")] == []


PAGES = Path(__file__).resolve().parents[3] / "docs" / "reproductions"


def test_the_result_is_on_the_page() -> None:
    assert RESULT in (PAGES / "deepjs.md").read_text("utf-8")


def test_the_result_quotes_the_judged_table() -> None:
    text = " ".join(RESULT.split())
    table = pl.read_csv(PAGES / "deepjs-judged.csv", infer_schema_length=None)
    found = {one.label: one for one in standings(table, (200, 519))}
    paper, drawn = found["deepjs-paper"], found["deepjs-paper, drawn"]
    lost, _, won = paper.against[FIRST_FIT]
    assert f"first-fit on {lost:.0f} chunks and a smaller one on {won:.1f}, greedily" in text
    lost, _, won = drawn.against[FIRST_FIT]
    assert f"{lost:.1f} and {won:.1f} if pairs are drawn" in text
    for label in ("deepjs-paper", "deepjs-paper, drawn"):
        for seed in range(3):
            one = standing(table.filter(pl.col("chunk") < 520), label, seed)
            for other, published in PUBLISHED.items():
                assert one.against[other][0] <= published[0]
                assert one.against[other][2] >= published[2]
    assert f"is below first-fit on {found['random'].against[FIRST_FIT][2]:.1f}" in text
    assert f"a rule of one line, on {found['longest first'].against[FIRST_FIT][2]:.0f}" in text
    mean = {label: f"{one.makespan:,.2f}" for label, one in found.items()}
    assert (
        f"network is {mean['deepjs-paper']} greedily, *longest first* {mean['longest first']}, "
        f"*balance* {mean[BALANCE]}; first-fit {mean[FIRST_FIT]}"
    ) in text
    longest = paper.log_ratio - found["longest first"].log_ratio
    above, below = 100 * (np.exp(paper.log_ratio) - 1), 100 * (1 - np.exp(longest))
    assert f"{above:.2f} % above *balance*, geometric mean, and {below:.2f} % below" in text
    over = {label: f"{100 * (one.over_bound - 1):.2f} %" for label, one in found.items()}
    ahead, learned = "lookahead of rules", "lookahead of rules and fitness"
    assert f"at most {over[BALANCE]} above the optimum" in text
    assert f"five rules {over[ahead]}, and with a learned sixth {over[learned]}" in text
    fitness = found["fitness"]
    low, high = fitness.interval.low, fitness.interval.high
    assert low is not None
    assert high is not None
    apart = found[BALANCE].makespan - fitness.makespan
    wins = fitness.against[FIRST_FIT][2]
    assert f"it has {mean['fitness']}, {apart:.2f} ticks below *balance*, and {wins:.0f}" in text
    assert f"{100 * fitness.log_ratio:.2f} % [{100 * low:+.2f}, {100 * high:+.2f}]" in text
    control = mean["lookahead of rules and a random one"]
    assert f"the lookahead: {mean[learned]} against {mean[ahead]}, with every seed" in text
    assert f"about as far from *balance*, gives {control}" in text
    first = table.filter(pl.col("chunk") < 520)
    for seed in range(3):
        assert standing(first, learned, seed).makespan < found[ahead].makespan
        one = standing(first, "fitness", seed)
        assert one.interval.high is not None
        assert one.interval.high < 0
        assert one.against[FIRST_FIT][2] >= 280


def test_the_result_quotes_the_options() -> None:
    text = " ".join(RESULT.split())
    table = pl.read_csv(PAGES / "deepjs-options.csv").unpivot(
        index=["label", "chunk"], variable_name="objective", value_name="cost"
    )

    def ratio(label: str, objective: str = "makespan") -> float:
        return gain(table, label, objective, (200, 519)).log_ratio

    short, terms, ppo = (
        f"{100 * ratio(f'deepjs-{name}'):.2f}" for name in ("short", "terms", "terms-ppo")
    )
    assert (
        f"set-up is {short} hundredths above *balance*, the same on better features {terms}" in text
    )
    assert f"with PPO {ppo}." in text
    begun, begun_ppo, clusters = (
        f"{100 * ratio(f'deepjs-started{name}'):+.2f}" for name in ("", "-ppo", "-clusters")
    )
    assert f"REINFORCE {begun} [" in text
    assert f"PPO {begun_ppo}, on four clusters {clusters}" in text
    less = [
        f"{100 * (1 - np.exp(ratio(f'fitness-{goal}', goal) - ratio('shortest first', goal))):.0f} %"
        for goal in ("turnaround", "slowdown")
    ]
    assert f"for the turnaround has {less[0]} less of it than" in text
    assert f"for the slowdown {less[1]} less slowdown" in text
    worse = [f"{100 * ratio(f'fitness-{goal}'):.2f}" for goal in ("turnaround", "slowdown")]
    assert f"makespans {worse[0]} and {worse[1]} hundredths" in text


def test_the_result_quotes_the_correlations() -> None:
    text = " ".join(RESULT.split())
    table = pl.read_csv(PAGES / "deepjs-correlations.csv")
    for pair, words in (
        ("5 and 10 machines", "of 5 and 10 machines correlate at "),
        ("chunk 5 and chunk 6", "of chunk 5 and chunk 6 at "),
        ("5 machines and untrained", "with a trained one at "),
    ):
        one, two, three = table.filter(pl.col("pair") == pair).sort("seed")["pearson"]
        assert f"{words}{one:.2f}, {two:.2f} and {three:.2f}" in text
