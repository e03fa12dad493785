"""The tables and pictures of power-modulated.md, made from the rows of its runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import power_modulated_setting as setting
from power_modulated_runs import CELL, MEASURES

from simkit.analysis.intervals import Estimate, estimate
from simkit.analysis.plot_style import COLOURS, save_picture
from simkit.arrays import Floats
from simkit.learners.studies.page import Rows, markdown_table
from simkit.learners.studies.pictures import empty_figure
from simkit.text import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POOLS, ONE_READY = "5 + 144", "1 + 144"
VARIANTS = {"": "own", ", common victims": "common", ", algorithm 2": "common, algorithm 2"}
"""Ending of the policies' names → which victims they stop first, and how time advances."""
HIGH = 60
"""From this rate on the text has QoS and SJF ahead."""
HIGHER = (("QoS", "FCFS"), ("QoS", "HVF"), ("SJF", "FCFS"), ("SJF", "HVF"))
AHEAD = [f"{one} − {other}" for one, other in HIGHER]
PANELS = {
    "value_ratio": "value ratio",
    "completion": "completion ratio",
    "utilisation_processors": "utilisation of what had power",
    "delay_h": "delay, job hours",
}
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def write_page(rows: Path, folder: Path) -> None:
    """Write the tables of power-modulated.md between its marks, the summary, and the picture."""
    table = pl.read_csv(rows, infer_schema_length=None, schema_overrides={"window": pl.String})
    wind = table.filter(pl.col("power").is_in(list(setting.PLACES)))
    named = pl.col("policy").is_in([*setting.POLICIES, "bound"])
    usual = pl.col("window") == table["window"].mode().first()  # tables of means have no other
    closed = wind.filter((pl.col("pools") == POOLS) & usual & named)
    parts: dict[str, tuple[Callable[[pl.DataFrame], Rows | str], pl.DataFrame]] = {
        "runs": (runs, table.filter(pl.col("policy") != "bound")),
        "supply": (supply, closed),
        "order": (order_matters, wind.filter(usual & (pl.col("pools") != ONE_READY))),
        "noise": (noise, wind.filter(usual & (pl.col("pools") == ONE_READY))),
        "checked": (checked, wind.filter(usual)),
        "unused": (unused, table.filter(usual & named)),
        "levels": (levels, table.filter(usual)),
        "results": (results, closed),
        "bound": (bound, closed),
        "whole": (longer, wind.filter((pl.col("pools") == POOLS) & ~usual)),
    }

    def filled(hole: re.Match[str]) -> str:
        make, part = parts[hole[2]]
        found = make(part)
        text = found if isinstance(found, str) else markdown_table(found)
        return f"{hole[1]}\n{text}\n\n{hole[3]}"

    page = folder / "power-modulated.md"
    page.write_text(_PART.sub(filled, page.read_text("utf-8")), "utf-8")
    summary(table).write_csv(folder / "power-modulated.csv", float_precision=4)
    save_picture(folder / "power-modulated.svg", lambda: draw(closed))


def summary(table: pl.DataFrame) -> pl.DataFrame:
    """Return a row a policy and cell of the design: mean over seeds, and half of an interval."""
    groups = [*CELL[1:], "policy"]
    means = [pl.col(name).mean() for name in MEASURES]
    halves = [pl.col(name).map_batches(_half, return_dtype=pl.Float64, returns_scalar=True)
              .alias(f"{name}_pm") for name in MEASURES[2:]]  # fmt: skip
    return table.group_by(groups).agg(pl.len().alias("seeds"), *means, *halves).sort(groups)


def _half(values: pl.Series) -> float | None:
    found = over_seeds(values.drop_nulls().to_numpy())
    return None if found.low is None or found.high is None else (found.high - found.low) / 2


def over_seeds(values: Floats) -> Estimate:
    """Return the mean of (S,) values with Student's interval; nan if there are none."""
    if not len(values):
        return Estimate(np.nan)
    return estimate(np.asarray(values, np.float64)[:, None], np.ones(1))


def points(values: Floats) -> Estimate:
    """Return the mean of shares over seeds, in percentage points."""
    return over_seeds(values).scaled(100.0)


def above(found: Estimate) -> str:
    """Return what an estimate says of "above 0"."""
    if found.low is None or found.high is None:
        return "–"
    return "confirmed" if found.low > 0 else "refuted" if found.high < 0 else "undecided"


def number(value: Any, digits: int = 3) -> str:
    """Return a number as text; a dash if there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def gain(table: pl.DataFrame, one: str, other: str) -> Estimate:
    """Return the points of value ratio between two policies, over the cells that both have."""
    wide = table.filter(pl.col("policy").is_in([one, other])).pivot(
        on="policy", index=CELL, values="value_ratio"
    )
    if not {one, other} <= set(wide.columns):
        return Estimate(np.nan)
    means = wide.drop_nulls([one, other]).group_by("seed").agg(pl.col(one, other).mean())
    ordered = means.sort("seed")
    return points((ordered[one] - ordered[other]).to_numpy())


def of_logs(table: pl.DataFrame) -> Iterable[tuple[str, pl.DataFrame]]:
    """Yield the title and the rows of each log that has any, in the setting's order."""
    for name, log in setting.LOGS.items():
        if len(part := table.filter(pl.col("log") == name)):
            yield log.title, part


def by_rate(means: pl.DataFrame, rates: Sequence[int], digits: int = 3) -> list[str]:
    """Return the numbers of a table of rate and value, a dash where it has none."""
    known = dict(means.drop_nulls().iter_rows())
    return [number(known.get(rate), digits) for rate in rates]


# ---- tables --------------------------------------------------------------------------------------


def runs(table: pl.DataFrame) -> str:
    """Say what was run."""
    commits = ", ".join(f"`{name}`" for name in sorted(set(table["commit"])))
    logs = table.group_by("log", "window", "pools").agg(
        pl.col("seed").n_unique().alias("seeds"), pl.len().alias("runs"), pl.col("jobs").mean()
    )
    rows = [("jobs of", "pools", "window", "jobs", "seeds", "runs")] + [
        (setting.LOGS[row["log"]].title, row["pools"], row["window"], f"{row['jobs']:,.0f}",
         str(row["seeds"]), f"{row['runs']:,}")
        for row in logs.sort("log", "pools", "window").to_dicts()
    ]  # fmt: skip
    hours = table["seconds"].sum() / 3600
    head = f"{len(table):,} runs, {hours:.1f} hours of processor time, at {commits}."
    return f"{head}\n\n{markdown_table(rows)}"


def supply(table: pl.DataFrame) -> Rows:
    """Return which share of the pool had power while jobs arrived."""
    power = pl.col("available")
    found = table.group_by("power", "battery").agg(
        power.mean(), power.min().alias("least"), power.max().alias("most"),
        pl.col("seed").n_unique().alias("seeds"),
    ).sort("power", "battery")  # fmt: skip
    return [("place", "battery", "mean", "lowest run", "highest run", "seeds")] + [
        (place, battery, *map(number, shares), str(seeds))
        for place, battery, *shares, seeds in found.iter_rows()
    ]


def order_matters(table: pl.DataFrame) -> Rows:
    """Return by how much QoS and SJF are above FCFS and HVF in value."""
    rows = [("pools", "jobs of", *AHEAD, "seeds")]
    parts = table.filter(pl.col("rate") >= HIGH).partition_by("pools", "log", as_dict=True)
    for (pools, log), part in sorted(parts.items()):
        found = [gain(part, *pair) for pair in HIGHER]
        cells = [f"{above(each)}: {each:+.1f}" for each in found]
        rows.append((pools, setting.LOGS[log].title, *cells, str(part["seed"].n_unique())))
    return rows


def noise(table: pl.DataFrame) -> Rows:
    """Return by how much orders differ in value where an order has nothing to choose."""
    rows = [("jobs of", "victims", "mean of runs", "largest of runs", "largest of seeds", "seeds")]
    worth = pl.col("value_ratio") * 100
    spread = (pl.col("value_ratio").max() - pl.col("value_ratio").min()).alias("spread")
    for title, log in of_logs(table):
        for ending, victims in list(VARIANTS.items())[:2]:
            part = log.filter(
                pl.col("policy").is_in([f"{name}{ending}" for name in setting.ORDERS])
            )
            part = part.with_columns(worth)
            cells = part.group_by(CELL).agg(spread)["spread"]
            means = part.group_by("seed", "policy").agg(pl.col("value_ratio").mean())
            seeds = means.group_by("seed").agg(spread)["spread"]
            largest = (cells.mean(), cells.max(), seeds.max())
            rows.append((title, victims, *(number(one, 1) for one in largest), str(len(seeds))))
    return rows


def checked(table: pl.DataFrame) -> Rows:
    """Return the differences between orders with common victims, and with algorithm 2."""
    rows = [("jobs of", "victims", "QoS", *AHEAD, "seeds")]
    cells = table.filter(pl.col("policy").str.ends_with([*VARIANTS][-1])).select(CELL).unique()
    for title, part in of_logs(table.join(cells, on=CELL)):
        for ending, victims in VARIANTS.items():
            mean = part.filter(pl.col("policy") == f"QoS{ending}")["value_ratio"].mean()
            found = [f"{gain(part, a + ending, b + ending):+.1f}" for a, b in HIGHER]
            rows.append((title, victims, number(mean), *found, str(part["seed"].n_unique())))
    return rows


def unused(table: pl.DataFrame) -> Rows:
    """Return what is unused of what has power at 120 %, and while jobs wait."""
    rows = [
        ("jobs of", "power", "unused, points", "unused while jobs wait", "below 100 %", "seeds")
    ]
    part = table.filter(
        (pl.col("rate") == 120) & (pl.col("pools") == POOLS) & (pl.col("policy") != "bound")
    )
    for title, log in of_logs(part):
        for power, kinds in (("sun and wind", [*setting.PLACES]), ("constant, 100 %", ["100%"])):
            means = log.filter(pl.col("power").is_in(kinds)).group_by("seed").agg(
                pl.col("utilisation_processors", "held_while_waiting").mean().neg() + 1
            ).sort("seed")  # fmt: skip
            if len(means):
                found = [points(means[name].to_numpy()) for name in means.columns[1:]]
                cells = [f"{each:+.1f}" for each in found]
                rows.append((title, power, *cells, above(found[0]), str(len(means))))
    return rows


def levels(table: pl.DataFrame) -> Rows:
    """Return the value at the levels of power, and the differences."""
    steps = list(pairwise(setting.LEVELS))
    rows = [("policy", *setting.LEVELS, *(f"{a} − {b}" for a, b in steps), "seeds")]
    part = table.filter(pl.col("power").is_in(list(setting.LEVELS)) & (pl.col("rate") == 100))
    for policy in setting.POLICIES:
        values = part.filter(pl.col("policy") == policy).sort("seed").pivot(
            on="power", index="seed", values="value_ratio"
        )  # fmt: skip
        if set(setting.LEVELS) <= set(values.columns):
            found = [points((values[a] - values[b]).drop_nulls().to_numpy()) for a, b in steps]
            means = [number(values[level].mean()) for level in setting.LEVELS]
            cells = [f"{above(each)}: {each:+.1f}" for each in found]
            rows.append((policy, *means, *cells, str(values["100%"].count())))
    return rows


def results(table: pl.DataFrame) -> str:
    """Return value, completion, utilisation and cost by policy and rate, a table a log."""
    texts, rates = [], sorted(set(table["rate"]))
    for title, part in of_logs(table):
        rows = [("measure", "policy", *(f"{rate} %" for rate in rates))]
        for name, measure in PANELS.items():
            for policy in setting.POLICIES:
                own = part.filter(pl.col("policy") == policy).group_by("rate").agg(
                    pl.col(name).mean()
                )  # fmt: skip
                digits = 0 if name == "delay_h" else 3
                rows.append((measure, policy, *by_rate(own, rates, digits)))
        seeds = counted(part["seed"].n_unique(), "seed")
        texts.append(f"**{title}** ({seeds})\n\n{markdown_table(rows)}")
    return "\n\n".join(texts)


def bound(table: pl.DataFrame) -> Rows:
    """Return how near the best policy of each log and rate comes to what none exceeds."""
    alone, is_bound = table.filter(pl.col("battery") == "no"), pl.col("policy") == "bound"
    best = alone.filter(~is_bound).group_by(CELL).agg(best=pl.col("job_value").max())
    shares = alone.filter(is_bound).join(best, on=CELL).group_by("log", "rate").agg(
        (pl.col("best") / pl.col("job_value")).mean())  # fmt: skip
    rates = sorted(set(shares["rate"]))
    return [("best policy / bound", *(f"{rate} %" for rate in rates))] + [
        (title, *by_rate(part.select("rate", "best"), rates)) for title, part in of_logs(shares)
    ]


def longer(table: pl.DataFrame) -> Rows:
    """Return the results of whole logs and of other windows than the usual one, each by itself."""
    names: Mapping[str, str] = {**PANELS, "rejected": "rejected"}
    ordered = table.filter(pl.col("policy") != "bound").sort(
        "log", "jobs", "power", "battery", "rate", "seed", "policy"
    )
    return [("jobs of", "policy", "jobs", "rate", "battery", *names.values())] + [
        (setting.LOGS[row["log"]].title, row["policy"], f"{row['jobs']:,.0f}", f"{row['rate']} %",
         row["battery"], *(number(row[name], 0 if name == "delay_h" else 3) for name in names))
        for row in ordered.to_dicts()
    ]  # fmt: skip


def draw(table: pl.DataFrame) -> Figure:
    """Draw the four measures over the rate: a row a log, a line a policy."""
    logs = list(of_logs(table))
    figure = empty_figure(10.4, 2.4 * len(logs) + 0.5)
    axes = figure.subplots(len(logs), len(PANELS), squeeze=False, sharex=True)
    for row, (log, part) in enumerate(logs):
        axes[row, 0].set_ylabel(log)
        for panel, (name, title) in zip(axes[row], PANELS.items(), strict=True):
            for place, policy in enumerate(setting.POLICIES):
                own = part.filter(pl.col("policy") == policy).group_by("rate").agg(
                    pl.col(name).mean()).sort("rate")  # fmt: skip
                dash = "-" if place < 4 else "--" if place < 6 else ":"
                panel.plot(own["rate"], own[name], dash, color=COLOURS[place % len(COLOURS)],
                           label=policy, linewidth=1.3)  # fmt: skip
            panel.set_ylim(bottom=0)
            if row == 0:
                panel.set_title(title, fontsize=10)
    for panel in axes[-1]:
        panel.set_xlabel("arrival rate, %")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8.5)
    return figure
