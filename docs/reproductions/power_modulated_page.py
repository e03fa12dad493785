"""The tables and pictures of power-modulated.md, made from the rows of its runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import power_modulated_setting as setting
from power_modulated_runs import MEASURES, Row

from simkit.analysis.intervals import seed_interval
from simkit.analysis.plot_style import COLOURS
from simkit.text import counted

Floats = npt.NDArray[np.float64]

CELL = ("seed", "log", "power", "battery", "rate", "window", "pools", "units")
POOLS, ONE_READY = "5 + 144", "1 + 144"
VARIANTS = {"": "own", ", common victims": "common", ", algorithm 2": "common, algorithm 2"}
"""Ending of the policies' names → which victims they stop first, and how time advances."""
HIGH = 60
"""From this rate on the text has QoS and SJF ahead."""
HIGHER = (("QoS", "FCFS"), ("QoS", "HVF"), ("SJF", "FCFS"), ("SJF", "HVF"))
PANELS = {
    "value_ratio": "value ratio",
    "completion": "completion ratio",
    "utilisation_processors": "utilisation of what had power",
    "delay_h": "delay, job hours",
}
_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def write_page(rows: list[Row], folder: Path) -> None:
    """Write the tables of power-modulated.md between its marks, the summary, and the pictures."""
    table = frame(rows)
    wind = table.filter(pl.col("power").is_in(list(setting.PLACES)))
    named = pl.col("policy").is_in([*setting.POLICIES, "bound"])
    usual = pl.col("window") == most_run(table)
    closed = wind.filter((pl.col("pools") == POOLS) & usual & named)
    parts = {
        "runs": runs(table),
        "supply": supply(closed),
        "order": order_matters(wind.filter(usual & (pl.col("pools") != ONE_READY))),
        "noise": noise(wind.filter(usual)),
        "checked": checked(wind.filter(usual)),
        "unused": unused(table.filter(usual & named)),
        "levels": levels(table.filter(usual)),
        "results": results(closed),
        "bound": bound(closed),
        "whole": longer(wind.filter((pl.col("pools") == POOLS) & ~usual)),
    }
    page = folder / "power-modulated.md"
    old = page.read_text("utf-8")
    page.write_text(_PART.sub(lambda m: f"{m[1]}\n{parts[m[2]]}\n\n{m[3]}", old), "utf-8")
    summary(table).write_csv(folder / "power-modulated.csv", float_precision=4)
    draw(closed, folder / "power-modulated.svg")


def most_run(table: pl.DataFrame) -> str:
    """Return the window that most runs have; tables of means have no other."""
    return str(table["window"].value_counts(sort=True)["window"][0])


def frame(rows: list[Row]) -> pl.DataFrame:
    """Return the rows with numbers for text; an empty cell is null."""
    numbers = ("seed", "rate", "units", *MEASURES, "seconds")
    texts = pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String))
    return texts.with_columns(
        pl.col(name).replace("", None).cast(pl.Float64) for name in numbers
    ).with_columns(pl.col("seed", "rate", "units").cast(pl.Int64))


def summary(table: pl.DataFrame) -> pl.DataFrame:
    """Return a row a policy and cell of the design: mean over seeds, and half of an interval."""
    groups = [*CELL[1:], "policy"]
    means = [pl.col(name).mean() for name in MEASURES]
    halves = [pl.col(name).map_batches(_half, return_dtype=pl.Float64, returns_scalar=True)
              .alias(f"{name}_pm") for name in MEASURES[2:]]  # fmt: skip
    found = table.group_by(groups).agg(pl.len().alias("seeds"), *means, *halves)
    return found.sort(groups)


def _half(values: pl.Series) -> float | None:
    """Return half the width of the 95 % interval of a mean over seeds."""
    found = seed_interval(values.drop_nulls().to_numpy())
    if found.low is None or found.high is None:
        return None
    return (found.high - found.low) / 2


# ---- tables --------------------------------------------------------------------------------------


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * left + "---:|" * (len(head) - left)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _number(value: Any, digits: int) -> str:
    return "–" if value is None or value != value else f"{value:,.{digits}f}"


def runs(table: pl.DataFrame) -> str:
    """Say what was run."""
    played = table.filter(pl.col("policy") != "bound")
    hours = played["seconds"].sum() / 3600
    logs = played.group_by("log", "window", "pools").agg(
        pl.col("seed").n_unique().alias("seeds"), pl.len().alias("runs"), pl.col("jobs").mean()
    )
    commits = ", ".join(f"`{name}`" for name in sorted(set(played["commit"].to_list())))
    lines = [f"{len(played):,} runs, {hours:.1f} hours of processor time, at {commits}.", ""]
    rows = [
        (setting.LOGS[row["log"]].title, row["pools"], row["window"], f"{row['jobs']:,.0f}",
         str(row["seeds"]), f"{row['runs']:,}")
        for row in logs.sort("log", "pools", "window").to_dicts()
    ]  # fmt: skip
    lines.append(_markdown(("jobs of", "pools", "window", "jobs", "seeds", "runs"), rows, 2))
    return "\n".join(lines)


def supply(table: pl.DataFrame) -> str:
    """Return which share of the pool had power while jobs arrived."""
    found = table.group_by("power", "battery").agg(
        pl.col("available").mean(), pl.col("available").min().alias("least"),
        pl.col("available").max().alias("most"), pl.col("seed").n_unique().alias("seeds"),
    ).sort("power", "battery")  # fmt: skip
    rows = [
        (row["power"], row["battery"],
         *(_number(row[name], 3) for name in ("available", "least", "most")), str(row["seeds"]))
        for row in found.to_dicts()
    ]  # fmt: skip
    return _markdown(("place", "battery", "mean", "lowest run", "highest run", "seeds"), rows, 2)


def _by_seed(table: pl.DataFrame, measure: str, names: Sequence[str]) -> dict[str, Floats]:
    """Return a measure of some policies a seed, over the cells that all of them have."""
    wide = table.filter(pl.col("policy").is_in(names)).pivot(
        on="policy", index=list(CELL), values=measure
    )
    if not set(names) <= set(wide.columns):
        return {name: np.empty(0) for name in names}
    means = wide.drop_nulls(list(names)).group_by("seed").agg(pl.col(names).mean()).sort("seed")
    return {name: means[name].to_numpy() for name in names}


def _interval(differences: Floats) -> tuple[str, str]:
    """Return the mean in points with its interval, and what follows for "above"."""
    if not len(differences):
        return "–", "–"
    found = seed_interval(100 * differences)
    mean = f"{100 * differences.mean():+.1f}"
    if found.low is None or found.high is None:
        return f"{mean} (1 seed)", "–"
    verdict = "undecided"
    if found.low > 0:
        verdict = "confirmed"
    elif found.high < 0:
        verdict = "refuted"
    return f"{mean} ({found.low:+.1f} to {found.high:+.1f})", verdict


def order_matters(table: pl.DataFrame) -> str:
    """Return by how much QoS and SJF are above FCFS and HVF in value."""
    rows = []
    for pools, log in table.select("pools", "log").unique().sort("pools", "log").iter_rows():
        part = table.filter(
            (pl.col("pools") == pools) & (pl.col("log") == log) & (pl.col("rate") >= HIGH)
        )
        cells = []
        for one, other in HIGHER:
            values = _by_seed(part, "value_ratio", (one, other))
            cells.append(": ".join(reversed(_interval(values[one] - values[other]))))
        seeds = part["seed"].n_unique()
        rows.append((pools, setting.LOGS[log].title, *cells, str(seeds)))
    return _markdown(("pools", "jobs of", *(f"{a} − {b}" for a, b in HIGHER), "seeds"), rows, 2)


def noise(table: pl.DataFrame) -> str:
    """Return by how much orders differ in value where an order has nothing to choose."""
    alone = table.filter(pl.col("pools") == ONE_READY)
    rows = []
    for log in setting.LOGS:
        for ending, victims in list(VARIANTS.items())[:2]:
            names = [f"{name}{ending}" for name in setting.ORDERS]
            part = alone.filter((pl.col("log") == log) & pl.col("policy").is_in(names))
            if part.is_empty():
                continue
            worth = pl.col("value_ratio") * 100
            cells = part.group_by(CELL).agg(spread=worth.max() - worth.min())
            seeds = part.group_by("seed", "policy").agg(worth.mean())
            spread = pl.col("value_ratio").max() - pl.col("value_ratio").min()
            of_seeds = seeds.group_by("seed").agg(spread=spread)
            rows.append((setting.LOGS[log].title, victims, f"{cells['spread'].mean():.1f}",
                         f"{cells['spread'].max():.1f}", f"{of_seeds['spread'].max():.1f}",
                         str(len(of_seeds))))  # fmt: skip
    head = ("jobs of", "victims", "mean of runs", "largest of runs", "largest of seeds", "seeds")
    return _markdown(head, rows, 2)


def checked(table: pl.DataFrame) -> str:
    """Return the differences between orders with common victims, and with algorithm 2."""
    rows = []
    endings = [ending for ending in VARIANTS if ending]
    cells = table.filter(pl.col("policy").str.ends_with(endings[-1])).select(CELL).unique()
    there = table.join(cells, on=CELL)
    for log in setting.LOGS:
        part = there.filter(pl.col("log") == log)
        if part.is_empty():
            continue
        for ending, title in VARIANTS.items():
            found = []
            for one, other in HIGHER:
                names = (f"{one}{ending}", f"{other}{ending}")
                values = _by_seed(part, "value_ratio", names)
                found.append(_interval(values[names[0]] - values[names[1]])[0])
            mean = part.filter(pl.col("policy") == f"QoS{ending}")["value_ratio"].mean()
            seeds = part["seed"].n_unique()
            rows.append((setting.LOGS[log].title, title, _number(mean, 3), *found, str(seeds)))
    head = ("jobs of", "victims", "QoS", *(f"{a} − {b}" for a, b in HIGHER), "seeds")
    return _markdown(head, rows, 2)


def unused(table: pl.DataFrame) -> str:
    """Return what is unused of what has power at 120 %, and while jobs wait."""
    part = table.filter(
        (pl.col("rate") == 120) & (pl.col("pools") == POOLS) & (pl.col("policy") != "bound")
    )
    measures, rows = ("utilisation_processors", "held_while_waiting"), []
    for log, constant in (
        part.select("log", pl.col("power").is_in(list(setting.LEVELS)).alias("constant"))
        .unique()
        .sort("log", "constant")
        .iter_rows()
    ):
        kinds = ["100%"] if constant else list(setting.PLACES)
        chosen = part.filter((pl.col("log") == log) & pl.col("power").is_in(kinds))
        means = chosen.group_by("seed").agg(pl.col(*measures).mean()).sort("seed")
        cells = [_interval(1 - means[name].to_numpy())[0]
                 for name in measures]  # fmt: skip
        verdict = _interval(1 - means["utilisation_processors"].to_numpy())[1]
        power = "constant, 100 %" if constant else "sun and wind"
        rows.append((setting.LOGS[log].title, power, *cells, verdict, str(len(means))))
    head = ("jobs of", "power", "unused, points", "unused while jobs wait", "below 100 %", "seeds")
    return _markdown(head, rows, 2)


def levels(table: pl.DataFrame) -> str:
    """Return the value at the levels of power, and the differences."""
    part = table.filter(pl.col("power").is_in(list(setting.LEVELS)) & (pl.col("rate") == 100))
    rows = []
    for policy in setting.POLICIES:
        own = part.filter(pl.col("policy") == policy)
        values = {name: own.filter(pl.col("power") == name).sort("seed") for name in setting.LEVELS}
        if any(value.is_empty() for value in values.values()):
            continue
        cells = [_number(value["value_ratio"].mean(), 3) for value in values.values()]
        for more, less in pairwise(setting.LEVELS):
            both = values[more].join(values[less], on="seed", suffix="_less").sort("seed")
            found = (both["value_ratio"] - both["value_ratio_less"]).to_numpy()
            cells.append(": ".join(reversed(_interval(found))))
        rows.append((policy, *cells, str(len(values["100%"]))))
    head = ("policy", *setting.LEVELS, *(f"{a} − {b}" for a, b in pairwise(setting.LEVELS)))
    return _markdown((*head, "seeds"), rows)


def results(table: pl.DataFrame) -> str:
    """Return value, completion, utilisation and cost by policy and rate, a table a log."""
    texts = []
    rates = sorted(set(table["rate"].to_list()))
    for log in setting.LOGS:
        part = table.filter(pl.col("log") == log)
        if part.is_empty():
            continue
        texts.append(
            f"**{setting.LOGS[log].title}** ({counted(part['seed'].n_unique(), 'seed')})\n"
        )
        rows = []
        for name, title in PANELS.items():
            for policy in setting.POLICIES:
                own = part.filter(pl.col("policy") == policy).group_by("rate").agg(
                    pl.col(name).mean())  # fmt: skip
                known = dict(own.drop_nulls().iter_rows())
                if known:
                    digits = 0 if name == "delay_h" else 3
                    rows.append((title, policy, *(_number(known.get(r), digits) for r in rates)))
        texts.append(_markdown(("measure", "policy", *(f"{r} %" for r in rates)), rows, 2) + "\n")
    return "\n".join(texts).rstrip()


def bound(table: pl.DataFrame) -> str:
    """Return how near the best policy of each log and rate comes to what none exceeds."""
    alone = table.filter(pl.col("battery") == "no")
    most = alone.filter(pl.col("policy") == "bound")
    best = (
        alone.filter(pl.col("policy") != "bound").group_by(CELL).agg(best=pl.col("job_value").max())
    )
    shares = most.join(best, on=CELL).group_by("log", "rate").agg(
        (pl.col("best") / pl.col("job_value")).mean())  # fmt: skip
    rates = sorted(set(shares["rate"].to_list()))
    rows = []
    for log in setting.LOGS:
        known = dict(shares.filter(pl.col("log") == log).select("rate", "best").iter_rows())
        if known:
            rows.append((setting.LOGS[log].title, *(_number(known.get(r), 3) for r in rates)))
    return _markdown(("best policy / bound", *(f"{r} %" for r in rates)), rows)


def longer(table: pl.DataFrame) -> str:
    """Return the results of whole logs and of other windows than the usual one, each by itself."""
    names = (*PANELS, "rejected")
    rows = [
        (setting.LOGS[row["log"]].title, row["policy"], f"{row['jobs']:,.0f}", f"{row['rate']} %",
         row["battery"],
         *(_number(row[name], 0 if name == "delay_h" else 3) for name in names))
        for row in table.filter(pl.col("policy") != "bound")
        .sort("log", "jobs", "power", "battery", "rate", "seed", "policy").to_dicts()
    ]  # fmt: skip
    head = ("jobs of", "policy", "jobs", "rate", "battery", *PANELS.values(), "rejected")
    return _markdown(head, rows, 2) if rows else "Not run yet."


# ---- pictures ------------------------------------------------------------------------------------


def draw(table: pl.DataFrame, target: Path) -> None:
    """Draw the four measures over the rate: a row a log, a line a policy."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: Any = {"svg.hashsalt": "simkit", "svg.fonttype": "none", "axes.grid": True,
             "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#e4e7eb",
             "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"],
             "font.size": 8.5}  # fmt: skip
    logs = [log for log in setting.LOGS if not table.filter(pl.col("log") == log).is_empty()]
    with mpl.rc_context(style):
        figure = Figure(figsize=(10.4, 2.4 * len(logs) + 0.5), layout="constrained")
        axes = figure.subplots(len(logs), len(PANELS), squeeze=False, sharex=True)
        for row, log in enumerate(logs):
            part = table.filter(pl.col("log") == log)
            for column, (name, title) in enumerate(PANELS.items()):
                _lines(axes[row, column], part, name)
                if row == 0:
                    axes[row, column].set_title(title)
            axes[row, 0].set_ylabel(setting.LOGS[log].title)
        for column in range(len(PANELS)):
            axes[-1, column].set_xlabel("arrival rate, %")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        figure.savefig(target, metadata={"Date": None})


def _lines(axes: Any, part: pl.DataFrame, measure: str) -> None:
    for number, policy in enumerate(setting.POLICIES):
        own = part.filter(pl.col("policy") == policy).group_by("rate").agg(
            pl.col(measure).mean()).sort("rate")  # fmt: skip
        dash = "-" if number < 4 else "--" if number < 6 else ":"
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(own["rate"], own[measure], dash, color=colour, label=policy, linewidth=1.3)
    axes.set_ylim(bottom=0)
