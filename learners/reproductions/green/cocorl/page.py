"""The page of `simkit reproduce cocorl`: cost and value of limited agents, and the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.learners.ppo import PPOArguments
from simkit.learners.recipes import cocorl
from simkit.learners.reproductions.common import list_versions, markdown_table
from simkit.learners.reproductions.green.cocorl.claims import NOT_TESTED, PAR, claims, points
from simkit.learners.reproductions.green.cocorl.equal_cost import (
    at_equal_cost,
    gap_at_equal_cost,
    ratio,
)
from simkit.learners.reproductions.green.cocorl.pictures import PANELS, draw_pictures
from simkit.learners.reproductions.green.cocorl.runs import (
    HALF,
    LOADS,
    RULES,
    SLOW,
    Results,
)
from simkit.learners.reproductions.green.judge import THRESHOLDS, gap, mean, threshold_of
from simkit.learners.reproductions.green.studies import LATE_LEAVE
from simkit.learners.reproductions.green.trainings import Task, drawn, named
from simkit.text import counted
from simkit.training import Workplace

__all__ = ["MARGIN", "meets_bar", "write_page"]

MARGIN: Final = -0.5
"""Points: the lower bound of a limited agent's gap to the rule of equal cost must be above it."""
_ACTIONS: Final = ("likeliest", "drawn")
_FIGURES: Final = {"value": "6.4", "completed": "6.5", "utilisation": "6.6", "cost": "6.7"}


def write_page(place: Workplace, results: Results) -> Path:
    """Write cocorl.md, its pictures and its table; return the page."""
    draw_pictures(place.pages, results)
    _means(results).write_csv(place.pages / "cocorl.csv", float_precision=5)
    parts = [
        _head(place), _result(results), _all_agents(results), _frontier(results), _reject(results),
        _gains(results), _over_loads(results), _claims(results), _setting(results),
    ]  # fmt: skip
    page = place.pages / "cocorl.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _means(results: Results) -> pl.DataFrame:
    """Return the mean of all columns over streams, a row for each candidate and load."""
    table = results.judged.with_columns(load=pl.lit(LOADS[-1]))
    both = pl.concat([table, results.loads.filter(pl.col("load") != LOADS[-1])])
    grouped = both.group_by("load", "candidate", maintain_order=True)
    return grouped.agg(pl.col(*PANELS).mean())


def _head(place: Workplace) -> str:
    size = " --quick" if place.quick else ""
    note = (
        "\n\n**This is the quick version**: one seed, few iterations, few and short streams. It shows the steps; its numbers decide nothing."
        if place.quick
        else ""
    )
    return f"""# CoCoRL (2023)

**Question.** Does a limit on the cost of a learned scheduler of a green datacenter hold, what is the value that it takes, and is the agent
better than simple rules, as chapter 6 of the dissertation on power-modulated datacenters (University of Virginia, 2023) says?

`simkit reproduce cocorl{size}` trains and judges everything and writes this page, its pictures and its table
([cocorl.csv](cocorl.csv)); an interrupted run goes on. The dissertation has no public code; what it leaves open is
stated under *Setting*.{note}"""


# --- the limit ------------------------------------------------------------------------------------


def meets_bar(results: Results, task: Task, actions: str) -> bool:
    """Return whether an agent costs at most half of the free one's and keeps its value.

    Its value may not be below the threshold rule of equal cost by more than `MARGIN`.
    """
    return _is_cheap(results, task, actions) and _is_good(results, task, actions)


def _is_cheap(results: Results, task: Task, actions: str) -> bool:
    free = named(results.plan.unlimited(task), actions)
    return ratio(results.judged, named(task, actions), free, "cost").value <= HALF


def _is_good(results: Results, task: Task, actions: str) -> bool:
    return gap_at_equal_cost(results.judged, named(task, actions)).low > MARGIN


def _result(results: Results) -> str:
    rows: list[Sequence[str]] = [("seed", "actions", "cost", "of the free agent's", "value ratio, %",
             "beside the threshold rule of equal cost", "its θ", "bar met")]  # fmt: skip
    for task in results.plan.half:
        for actions in _ACTIONS:
            met = "yes" if meets_bar(results, task, actions) else "no"
            rows.append((str(task.seed), actions, *_cells(results, task, actions), met))
    return f"""## Result

A limit of half of what the agent without a limit costs, seed by seed, with no action to reject jobs; on
{counted(results.size.streams, "stream")} of {results.size.hours:,} h that nobody was trained on, all jobs counted. The bar: at most half of the cost of the free agent of the same
seed that takes its actions in the same way, and a value whose lower bound is more than {MARGIN} points from that of the threshold rule of equal cost.

{markdown_table(rows)}

{_verdict(results)}"""


def _cells(results: Results, task: Task, actions: str) -> tuple[str, ...]:
    """Return cost, its share, value, gap and θ of an agent."""
    table, name = results.judged, named(task, actions)
    cost = mean(table, name, "cost")
    free = named(results.plan.unlimited(task), actions)
    share = "" if free == name else str(ratio(table, name, free, "cost"))
    return (
        f"{cost:.2f}", share, f"{100 * mean(table, name):.2f}",
        points(gap_at_equal_cost(table, name)), at_equal_cost(table, cost).words,
    )  # fmt: skip


def _verdict(results: Results) -> str:
    """Return in words how often the bar is met, and how much value the limit costs."""
    sentences = []
    for actions in _ACTIONS:
        met, cheap, good = (
            _count([test(results, task, actions) for task in results.plan.half])
            for test in (meets_bar, _is_cheap, _is_good)
        )
        sentences.append(
            f"With {actions} actions the bar is met by {met} trainings (at most half of the cost: {cheap}; "
            f"value within the margin: {good})."
        )
    lost = [_lost_value(results, actions) for actions in _ACTIONS]
    return f"**{' '.join(sentences)}** {' '.join(lost)}"


def _lost_value(results: Results, actions: str) -> str:
    """Return how much value the limit costs, in words."""
    gaps = [
        gap(results.judged, named(task, actions), named(results.plan.unlimited(task), actions))
        for task in results.plan.half
    ]
    by_seed = "; ".join(map(points, gaps))
    return f"Its value less that of the free agent, seed by seed, with {actions} actions: {by_seed} points."


def _count(flags: Sequence[bool]) -> str:
    """Return how many are true: ``2 of 3``."""
    return f"{sum(flags)} of {len(flags)}"


def _all_agents(results: Results) -> str:
    plan, table = results.plan, results.judged
    rows: list[Sequence[str]] = [("limit", "seed", "actions", "limit, jobs", "cost", "of the free agent's", "value ratio, %",
             "beside the threshold rule of equal cost", "its θ")]  # fmt: skip
    for task in (*plan.free, *plan.half, *plan.others):
        limit = results.constraints.get(task.name)
        for actions in _ACTIONS:
            rows.append((
                _limit_of(task), str(task.seed), actions,
                "" if limit is None else f"{limit.limit:.2f}", *_cells(results, task, actions),
            ))  # fmt: skip
    missed = [
        f"{_limit_of(task)}, seed {task.seed}, {actions}"
        for task in (*plan.free, *plan.half, *plan.others)
        for actions in _ACTIONS
        if not at_equal_cost(table, mean(table, named(task, actions), "cost")).exists
    ]
    none = (
        f"No threshold rule costs as much as these; each is compared with the nearest: {'; '.join(missed)}."
        if missed
        else "For each agent there are a cheaper threshold rule and a dearer one."
    )
    return f"""## Cost and value

Cost: jobs per hour, in the mean, that have come and neither started, left nor were rejected. The threshold rule places the job of
the highest quality of service of those with at least θ that can start now, else none; its value at an agent's cost is
interpolated, stream by stream, between the two θ of {THRESHOLDS[0]:g}, {THRESHOLDS[1]:g}, …, {THRESHOLDS[-1]:g} whose mean costs enclose it. All differences are in points, paired by
stream, with intervals of 95 %; the limit was set from the drawn cost on a training's held-out streams.

{markdown_table(rows)}

{none}"""


def _limit_of(task: Task) -> str:
    share = task.arguments.get("cost_share")
    return "none" if share is None else f"{100 * share:.0f} %"


def _frontier(results: Results) -> str:
    rows: list[Sequence[str]] = [
        ("", "cost", "value ratio, %", "jobs completed, %", "utilisation, %")
    ]
    for name in (*RULES, *map(threshold_of, THRESHOLDS)):
        rows.append((_label(name), *_columns(results.judged, name)))
    best = max(map(threshold_of, THRESHOLDS), key=lambda name: mean(results.judged, name))
    names = [task.name for task in (*results.plan.free, *results.plan.half, *results.plan.others)]
    above = [name for name in names if gap_at_equal_cost(results.judged, name).low > 0]
    below = [name for name in names if gap_at_equal_cost(results.judged, name).high < 0]
    return f"""## The frontier

![Value against cost](cocorl-frontier.svg)

Filled circles take the likeliest action, empty ones draw it; numbers beside the line are θ. Of {counted(len(names), "agent")} that take the likeliest action
{len(above)} {_lie(len(above))} surely above the line of threshold rules at their cost, {len(below)} surely below it, and {len(names) - len(above) - len(below)} on neither side for sure. The
threshold rule of the highest value on these streams has θ {best.removeprefix("threshold ")}, {points(gap(results.judged, best, "qos"))} points above QoS.

{markdown_table(rows)}"""


def _lie(count: int) -> str:
    return "lies" if count == 1 else "lie"


def _label(name: str) -> str:
    return RULES.get(name, name.replace("threshold", "θ"))


def _columns(table: pl.DataFrame, name: str) -> tuple[str, ...]:
    value, completed, used = (
        f"{100 * mean(table, name, column):.2f}" for column in ("value", "completed", "utilisation")
    )
    return f"{mean(table, name, 'cost'):.2f}", value, completed, used


def _reject(results: Results) -> str:
    plan, table = results.plan, results.judged
    rows: list[Sequence[str]] = [("limit", "actions", "cost", "of the free agent's", "value ratio, %",
             "beside the threshold rule of equal cost", "its θ", "less the same without rejecting")]  # fmt: skip
    for task, plain in zip(plan.reject, (plan.free[0], plan.half[0]), strict=True):
        for actions in _ACTIONS:
            above = gap(table, named(task, actions), named(plain, actions))
            rows.append((_limit_of(task), actions, *_cells(results, task, actions), points(above)))
    met = [actions for actions in _ACTIONS if meets_bar(results, plan.reject[1], actions)]
    outcome = f"the bar is met with {' and '.join(met)} actions" if met else "the bar is not met"
    return f"""## With the action to reject

A job that is rejected is gone and costs nothing any more. Seed 0; the free agent is that without a limit which cannot reject, and the limit is the
same as there. With half of the cost {outcome}.

{markdown_table(rows)}"""


def _gains(results: Results) -> str:
    plan, table = results.plan, results.judged
    gains = (PPOArguments.model_validate(cocorl.defaults).integral, SLOW)
    rows: list[Sequence[str]] = [("integral gain", "seed", "iterations above the limit", "in the second half", "cost, likeliest", "of the free agent's",
             "cost, drawn", "of the free agent's", "value ratio, %, likeliest")]  # fmt: skip
    for tasks, integral in zip((plan.half, plan.slow), gains, strict=True):
        for task in tasks:
            kept = results.constraints[task.name]
            costs = [_cells(results, task, actions)[:2] for actions in _ACTIONS]
            rows.append((
                f"{integral:g}", str(task.seed), f"{100 * kept.above:.0f} %", f"{100 * kept.late:.0f} %",
                *costs[0], *costs[1], f"{100 * mean(table, task.name):.2f}",
            ))  # fmt: skip
    rates = [
        ratio(table, slow.name, half.name, "cost")
        for slow, half in zip(plan.slow, plan.half, strict=True)
    ]
    dearer, cheaper = [one.low > 1 for one in rates], [one.high < 1 for one in rates]
    return f"""## The integral gain

The multiplier's gains are {_gain("proportional")}, {_gain("integral")} and {_gain("derivative")}, or with {SLOW:g} instead of the second one, as in figure 6.12a. *Iterations above the limit*: of
the training, whose cost was above the limit with drawn actions or with likeliest ones.

{markdown_table(rows)}

The cost with the smaller gain over that with the larger one, seed by seed, with likeliest actions: {"; ".join(map(str, rates))}. It is surely higher for {_count(dearer)} seeds,
surely lower for {_count(cheaper)}."""


def _gain(name: str) -> str:
    return f"{getattr(PPOArguments.model_validate(cocorl.defaults), name):g}"


# --- over the load --------------------------------------------------------------------------------


def _over_loads(results: Results) -> str:
    parts = [f"""## Over the load: figures 6.4 to 6.7

![Value, completed jobs, utilisation and cost over the load](cocorl-loads.svg)

The agents, of seed 0, were trained at {LOADS[-1]} % alone, and take the likeliest action unless said; QoS and HVF are the rules of the highest
quality of service and of the highest value."""]  # fmt: skip
    mine = {name: label for name, label in results.compared.items() if name not in RULES}
    names = {**results.compared, **{drawn(name): f"{label}, drawn" for name, label in mine.items()}}
    for column, what in PANELS.items():
        scale, digits = (1.0, 3) if column == "cost" else (100.0, 1)
        unit = "" if column == "cost" else ", %"
        rows: list[Sequence[str]] = [(f"{what}{unit}", *(f"{load} %" for load in LOADS))]
        for name, label in names.items():
            values = (scale * mean(results.at(load), name, column) for load in LOADS)
            rows.append((label, *(f"{value:.{digits}f}" for value in values)))
        for name, label in mine.items():
            rows.append((f"{label}, less QoS", *_less_qos(results, name, column)))
        parts.append(f"Figure {_FIGURES[column]}:\n\n{markdown_table(rows)}")
    return "\n\n".join(parts)


def _less_qos(results: Results, name: str, column: str) -> Iterable[str]:
    """Yield by how much a candidate exceeds QoS, in points or in jobs, load by load."""
    for load in LOADS:
        above = gap(results.at(load), name, "qos", column)
        if column != "cost":
            yield points(above)
        elif np.isfinite(above.low):
            low, high = above.low / 100, above.high / 100
            yield f"{above.value / 100:+.3f} ({low:+.3f} to {high:+.3f})"
        else:
            yield f"{above.value / 100:+.3f}"


def _claims(results: Results) -> str:
    found = claims(results)
    counts = Counter(claim.verdict for claim in found)
    summary = ", ".join(f"{counts[words]} {words}" for words in sorted(counts))
    rows: list[Sequence[str]] = [
        ("figure", "claim", "dissertation", "half of the cost", "verdict", "without a limit")
    ]
    rows += [claim.row for claim in found]
    return f"""## Claims

The agent with half of the cost, of seed 0, with the likeliest actions stands for CoCoRL. Percentages of the dissertation are
read as relative ones, *above the rules* as from the best of the four to the worst. *Confirmed*: our number reaches the lower one claimed, and its interval
excludes that there is no effect; *smaller*: only the latter. *At par*: a lower bound above {PAR} points, a margin of ours. Of {len(found)} claims: {summary}.
Logs, and wind and sun, are {NOT_TESTED}.

{markdown_table(rows)}"""


def _setting(results: Results) -> str:
    size, plan, chosen = results.size, results.plan, PPOArguments.model_validate(cocorl.defaults)
    task = plan.half[0]
    return f"""## Setting

- **The pool** has {LATE_LEAVE.units} processors and {LATE_LEAVE.units} GPUs, and power for all of them; the dissertation's runs on wind and sun of the GLEAMM site.
- **Jobs** follow its synthetic workload. Its arrival rate of one job per hour would be a load of 296 %; here the rate is such that the offered load is
  what is said, {LOADS[-1]} % in training. Jobs start now or wait; from the hour on in which they can no longer end in time they leave, and value counts in time. The
  dissertation does not say what becomes of late jobs.
- **The ready pool** has {LATE_LEAVE.ready} places instead of 5: jobs behind it wait whatever the agent does.
- **The cost** is its own, waiting jobs, and the limit a share of the free agent's, where the dissertation gives totals for each log (7,000 for ANL).
- **The agent** is simkit's [`cocorl`](../reference/learners.md#cocorl): one scorer for all jobs instead of two layers of 512 and an LSTM; learning rate {chosen.learning_rate:g}
  (dissertation: 0.001), clip {chosen.clip:g} (0.1), γ {chosen.discount:g} (0.99) and λ {chosen.decay:g} (0.93) per hour. The multiplier's gains apply once; its algorithm 7 applies two
  of them twice. {chosen.watched} more replicas take the likeliest action in training, and the multiplier answers the larger of the two costs.
- **Sizes**: {counted(size.seeds, "seed")}, {task.iterations:,} iterations of {task.arguments["games"]} replicas with {chosen.decisions} decisions each; other limits and runs that may reject have seed 0
  alone. The agent of the last iteration is judged. The streams that judge were not trained on, and settings were chosen on others.
- **Intervals** resample streams; those of equal cost hold the two θ and their weights fixed, those of shares are of the ratio of mean costs. They do not cover
  the choice of a training's seed.
- **Time**: {counted(len(plan.tasks), "training")} took {results.minutes:.1f} minutes of one process, one after another.
- Made at commit {results.commit} with {list_versions()}."""
