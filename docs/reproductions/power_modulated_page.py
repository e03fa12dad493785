"""The long table behind power-modulated.md, what the page calls by name, and its picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import polars as pl
import power_modulated_setting as setting
from power_modulated_runs import CELL, MEASURES

from simkit.analysis.plot_style import COLOURS
from simkit.learners.studies.page import CONFIRMED, Rows
from simkit.learners.studies.pictures import empty_figure
from simkit.learners.studies.results import Results, long

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POOLS, ONE_READY = "5 + 144", "1 + 144"
VARIANTS: Final = {"own": "", "common": ", common victims"}
"""Which victims policies stop first → ending of their names."""
PANELS: Final = {
    "value_ratio": "value ratio",
    "completion": "completion ratio",
    "utilisation_processors": "utilisation of what had power",
    "delay_h": "delay, job hours",
}
_APART: Final = " / "
"""Between the columns of a cell in the name of its case."""
_NO_SEED: Final = pl.lit(None, pl.Int64)
_LOG, _POLICY, _RATE = pl.col("log"), pl.col("policy"), pl.col("rate")


# ---- the long table ------------------------------------------------------------------------------


def long_rows(runs: pl.DataFrame) -> pl.DataFrame:
    """Return what the page asks for, as a long table.

    A run is a case of its own, with all measures: ``LOG / POWER / …``. Further cases have the means
    over the runs of each seed, or the runs as items.

    Args:
        runs: a row a run, with the columns of a cell, ``policy``, `MEASURES`, ``seconds``.
    """
    titles = {name: log.title for name, log in setting.LOGS.items()}
    cell = pl.concat_str(CELL[1:], separator=_APART)
    each = long(runs, MEASURES, arm=_POLICY, case=cell, item=0)
    runs = runs.with_columns(_LOG.replace_strict(titles))
    usual = pl.col("window") == runs["window"].mode().first()
    wind = runs.filter(pl.col("power").is_in(list(setting.PLACES)))
    named = _POLICY.is_in(list(setting.POLICIES))
    pools = wind.filter(named, pools=POOLS)
    closed, checked = pools.filter(usual), wind.filter(_POLICY.is_in(list(setting.STEPWISE)))
    full = runs.filter(usual, named, pools=POOLS, rate=120).with_columns(
        unused=1 - pl.col("utilisation_processors"), idle=1 - pl.col("held_while_waiting"),
        kind=pl.when(pl.col("power").is_in(list(setting.PLACES))).then(pl.lit("sun and wind"))
        .when(pl.col("power") == "100%").then(pl.lit("constant, 100 %")),
    )  # fmt: skip
    stated = runs.filter(usual, pl.col("power").is_in(list(setting.LEVELS)), rate=100)
    everyone, at_rate = pl.lit("everyone"), pl.format("{}, {} %", "log", "rate")
    return pl.concat([
        each,
        means(closed, at_rate, _POLICY, PANELS),
        means(_over_bound(wind.filter(usual, _POLICY.is_in([*setting.POLICIES, "bound"]))),
              at_rate, pl.lit("best policy / bound"), ["share"]),
        means(pools.filter(~usual), pl.format("{}, {} jobs", "log", "jobs"), _POLICY,
              [*PANELS, "rejected"]),
        by_run(closed, pl.format("{}, battery {}", "power", "battery"), everyone, "available"),
        by_seed(wind.filter(usual, _RATE >= 60, pl.col("pools") != ONE_READY),
                pl.format("{}, {}, from 60 %", "pools", "log"), _POLICY),
        by_seed(wind.join(checked.select(CELL).unique(), on=CELL), pl.format("checked, {}", "log"),
                _POLICY),
        by_seed(full.drop_nulls("kind"), pl.format("{}, {}", "log", "kind"), everyone,
                ["unused", "idle"]),
        by_seed(stated, pl.lit("levels"), pl.format("{} at {}", "policy", "power")),
        *(_spreads(wind.filter(usual, pools=ONE_READY), victims) for victims in VARIANTS),
    ])  # fmt: skip


def by_run(runs: pl.DataFrame, case: pl.Expr, arm: pl.Expr, metric: str) -> pl.DataFrame:
    """Return runs as the items of cases."""
    placed = runs.with_columns(case=case, arm=arm).sort("case", "arm", *CELL)
    item = pl.int_range(pl.len()).over("case", "arm")
    return long(placed.with_columns(item=item), [metric], seed=None)


def means(
    runs: pl.DataFrame, case: pl.Expr, arm: pl.Expr, metrics: Iterable[str],
    seed: pl.Expr = _NO_SEED,
) -> pl.DataFrame:  # fmt: skip
    """Return means over runs, all together or those of each seed: the one item of its case."""
    placed = runs.with_columns(case=case, arm=arm, seed=seed).group_by("case", "arm", "seed")
    table = placed.agg(pl.col(*metrics).mean()).sort("case", "arm", "seed")
    return long(table, list(metrics), item=0)


def by_seed(
    runs: pl.DataFrame, case: pl.Expr, arm: pl.Expr, metrics: Iterable[str] = ("value_ratio",)
) -> pl.DataFrame:
    """Return means over the runs of each seed, whose interval is that over seeds."""
    return means(runs, case, arm, metrics, pl.col("seed"))


def _over_bound(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the value of the best policy over what none exceeds, for each cell without battery."""
    alone, is_bound = runs.filter(battery="no", pools=POOLS), _POLICY == "bound"
    best = alone.filter(~is_bound).group_by(CELL).agg(best=pl.col("job_value").max())
    bounds = alone.filter(is_bound).join(best, on=CELL)
    return bounds.with_columns(share=pl.col("best") / pl.col("job_value"))


def _spreads(runs: pl.DataFrame, victims: str) -> pl.DataFrame:
    """Return by how much value differs between orders: in runs, and in the means over seeds."""
    orders = [f"{name}{VARIANTS[victims]}" for name in setting.ORDERS]
    mine, value = runs.filter(_POLICY.is_in(orders)), pl.col("value_ratio")
    means = mine.group_by("log", "seed", "policy").agg(value.mean())
    tables = {"spread": (mine, CELL), "spread of seeds": (means, ("log", "seed"))}
    found = []
    for metric, (table, group) in tables.items():
        apart = table.group_by(group).agg((value.max() - value.min()).alias(metric)).sort(group)
        numbered = apart.with_columns(item=pl.int_range(pl.len()).over("log"))
        found.append(long(numbered, [metric], arm=pl.lit(victims), case=_LOG, seed=None))
    return pl.concat(found)


# ---- what the page calls by name -----------------------------------------------------------------


def done(results: Results) -> Rows:
    """Return what was run."""
    places = pl.col("case").str.split_exact(_APART, len(CELL) - 2).struct.rename_fields(CELL[1:])
    runs = results.rows.filter(pl.col("case").str.contains(_APART, literal=True), metric="jobs")
    cells = runs.filter(pl.col("arm") != "bound").with_columns(places).unnest("case")
    found = cells.group_by("log", "pools", "window").agg(
        pl.col("value").mean(), pl.col("seed").n_unique(), pl.len()
    )
    return [("jobs of", "pools", "window", "jobs", "seeds", "runs")] + [
        (setting.LOGS[log].title, pools, window, f"{jobs:,.0f}", str(seeds), f"{count:,}")
        for log, pools, window, jobs, seeds, count in found.sort("log", "pools", "window").rows()
    ]  # fmt: skip


def policies(_: Results) -> list[str]:
    """Return the policies of the design."""
    return list(setting.POLICIES)


def above(results: Results, *question: str) -> str:
    """Return whether a difference is above 0, and the difference in points."""
    found = results.ask(" | ".join((*question, "percent")))
    if found.low is None or found.high is None:
        return f"–: {found:+.1f}"
    words = CONFIRMED if found.low > 0 else "refuted" if found.high < 0 else "undecided"
    return f"{words}: {found:+.1f}"


def lowest(results: Results, *arm: str) -> float:
    """Return the least value of some runs: METRIC | ARM | CASE."""
    return float(results.values(*arm)[0].min())


def highest(results: Results, *arm: str) -> float:
    """Return the highest one."""
    return float(results.values(*arm)[0].max())


def most_points(results: Results, *arm: str) -> float:
    """Return the highest one in points."""
    return 100 * highest(results, *arm)


def draw(results: Results) -> Figure:
    """Draw the four measures over the rate: a row a log, a line a policy."""
    cases = set(results.rows["case"])
    logs = [log.title for log in setting.LOGS.values() if f"{log.title}, 20 %" in cases]
    figure = empty_figure(10.4, 2.4 * len(logs) + 0.5)
    axes = figure.subplots(len(logs), len(PANELS), squeeze=False, sharex=True)
    for row, log in zip(axes, logs, strict=True):
        row[0].set_ylabel(log)
        for panel, name in zip(row, PANELS, strict=True):
            for place, policy in enumerate(setting.POLICIES):
                means = [results.mean(name, policy, f"{log}, {rate} %") for rate in setting.RATES]
                dash = "-" if place < 4 else "--" if place < 6 else ":"
                panel.plot(setting.RATES, means, dash, color=COLOURS[place % len(COLOURS)],
                           label=policy, linewidth=1.3)  # fmt: skip
            panel.set_ylim(bottom=0)
    for top, bottom, title in zip(axes[0], axes[-1], PANELS.values(), strict=True):
        top.set_title(title, fontsize=10)
        bottom.set_xlabel("arrival rate, %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8.5)
    return figure
