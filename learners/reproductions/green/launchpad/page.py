"""The page of `simkit reproduce launchpad`: clones, offline and online agents, and the claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from simkit.learners.actor_critic import ActorCriticArguments
from simkit.learners.recipes import offline
from simkit.learners.reproductions.common import list_versions, markdown_table
from simkit.learners.reproductions.green.launchpad.claims import (
    ALIKE,
    BARS,
    NEAR,
    TABLE_7_1,
    Bar,
    bars,
    claims,
)
from simkit.learners.reproductions.green.launchpad.picture import draw
from simkit.learners.reproductions.green.launchpad.runs import ACTIONS, KINDS, RULES, Results
from simkit.learners.reproductions.green.studies import LATE_LEAVE, MIXES, SMALL_POOL
from simkit.learners.reproductions.green.trainings import Task, named
from simkit.text import counted
from simkit.training import Workplace

__all__ = ["write_page"]

DATA: Final = {"qos": "QoS", "qos-sjf": "QoS and SJF", "combo": "four rules"}
"""Data → label."""
LARGE, SMALL = LATE_LEAVE.ready, SMALL_POOL.ready


def write_page(place: Workplace, results: Results) -> Path:
    """Write launchpad.md, its picture and its tables; return the page."""
    draw(place.pages, results)
    _means(results).write_csv(place.pages / "launchpad.csv", float_precision=5)
    _by_pool(results.agreed).write_csv(place.pages / "launchpad-agreement.csv", float_precision=4)
    parts = [
        _head(place), _result(results), _all_candidates(results), _three_sets(results),
        _agreement(results), _claims(results), _setting(results),
    ]  # fmt: skip
    page = place.pages / "launchpad.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _by_pool(tables: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(table.select(pl.lit(pool).alias("pool"), pl.all())
                     for pool, table in tables.items())  # fmt: skip


def _means(results: Results) -> pl.DataFrame:
    """Return the mean of all columns over streams, a row for each pool and candidate."""
    grouped = _by_pool(results.judged).group_by("pool", "candidate", maintain_order=True)
    return grouped.agg(pl.all().exclude("stream").mean())


def _head(place: Workplace) -> str:
    size = " --quick" if place.quick else ""
    note = (
        "\n\n**This is the quick version**: one seed, few iterations, few and short streams. It shows the steps; its numbers decide nothing."
        if place.quick
        else ""
    )
    return f"""# Launchpad (2023)

**Question.** Does an agent that learns offline from the decisions of several rules do better than its clone and than the best of them, and are
such data a launchpad for one that plays, as chapter 7 of the dissertation on power-modulated datacenters (University of Virginia, 2023) says?

`simkit reproduce launchpad{size}` records, trains and judges everything and writes this page, its picture and its tables
([launchpad.csv](launchpad.csv), [launchpad-agreement.csv](launchpad-agreement.csv)); an interrupted run goes on. The dissertation has no public code;
what it leaves open is stated under *Setting*.{note}"""


# --- data of four rules ---------------------------------------------------------------------------


def _result(results: Results) -> str:
    seeds = range(results.size.seeds)
    rows: list[Sequence[str]] = [
        ("seed", "actions", "clone − QoS", "offline − clone", "offline − QoS", "off + on − clone",
         "off + on − offline", "bars met"),
    ]  # fmt: skip
    for actions in ACTIONS:
        for seed in seeds:
            found = bars(results, seed, actions)
            met = f"{sum(bar.met for bar in found)} of {len(found)}"
            rows.append((str(seed), actions, *(str(bar.gap) for bar in found), met))
    return f"""## Result

{counted(results.size.seeds, "training")} of each kind on data of four rules ({", ".join(RULES.values())}) in equal shares, at a load of 120 % and a
ready pool of {LARGE}. Differences in points of the value ratio (the value of what ended in time over that of all jobs that came), on
{counted(results.size.streams, "stream")} of {results.size.hours:,} h that nobody was trained on, paired by stream, with intervals of 95 %. The bars, which
mean differences meet or miss, stand below.

{markdown_table(rows)}

{_verdict([bars(results, seed, "drawn") for seed in seeds])}"""


def _verdict(by_seed: Sequence[Sequence[Bar]]) -> str:
    """Return with how many seeds each bar is met, and by how much the last two are missed."""
    lines = []
    for seeds in zip(*by_seed, strict=True):
        met = sum(bar.met for bar in seeds)
        mean = float(np.mean([bar.gap.value for bar in seeds]))
        short = f", short by {-mean:.2f}" if mean <= 0.0 and seeds[0].words in BARS[3:] else ""
        words = _capital(seeds[0].words)
        lines.append(
            f"- {words}: met with {met} of {counted(len(seeds), 'seed')} (mean {mean:+.2f} points{short})."
        )
    return "With drawn actions:\n\n" + "\n".join(lines)


def _all_candidates(results: Results) -> str:
    plan = results.plan.combo
    labels = {**KINDS, "online": "online alone"}
    rows: list[Sequence[str]] = [_COLUMNS]
    rows += _rules(results, LARGE)
    for kind, label in labels.items():
        for actions in ACTIONS:
            names = [named(task, actions) for task in plan[kind]]
            rows.append(_row(results, LARGE, label, actions, names))
    launch, online = (
        [named(task, "drawn") for task in plan[kind]] for kind in ("launch", "online")
    )
    above = results.over(LARGE, launch, online)
    return f"""### Beside the rules

The same streams; agents' rows are means over the seeds, stream by stream. The *threshold rule* takes of the jobs that can start now and have at least a
quality of service θ the one with the highest, else it waits; θ = {results.theta[LARGE]:.2f} was chosen on other streams.

{markdown_table(rows)}

With drawn actions, offline + online is {_side(above.value)} online alone, which has no data and plays for as long: {above} points.

![Points of value above QoS](launchpad.svg)"""


_COLUMNS: Final = (
    "", "actions", "value ratio, %", "points over QoS", "over the threshold rule",
    "jobs completed, %", "waiting jobs",
)  # fmt: skip


def _rules(results: Results, pool: int) -> Iterable[Sequence[str]]:
    labels = {**RULES, results.threshold(pool): f"threshold rule, θ {results.theta[pool]:.2f}"}
    for name, label in labels.items():
        yield _row(results, pool, label, "", [name])


def _row(
    results: Results, pool: int, label: str, actions: str, names: Sequence[str]
) -> Sequence[str]:
    best = results.threshold(pool)
    value, done, cost = (
        float(results.values(pool, names, column).mean())
        for column in ("value", "completed", "cost")
    )
    over = [
        "" if names == [other] else str(results.over(pool, names, [other]))
        for other in ("qos", best)
    ]
    return (label, actions, f"{100 * value:.2f}", *over, f"{100 * done:.1f}", f"{cost:.1f}")


def _side(difference: float) -> str:
    return "above" if difference > 0 else "not above"


# --- three sets of data ---------------------------------------------------------------------------


def _three_sets(results: Results) -> str:
    rows: list[Sequence[str]] = [_COLUMNS]
    rows += _rules(results, SMALL)
    for kind, label in KINDS.items():
        for data, task in results.plan.mixes[kind].items():
            for actions in ACTIONS:
                rows.append(
                    _row(results, SMALL, f"{label}: {DATA[data]}", actions, [named(task, actions)])
                )
    return f"""## Three sets of data

What the data's quality does, as in figures 7.3 and 7.4a: data of QoS alone, of QoS and SJF, and of all four rules, one training each, at a load of 100 % and
a ready pool of {SMALL}; θ = {results.theta[SMALL]:.2f}.

{markdown_table(rows)}

{_spread(results)}"""


def _spread(results: Results) -> str:
    """Return how far apart the three agents of each kind are."""
    lines = []
    for actions in ACTIONS:
        spreads = []
        for kind, label in KINDS.items():
            values = [
                100.0 * float(results.values(SMALL, [named(task, actions)]).mean())
                for task in results.plan.mixes[kind].values()
            ]
            spreads.append(f"{label} {max(values) - min(values):.2f}")
        lines.append(f"with {_with(actions)} actions {', '.join(spreads)}")
    return f"From the best to the worst of three sets of data it is, in points: {'; '.join(lines)}."


def _with(actions: str) -> str:
    return "the likeliest" if actions == "likeliest" else actions


# --- table 7.1 ------------------------------------------------------------------------------------


def _agreement(results: Results) -> str:
    rows: list[Sequence[str]] = [
        ("", "actions", *(f"{label}, pool {SMALL}" for label in DATA.values()),
         f"four rules, pool {LARGE}", "dissertation"),
    ]  # fmt: skip
    for kind, label in KINDS.items():
        published = " / ".join(f"{100 * TABLE_7_1[kind][data]:.0f}" for data in MIXES)
        for actions in ACTIONS:
            small = {
                data: [named(task, actions)] for data, task in results.plan.mixes[kind].items()
            }
            large = [named(task, actions) for task in results.plan.combo[kind]]
            rows.append((label, actions, *_shares(results, small, large), published))
    qos = _shares(results, {data: ["qos"] for data in MIXES}, ["qos"])
    rows.append(("the rule QoS itself", "", *qos, ""))
    return f"""## Action agreement (table 7.1)

The rules play {counted(results.size.held_out, "stream")}, and the agents are asked at each decision what they would do. In percent, the share of all decisions at which it is what
the rule does, which is how the dissertation measures; behind it, of those at which more than one job could start. Of data of several rules it is the mean over the rules, each in games
of its own: so is the dissertation's *SJF_QoS* read here.

{markdown_table(rows)}

{_ceiling(results)}"""


def _shares(results: Results, small: dict[str, list[str]], large: Sequence[str]) -> Sequence[str]:
    cells = [(SMALL, data, names) for data, names in small.items()] + [(LARGE, "combo", large)]
    return [
        " / ".join(
            f"{100 * results.agreement(pool, data, names, share):.0f}"
            for share in ("all", "choice")
        )
        for pool, data, names in cells
    ]


def _ceiling(results: Results) -> str:
    """Return how much one rule of a mix agrees with all of them, and the clone with one of them."""
    parts = []
    for data in list(MIXES)[1:]:
        own = results.agreement(SMALL, data, ["qos"])
        published = TABLE_7_1["clone"][data]
        less = "less than" if own < published else "no less than"
        clone = [named(results.plan.mixes["clone"][data], "likeliest")]
        closest = max(MIXES[data], key=lambda rule: results.agreement(SMALL, rule, clone))
        share = results.agreement(SMALL, closest, clone)
        parts.append(
            f"- {_capital(DATA[data])}: {100 * own:.0f} %, {less} the {100 * published:.0f} % of the dissertation's clone. If only the rule counted that "
            f"the clone follows most, it would be {100 * share:.0f} % with the likeliest actions ({RULES[closest]})."
        )
    return (
        f"A rule of a mix agrees with itself always, and with the others where they choose the same. QoS has in the mean, with a pool of {SMALL}:\n\n"
        + "\n".join(parts)
    )


# --- the rest -------------------------------------------------------------------------------------


def _claims(results: Results) -> str:
    found = claims(results)
    counts = Counter(
        "confirmed in part" if "only" in claim.verdict else claim.verdict for claim in found
    )
    summary = ", ".join(
        f"{counts[name]} {name}"
        for name in ("confirmed", "confirmed in part", "not confirmed", "not tested")
        if counts[name]
    )
    rows = [
        ("figure", "claim", "ours, drawn actions", "ours, the likeliest", ""),
        *(c.row for c in found),
    ]
    return f"""## The dissertation's claims

Its figures 7.3 to 7.7 show 10 to 100 units; agents here have 10. Figures 7.3 and 7.4a are held to the agents of three sets of data and of the four rules above, 7.5 to 7.7 to those
of the four rules and to online alone; other sizes are not tested, and what 10 units give stands beside. It does not say whether actions are drawn. *Below* and *above*
ask for an interval that leaves out 0, of every seed; *as well as* and *alike* for {ALIKE:g} point; agreement for {100 * NEAR:.0f} points. Differences are in points of value, seed by seed, in the order of the claim. {_capital(summary)}.

{markdown_table(rows)}"""


def _setting(results: Results) -> str:
    size, plan, used = results.size, results.plan, ActorCriticArguments(**offline.defaults)
    steps = {kind: _steps(plan.combo[kind][0]) for kind in plan.combo}
    recorded = "; ".join(
        f"{DATA[data.name]}, pool {data.where.ready}: {count:,}"
        for data, count in results.decisions.items()
    )
    return f"""## Setting

- **Circumstances.** 10 processors and 10 GPUs with all of their power; jobs start now or not at all, and leave when they can no longer end in time, so that their order matters. The dissertation has a load of 120 % and a ready pool of 5; at 120 % the pool here has {LARGE} places, and the three sets of data are compared at 100 % with {SMALL}.
- **Data.** {counted(size.episodes, "stream")} of {size.hours:,} h of each rule, none of them judged or held out; mixes have whole episodes in equal shares, so that data of more rules are also more data. Decisions: {recorded}.
  The dissertation has 80 rollouts of 100,000 to 200,000 samples, and says in one place that offline + online begins with those of QoS alone: here it has the data of its column.
- **Trainings.** {counted(len(plan.tasks), "training")}, {results.minutes:.0f} minutes one after another; the agent of the last iteration is judged. Updates of {used.batch} decisions to clone, offline and online:
  {"; ".join(f"{({**KINDS, 'online': 'online alone'})[kind]} {text}" for kind, text in steps.items())}. The dissertation's text says 500,000 to clone and offline, 1,000,000 online, 50,000 and
  1,000,000 for both; its table A.4 says 20,000 to clone, 100,000 offline, and 20,000, 50,000 and 500,000 for all three. Batches there have 1,024 decisions, layers 512 units and not {used.hidden}.
- **The agent** sees a set of jobs and not an image, and is paid a job's value when it is placed, discounted by {used.discount:g} per hour. There are {used.critics} critics with PopArt in all trainings; table A.4 has one
  without it to clone and two without it offline. Offline, actions count alike that the critics value above the actor's mean one, which is computed and not drawn.
- **Online** the actor takes what the critics value most, with some entropy: the dissertation's algorithm 10, a discrete soft actor-critic, although its text names AWAC, whose actor goes on with regression.
  That is `actor: regression`, which was not trained here.
- **Settings were changed after first rounds had been judged**, with seed 0: the length of the offline phase, and how online games begin (the entropy that is kept falls from {100 * used.entropy:.0f} % to
  {100 * used.entropy_end:.0f} % of the largest, the temperature begins at 1 and has a learning rate of its own, and with data half of a batch is of games). What happened before is told in
  [decision 23](../decisions/0023-one-part-for-off-policy-agents.md). All that stands here was judged on other streams than those rounds.
- **Games** of {size.hours:,} h, {plan.combo["launch"][0].arguments["games"]} at a time.
- Made at commit {results.commit} with {list_versions()}."""


def _steps(task: Task) -> str:
    clone, offline = (int(task.arguments.get(name, 0)) for name in ("clone", "offline"))
    each = int(task.arguments["updates"])
    phases = (clone, offline, task.iterations - clone - offline)
    return " + ".join(f"{each * count:,}" for count in phases)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
