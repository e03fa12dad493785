"""The page of `simkit reproduce rare`: the effects of order, packing and agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from simkit.analysis.plot_style import COLOURS, save_picture
from simkit.learners.actor_critic import ActorCriticArguments
from simkit.learners.ppo import PPOArguments
from simkit.learners.recipes import cocorl, rare
from simkit.learners.reproductions.common import list_versions, markdown_table
from simkit.learners.reproductions.green.circumstances import Power
from simkit.learners.reproductions.green.judge import Gap, column, gap, mean, paired, threshold_of
from simkit.learners.reproductions.green.rare.claims import (
    ORDERS,
    claims,
    names_of,
    within_12_h,
)
from simkit.learners.reproductions.green.studies import TRAINED_SIZES, Size, printed
from simkit.learners.studies.study import empty_figure
from simkit.text import counted
from simkit.training import Workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST_GAIN: Final = 3.0
"""Points over the order by quality of service that an agent must reach where late jobs leave."""
SURE_GAIN: Final = 2.0
"""The least lower bound of that gain."""
MOST_BELOW: Final = 0.5
"""The most points by which the agent may be below fit12 where no job leaves."""
PARAGRAPH: Final = "\n\n"


@dataclass(frozen=True)
class Results:
    """The content of the page; tables are as `judge.judged` returns them."""

    size: Size
    as_printed: Mapping[Power, pl.DataFrame]
    by_size: Mapping[int, pl.DataFrame]
    by_power: Mapping[Power, pl.DataFrame]
    by_pool: Mapping[int, pl.DataFrame]
    leave: pl.DataFrame
    pool: pl.DataFrame
    """Results with a ready pool of 5, at 100 %."""
    elsewhere: Mapping[str, pl.DataFrame]
    sizes: Mapping[int, pl.DataFrame]
    thetas: Mapping[str, float]
    """Places in the ready pool → threshold chosen on tuning streams."""
    bounds: Mapping[str, float]
    """``stay`` or ``leave``, for late jobs → upper bound of the value ratio."""
    forecasts: pl.DataFrame
    trainings: int
    minutes: float
    """Wall time of all trainings, one after another."""
    commit: str


def write_page(place: Workplace, results: Results) -> Path:
    """Write rare.md, rare.svg and rare.csv; return the page."""
    save_picture(place.pages / "rare.svg", lambda: _picture(results))
    _table(results).write_csv(place.pages / "rare.csv", float_precision=5)
    parts = [
        _head(place), _printed(results), _leaving(results), _sizes(results), _forecasts(results),
        _claims(results), _setting(results),
    ]  # fmt: skip
    page = place.pages / "rare.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _table(results: Results) -> pl.DataFrame:
    """Return the means of all results over streams."""
    groups: dict[str, pl.DataFrame] = {
        **{f"as printed, {power}": table for power, table in results.as_printed.items()},
        **{f"as printed, {units} units": table for units, table in results.by_size.items()},
        **{f"as printed, power {power}": table for power, table in results.by_power.items()},
        **{f"as printed, ready pool {ready}": table for ready, table in results.by_pool.items()},
        "leave": results.leave, "leave, ready pool 5, 100 %": results.pool,
        **{f"leave, {name}": table for name, table in results.elsewhere.items()},
        **{f"leave, {units} units": table for units, table in results.sizes.items()},
    }  # fmt: skip
    return pl.concat(
        table.group_by("candidate", maintain_order=True)
        .agg(pl.col("value", "cost", "completed", "utilisation").mean())
        .select(pl.lit(name).alias("where"), pl.all())
        for name, table in groups.items()
    )


def _head(place: Workplace) -> str:
    size = " --quick" if place.quick else ""
    note = (
        "\n\n**This is the quick version**: few iterations, few and short streams. Its numbers mean nothing."
        if place.quick
        else ""
    )
    return f"""# RARE (2022)

**Question.** Does an agent earn more than simple rules on a pool of processors and GPUs that its power limits, as chapter 5 of V. Venkataswamy's
dissertation (University of Virginia, 2023) says?

`simkit reproduce rare{size}` does everything and writes this page, its picture and its table [rare.csv](rare.csv); an interrupted run goes on. The
dissertation has neither code nor data; what it leaves open is stated under *Setting*. All numbers are points: hundredths of the value ratio, the value
of the jobs that ended by the end of a stream over the value of all that came. Differences are paired by stream of jobs, with intervals of 95 %.{note}"""


# --- as printed -----------------------------------------------------------------------------------


def _printed(results: Results) -> str:
    parts = []
    for power, table in results.as_printed.items():
        rules = [*list(ORDERS)[1:], *map(within_12_h, ORDERS), "value-density", "fit0", "fit12"]
        rows: list[Sequence[str]] = [
            ("", "value", "to FCFS", "to fit12"),
            ("FCFS", f"{100 * mean(table, 'fcfs'):.2f}", "", str(gap(table, "fcfs", "fit12"))),
        ]
        for name in (*rules, *_agents(table, f"printed-{power}")):
            to_fit12 = "" if name == "fit12" else str(gap(table, name, "fit12"))
            rows.append(
                (
                    _label(name),
                    f"{100 * mean(table, name):.2f}",
                    str(gap(table, name, "fcfs")),
                    to_fit12,
                )
            )
        where = "With all of its power" if power == "full" else "On wind and sun alone"
        parts.append(f"### {where}\n\n{markdown_table(rows)}\n\n{_effects(table)}")
    met = [
        gap(table, name, "fit12").value >= -MOST_BELOW
        for power, table in results.as_printed.items()
        for name in _agents(table, f"printed-{power}")
    ]
    return f"""## As printed: nobody leaves

10 processors and 10 GPUs, 100 % load, a ready pool of 5 and a wait pool of 144. The dissertation's heuristics place a job as early as it fits within the
horizon of 48 hours; for comparison they were also judged with a horizon of 12 hours, which all others have. *HVF* takes the highest value first. *fit12*
takes the job beside which least is left over as it starts: the free shares of both resources, added up, plus 0.05 for each hour until the start, which is
at most 12 hours away. *fit0* is the same for jobs that start now. The agent is RARE with the set encoder: for {_share_of_clones(results)} of its iterations fit12 plays and
the agent only imitates, then it plays itself.

{PARAGRAPH.join(parts)}

No schedule exceeds {100 * results.bounds["stay"]:.1f} points with all of the power (a linear programme, means of ten streams). **{_counted_bars(met)} at most {MOST_BELOW}
points below fit12.**"""


def _counted_bars(met: Sequence[bool]) -> str:
    """Return how many agents meet a bar; each has likeliest and drawn actions."""
    return f"Of {len(met) // 2} agents, each with likeliest and with drawn actions, {sum(met)} of {len(met)} are"


def _effects(table: pl.DataFrame) -> str:
    """Return the effects of order and of packing in one of the tables."""
    near = within_12_h("fcfs")
    orders, near_orders = order_effect(table, ORDERS), order_effect(table, map(within_12_h, ORDERS))
    rules = [*ORDERS, *map(within_12_h, ORDERS), "value-density", "fit0"]
    above = [_label(name) for name in rules if gap(table, name, "fit12").low > 0]
    surely = f"Surely above fit12: {', '.join(above)}." if above else "No rule is surely above it."
    return f"""**Order**: from the worst heuristic to the best it is {orders} points with a horizon of 48 hours, and {near_orders} with 12. **Packing**: fit12 is
{gap(table, "fit12", "fcfs")} points above FCFS; of that, {gap(table, near, "fcfs")} is the shorter horizon, and {gap(table, "fit12", near)} the choice
of the job. {surely}"""


def order_effect(table: pl.DataFrame, orders: Iterable[str]) -> Gap:
    """Return how far the best of some orders is above the worst, in points."""
    ranked = sorted(orders, key=lambda name: mean(table, name))
    return gap(table, ranked[-1], ranked[0])


# --- late jobs leave ------------------------------------------------------------------------------


def _leaving(results: Results) -> str:
    table, theta = results.leave, threshold_of(results.thetas["15"])
    rows: list[Sequence[str]] = [("", "value", "to QoS", f"to {theta}", "bars")]
    rules = ["fcfs", "sjf", "value", "value-density", "fit0", "fit12"]
    rows += [(*_gaps(table, name, theta), "") for name in ("qos", *rules, theta)]
    met = 0
    for name in _agents(table):
        good = meets(gap(table, name, "qos"), gap(table, name, theta))
        met += good
        rows.append((*_gaps(table, name, theta), "met" if good else "missed"))
    pool_theta = threshold_of(results.thetas["5"])
    pool_rows: list[Sequence[str]] = [("", "value", "to QoS", f"to {pool_theta}")]
    for name in ("qos", *rules, pool_theta, *_agents(results.pool, "ppo-pool5")):
        pool_rows.append(_gaps(results.pool, name, pool_theta))
    other: list[Sequence[str]] = [("", *results.elsewhere)]
    for name in (theta, *_agents(table)):
        cells = [str(gap(found, name, "qos")) for found in results.elsewhere.values()]
        other.append((_label(name), *cells))
    return f"""## Late jobs leave

A job that can no longer end in time leaves, and jobs start now or wait, except with fit12, which plans 12 hours ahead: 120 % load, a ready pool of 15.
*Threshold* places the job of the highest quality of service, of at least θ; θ is {results.thetas["15"]:.2f}, chosen among 0, 0.05 … 0.5 on other streams of these circumstances,
and kept for other power and other sizes. The bars: at least {LEAST_GAIN:.0f} points above QoS with a lower bound above {SURE_GAIN:.0f}, and surely above the
threshold rule.

{markdown_table(rows)}

**Of {len(_agents(table)) // 2} agents, each with likeliest and with drawn actions, {met} of {len(_agents(table))} meet both bars.** No schedule exceeds {100 * results.bounds["leave"]:.1f} points.

With a ready pool of 5 at 100 % there is less to choose from; θ was chosen likewise:

{markdown_table(pool_rows)}

Where the agents were not trained, to QoS:

{markdown_table(other)}"""


def meets(to_qos: Gap, to_threshold: Gap) -> bool:
    """Return whether an agent meets both bars."""
    return to_qos.value >= LEAST_GAIN and to_qos.low > SURE_GAIN and to_threshold.low > 0.0


def _agents(table: pl.DataFrame, *kinds: str) -> list[str]:
    """Return the agents of some kinds, by default of PPO and RARE; drawn actions come last."""
    return [
        name
        for kind in kinds or ("ppo", "rare")
        for drawn in (False, True)
        for name in names_of(table, kind, drawn=drawn)
    ]


def _gaps(table: pl.DataFrame, name: str, theta: str) -> tuple[str, ...]:
    to_qos = "" if name == "qos" else str(gap(table, name, "qos"))
    to_theta = "" if name == theta else str(gap(table, name, theta))
    return _label(name), f"{100 * mean(table, name):.2f}", to_qos, to_theta


# --- sizes and forecasts --------------------------------------------------------------------------


def _sizes(results: Results) -> str:
    rows: list[Sequence[str]] = [
        ("units", "QoS", "fit12", "agent", "to QoS", "to fit12", "to the threshold")
    ]
    theta = threshold_of(results.thetas["15"])
    surely, larger = 0, [units for units in results.sizes if units > max(TRAINED_SIZES)]
    for units, table in results.sizes.items():
        name = names_of(table, "sizes", drawn=False)[0]
        gaps = [gap(table, name, rule) for rule in ("qos", "fit12", theta)]
        surely += units in larger and gaps[0].low > 0 and gaps[1].low > 0
        means = [f"{100 * mean(table, each):.2f}" for each in ("qos", "fit12", name)]
        rows.append((str(units), *means, *map(str, gaps)))
    return f"""## One agent for pools of any size

The dissertation's image of the pool grows with it (its section 8.2.1), and so each size needs an agent of its own. A set of jobs, told in shares of the
pool, does not: PPO was trained on pools of {_listed(TRAINED_SIZES)} units side by side, and judged, greedily, on others as well.

{markdown_table(rows)}

**On {surely} of the {len(larger)} larger sizes, which it never saw, the agent is surely above both QoS and fit12.**

![Value over the size of the pool](rare.svg)

Left: as printed, the orders with a horizon of 48 hours and the agent trained on 10 units. Right: where late jobs leave, everyone but fit12 starting jobs now, and the agent of several
sizes."""


def _forecasts(results: Results) -> str:
    table = results.forecasts
    agent = next(name for name in table["candidate"].unique(maintain_order=True) if "seed" in name)
    rows: list[Sequence[str]] = [("forecast", "QoS", "fit0", "agent", "agent to QoS")]
    for name in table["forecast"].unique(maintain_order=True):
        here = table.filter(forecast=name)
        means = [f"{100 * mean(here, each):.2f}" for each in ("qos", "fit0", agent)]
        rows.append((name, *means, str(gap(here, agent, "qos"))))
    noisy, sure = (
        {each: column(table.filter(forecast=name), each) for each in ("qos", agent)}
        for name in ("noisy", "perfect")
    )
    lost = paired(noisy[agent] - sure[agent], noisy["qos"] - sure["qos"])
    return f"""## Forecasts with error

PPO's agent of the first seed, which was trained with all of the power, in the event-by-event simulation on wind and sun, at 60 % load, {table["stream"].n_unique()} streams of
{min(results.size.hours, 500)} hours. The forecast that it sees is the truth, or has an error that grows to a fifth of it within hours; running jobs that lose their power are
suspended. Rules place jobs by the same forecast.

{markdown_table(rows)}

From the perfect to the noisy forecast the agent gains {paired(noisy[agent], sure[agent])} points and QoS {paired(noisy["qos"], sure["qos"])}. The difference is {lost}: {_difference(lost)}."""


def _difference(lost: Gap) -> str:
    if lost.low <= 0.0 <= lost.high:
        return "no sure difference"
    return "the agent gains more" if lost.low > 0 else "the agent gains less"


# --- claims and setting ---------------------------------------------------------------------------


def _claims(results: Results) -> str:
    found = claims(results.by_size, results.by_power, results.by_pool)
    rows: list[Sequence[str]] = [
        ("figure", "the dissertation", "here", "beside heuristics within 12 h", ""),
        *(claim.row for claim in found),
    ]
    return f"""## Claims

RARE as printed, seed 0 with likeliest actions, trained on 10 units and judged elsewhere with its set encoder, in percent of the best of the heuristics
that a claim names. They plan for 48 hours; beside them stands the same for those that plan for 12, as the agent does. A claim is confirmed if the agent is
surely better than each of them at 48 hours, by at least the least number of the claim, everywhere.

{markdown_table(rows)}"""


def _share_of_clones(results: Results) -> str:
    task = printed(results.size, "full", 0)
    return f"{100 * int(task.arguments['warm_up']) / task.iterations:.0f} %"


def _setting(results: Results) -> str:
    size, used = results.size, ActorCriticArguments(**rare.defaults)
    ppo = PPOArguments.model_validate(cocorl.defaults)
    patient = printed(size, "full", 0).arguments["discount"]
    return f"""## Setting

- **Jobs**: `workload.type: rare`; the load is made exact, as an arrival rate of one job a step would be 296 %. Values, qualities of service and the time
  until they are violated are the dissertation's. Streams of {size.hours:,} hours, {size.streams} that judge, {size.tuning} on which θ was chosen; held-out streams of the trainings are
  others.
- **Power**: with *90 %* of it there is 90 % of the power in 90 % of the hours, at random, and all of it in the others; with *80 %* likewise. *Wind and sun* are hourly means of the
  generated year of a site like GLEAMM, with a mean of 0.9 of the pool's power; agents were trained on its weather from January on, and judged from July on. All streams share that weather: intervals are over jobs, not over weather. Forecasts are perfect unless said otherwise. The pool has no battery.
- **Time** stands still while jobs are placed. The dissertation's algorithm 2 lets it pass with each action; not tested here.
- **Reward**: a job's value as it is placed, as so much for each hour that it will run; the tables show the value of jobs that have ended.
- **RARE**: {counted(size.seeds, "training")} each, batches of {used.batch} (printed: 1,024), {used.hidden} hidden units (512), learning rate {used.learning_rate:g} (0.0001),
  {used.updates * size.iterations(60):,} updates; a discount of {used.discount:g} an hour where late jobs leave, and {patient:g} where nobody does (0.99 a step). Where late jobs leave it begins without imitation
  (printed: 20,000 updates of it). A set encoder was used, not that over images of table A.5.
- **PPO** is [`cocorl`](../reference/learners.md#cocorl) without a limit: 150 iterations of {size.games} games with 48 decisions each, {ppo.hidden} hidden units, learning rate {ppo.learning_rate:g}, a discount of
  {ppo.discount:g} and λ of {ppo.decay:g} an hour, an entropy weight of {ppo.entropy:g} that falls.
- **Time**: {results.minutes:.0f} minutes for all {results.trainings} trainings, one after another.
- The page was made at commit {results.commit}; {list_versions()}."""


def _label(name: str) -> str:
    known = {**ORDERS, **{within_12_h(one): within_12_h(label) for one, label in ORDERS.items()}}
    if name in known:
        return known[name]
    kind, mark, rest = name.partition("-seed")
    if not mark:
        return name
    title = "PPO" if kind.startswith("ppo") else "RARE" if kind != "sizes" else "PPO, several sizes"
    return f"{title}, seed {rest}"


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _picture(results: Results) -> Figure:
    """Draw the value over the size of the pool: as printed, and where late jobs leave."""
    figure = empty_figure()
    left, right = figure.subplots(1, 2)
    lines = {"fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "fit12": "fit12"}
    for axes, tables, kind, title in (
        (left, results.by_size, "printed-full", "as printed, 100 %"),
        (right, results.sizes, "sizes", "late jobs leave, 120 %"),
    ):
        units = np.array(list(tables))
        shown = (
            lines if axes is left else {**lines, threshold_of(results.thetas["15"]): "threshold"}
        )
        colours = [*COLOURS[:4], COLOURS[5]]
        for colour, (name, label) in zip(colours, shown.items(), strict=False):
            points = [100 * mean(table, name) for table in tables.values()]
            axes.plot(units, points, color=colour, label=label, linewidth=1.2, marker="o", ms=3)
        points = [
            100 * mean(table, names_of(table, kind, drawn=False)[0]) for table in tables.values()
        ]
        axes.plot(units, points, color=COLOURS[4], label="agent", linewidth=1.6, marker="s", ms=3.5)
        axes.set(xlabel="units of each resource", xscale="log")
        axes.set_xticks(units, labels=[f"{each:,}" for each in units])
        axes.minorticks_off()
        axes.set_title(title, fontsize=9.5)
    left.set_ylabel("value ratio, points")
    right.legend(fontsize=8)
    return figure
