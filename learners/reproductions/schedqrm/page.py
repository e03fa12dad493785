"""The page of `simkit reproduce schedqrm`: burst times, schedules, and predictions in logs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.agent.burst_classes import PATIENCE
from simkit.learners.reproductions.common import markdown_table
from simkit.learners.reproductions.schedqrm import classifiers_page, logs
from simkit.learners.reproductions.schedqrm.classifiers import Judged
from simkit.learners.reproductions.schedqrm.judge import (
    REFERENCE,
    SHOWN,
    by_class,
    gap,
    meets_bar,
)
from simkit.learners.reproductions.schedqrm.logs import LogResults, LogSetting
from simkit.learners.reproductions.schedqrm.numbered_slots import MIXED, OF_SLOTS
from simkit.learners.reproductions.schedqrm.online import online_gap
from simkit.learners.reproductions.schedqrm.pictures import CLASS_LOADS, draw_scheduling
from simkit.learners.reproductions.schedqrm.price import LOADS as PRICED
from simkit.learners.reproductions.schedqrm.price import TRUE
from simkit.learners.reproductions.schedqrm.study import (
    ALL_PARTS,
    HIGH_LOADS_TWICE,
    LADDER,
    ONLINE_DQN,
    ONLINE_LOADS,
    ONLINE_PPO,
    PPO,
    SUITED,
    WHOLE,
    Agent,
    SchedQRMSetting,
    learner_of,
)
from simkit.results.run_info import versions
from simkit.training import Workplace

RISES: Final = 0.8
"""Least rank correlation at which the slowdown counts as rising with the class."""


@dataclass(frozen=True)
class Results:
    """The content of the page."""

    setting: SchedQRMSetting
    bursts: Judged
    offline: pl.DataFrame
    online: pl.DataFrame
    price: pl.DataFrame
    logs: Mapping[str, LogResults]
    log_setting: LogSetting
    decisions: Mapping[str, float]
    """Kind of training → mean number of decisions in one."""
    commit: str


def write_page(place: Workplace, results: Results) -> Path:
    """Write schedqrm.md, its pictures and its tables; return the page."""
    classifiers_page.draw_classifiers(place, results.bursts)
    draw_scheduling(place.pages, results.offline)
    means = results.offline.group_by("candidate", "seed", "load", maintain_order=True).agg(
        pl.col("slowdown").mean(), pl.col("slowdown").is_infinite().sum().alias("never_placed")
    )
    means.write_csv(place.pages / "schedqrm-loads.csv", float_precision=4)
    results.online.group_by("candidate", "seed", "load", maintain_order=True).agg(
        pl.col("slowdown").mean()
    ).write_csv(place.pages / "schedqrm-online.csv", float_precision=4)
    parts = [
        _head(place), classifiers_page.section(results.bursts), _schedules(results), _steps(results),
        _classes(results), _online(results), _price(results),
        logs.section(results.logs, results.log_setting), _setting(results),
    ]  # fmt: skip
    page = place.pages / "schedqrm.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _head(place: Workplace) -> str:
    size = " --quick" if place.quick else ""
    note = (
        "\n\n**This is the quick version**: the bundled sample of programs, few iterations, few job sets and a short part of each log."
        if place.quick
        else ""
    )
    return f"""# SchedQRM (2019)

**Question.** Do the sections of an executable tell how long it runs; does a deep Q-network schedule jobs of known burst classes better than
simple rules, as "SchedQRM" (CCIT 2019) says; and what are predicted run times worth in logs?

`SIMKIT_DATA=FOLDER simkit reproduce schedqrm{size}` does everything and writes this page, its pictures and its tables; an
interrupted run goes on. The paper has neither code nor data; what it leaves open is stated under *Setting*.{note}"""


# --- all jobs at once -----------------------------------------------------------------------------


def _schedules(results: Results) -> str:
    found = results.offline
    rules = ["packer", "tetris", "sjf", REFERENCE, "tetris-in-order", "earliest-finish"]
    kinds = [kind for kind in ("paper", WHOLE, PPO) if kind in results.setting.kinds]
    rows: list[Sequence[str]] = [
        ("", *(f"{load} %" for load in SHOWN)),
    ]
    for name in (*OF_SLOTS, *rules, *kinds):
        here = found.filter(candidate=name).group_by("load").agg(pl.col("slowdown").mean())
        means = dict(here.iter_rows())
        rows.append((_label(name), *(_mean(means[load]) for load in SHOWN)))
    gaps: list[Sequence[str]] = [
        ("", "seed", *(f"{load} %" for load in SHOWN), "bar met"),
        ("earliest finish", "", *_gaps(found, "earliest-finish", 0), ""),
    ]
    for kind in kinds:
        for seed in range(results.setting.seeds):
            met = "yes" if meets_bar(found, kind, seed) else "no"
            gaps.append((_label(kind), str(seed), *_gaps(found, kind, seed), met))
    return f"""## Schedules, all jobs at once

Mean slowdown over {results.setting.judged} job sets of each load, the same for all; every job counts. Agents' rows are means over seeds.

{markdown_table(rows)}

Rules named *slotted* and the *{MIXED}*, the bundled `deeprm-mixed`, see the first ten waiting jobs; all others see the first of each class.

![Mean slowdown over the load](schedqrm-loads.svg)

*SJF in order* gives the shortest job its earliest place, then the next; *earliest finish* always places the job that would end first.
Both reserve, as an agent may, and the paper's baselines do not. Differences of the mean slowdown to SJF in order, paired by job set, with intervals
of 95 %; the bar is at most 0.01 below 100 %, and an interval below 0 at all loads from 100 % on:

{markdown_table(gaps)}

{_verdict(results, kinds)}

Beside other rules: the mean difference over seeds, and of how many trainings the interval lies below 0.

{_baselines(results, [kind for kind in kinds if kind != "paper"])}

DeepRM's own line of figure 5 is not here: its agents are trained for jobs that arrive. The {MIXED} stands for it."""


def _gaps(judged: pl.DataFrame, candidate: str, seed: int) -> list[str]:
    return [str(gap(judged, candidate, seed, load)) for load in SHOWN]


def _verdict(results: Results, kinds: Sequence[str]) -> str:
    found = results.offline
    lines = [f"{_label(kind)}: {_met(results, kind)} trainings meet the bar" for kind in kinds]
    rule = gap(found, "earliest-finish", 0, 200)
    side = "below" if rule.value < 0 else "above"
    better = [
        f"{_label(kind)} {_surely_below(results, kind, 'earliest-finish', 200)}"
        for kind in kinds
        if kind != "paper"
    ]
    return (
        f"**{'. '.join(lines)}.** At 200 % the rule *earliest finish*, which reserves and needs no training, is {abs(rule.value):.3f} {side} "
        f"SJF in order; trainings that are surely better than it there: {'; '.join(better)}."
    )


def _baselines(results: Results, kinds: Sequence[str]) -> str:
    """Return how many trainings are surely better than the paper's baselines and other rules."""
    others = ("packer", "tetris", "sjf", "slotted-headroom", MIXED, REFERENCE, "earliest-finish")
    rows: list[Sequence[str]] = [
        ("", "relative to", *(f"{load} %" for load in SHOWN)),
    ]
    for kind in kinds:
        for baseline in others:
            cells = []
            for load in SHOWN:
                values = [
                    gap(results.offline, kind, seed, load, baseline).value
                    for seed in range(results.setting.seeds)
                ]
                cells.append(f"{_several(values)}; {_surely_below(results, kind, baseline, load)}")
            rows.append((_label(kind), _label(baseline), *cells))
    return markdown_table(rows)


def _surely_below(results: Results, kind: str, baseline: str, load: int) -> str:
    """Return for how many trainings the interval of the difference lies below 0."""
    seeds = range(results.setting.seeds)
    below = sum(gap(results.offline, kind, seed, load, baseline).is_below for seed in seeds)
    return f"{below} of {len(seeds)}"


def _met(results: Results, kind: str) -> str:
    seeds = range(results.setting.seeds)
    return f"{sum(meets_bar(results.offline, kind, seed) for seed in seeds)} of {len(seeds)}"


def _steps(results: Results) -> str:
    names = [kind for kind in results.setting.kinds if kind != PPO]
    rows: list[Sequence[str]] = [
        ("", *(f"{load} %" for load in SHOWN), "trainings that meet the bar", "decisions")
    ]
    seeds = range(results.setting.seeds)
    all_of_them = f"{len(seeds)} of {len(seeds)}"
    for kind in (*names, *([PPO] if PPO in results.setting.kinds else [])):
        values = [
            [gap(results.offline, kind, seed, load).value for seed in seeds] for load in SHOWN
        ]
        rows.append((kind, *(_several(each) for each in values), _met(results, kind),
                     f"{results.decisions[kind]:,.0f}"))  # fmt: skip
    meeting = [kind for kind in names if _met(results, kind) == all_of_them]
    first = next((kind for kind in LADDER if kind in meeting), None)
    less = [kind for kind in meeting if kind not in LADDER]
    sentence = "No row meets the bar with every seed."
    if first or less:
        sentence = (
            f"On the way from the paper's formulation, the first row that meets the bar with every seed is *{first}*."
            if first
            else "No row on the way to the whole meets the bar with every seed."
        )
        sentence += (
            f" Of the rows below it, these meet it: {', '.join(f'*{kind}*' for kind in less)}."
            if less
            else ""
        )
    return f"""### Which change does it

Each row up to *{WHOLE}*, the deep Q-network of the other tables, adds something to the one above, from the paper's formulation on; the others change one thing of *{ALL_PARTS}*, and readings B
and C leave the shaping out too. *Numbers* are other numbers of units, memory and learning, see *Setting*; *errors per job* divides an error by the jobs that wait; *high loads twice* trains on loads
from {HIGH_LOADS_TWICE[-4]:.0%} on twice as often, in as many decisions. Differences to SJF in order, means over {counted_seeds(results)}:

{markdown_table(rows)}

{sentence} *Never done*: on some job sets the agent keeps choosing classes without jobs. *Decisions* are those of one training; an agent without a mask
makes up to 40 in an episode. {_episodes(results)}"""


def _episodes(results: Results, *, online: bool = False) -> str:
    """Return how many episodes the two learners play."""
    kinds = ALL_PARTS if online else WHOLE, PPO
    dqn, ppo = (learner_of(Agent(kind, 0, online), results.setting)[1] for kind in kinds)
    return (
        f"In an iteration the deep Q-network plays {dqn['job_sets']} episodes, "
        f"PPO {ppo['job_sets'] * ppo['rollouts']}, {ppo['rollouts']} of each job set."
    )


def counted_seeds(results: Results) -> str:
    """Return ``3 seeds``, or ``one seed``."""
    return "one seed" if results.setting.seeds == 1 else f"{results.setting.seeds} seeds"


def _classes(results: Results) -> str:
    names = (REFERENCE, WHOLE)
    tables = {name: by_class(results.offline, name, CLASS_LOADS) for name in names}
    rows: list[Sequence[str]] = [
        ("class", *(f"{_label(name)}: {what}" for name in names for what in ("mean", "largest"))),
    ]
    for number in tables[WHOLE]["class"]:
        cells = [tables[name].filter(pl.col("class") == number) for name in names]
        rows.append(
            (
                str(number),
                *(f"{cell[what].item():.2f}" for cell in cells for what in ("mean", "largest")),
            )
        )
    means = tables[WHOLE]["mean"].to_numpy()
    rank = float(np.corrcoef(np.arange(len(means)), np.argsort(np.argsort(means)))[0, 1])
    trend = "does not rise with the class, unlike in the paper's figure 4"
    if (np.diff(means) >= 0).all():
        trend = "rises from each class to the next, as in the paper's figure 4"
    elif rank >= RISES:
        falls = np.flatnonzero(np.diff(means) < 0) + 1
        where = ", ".join(f"from class {number} to {number + 1}" for number in falls)
        trend = f"rises with the class, as in the paper's figure 4, except {where}"
    return f"""### Slowdown by class

![Slowdown by class](schedqrm-classes.svg)

{markdown_table(rows)}

At loads of {CLASS_LOADS[0]} to {CLASS_LOADS[-1]} %; *largest* is the largest of {results.setting.judged} job sets a load, of agents the mean over the seeds. The mean slowdown under the deep Q-network {trend} (rank correlation {rank:.2f})."""


# --- jobs that arrive -----------------------------------------------------------------------------


def _online(results: Results) -> str:
    found, seeds = results.online, range(results.setting.seeds)
    kinds = [kind for kind in (ALL_PARTS, PPO) if not found.filter(candidate=kind).is_empty()]
    rows: list[Sequence[str]] = [
        ("", *(f"{100 * load:.0f} %" for load in ONLINE_LOADS)),
    ]
    for name in (*OF_SLOTS, *kinds):
        means = dict(
            found.filter(candidate=name).group_by("load").agg(pl.col("slowdown").mean()).iter_rows()
        )
        rows.append((_label(name), *(_mean(means[load]) for load in ONLINE_LOADS)))
    gaps: list[Sequence[str]] = [
        ("", "relative to", "seed", *(f"{100 * load:.0f} %" for load in ONLINE_LOADS)),
    ]
    for kind in kinds:
        for baseline in ("slotted-headroom", MIXED):
            for seed in seeds:
                cells = (online_gap(found, kind, seed, load, baseline) for load in ONLINE_LOADS)
                gaps.append((_label(kind), baseline, str(seed), *map(str, cells)))
    return f"""## Schedules, jobs that arrive

DeepRM's workload, on {results.setting.online_sets} unseen job sets of its original code at each load. Agents of classes start jobs now or wait; while nothing runs although a job fits, they wait for at most
{PATIENCE} steps. They see one job of each length; the others see the ten that came first. Mean slowdown over job sets:

{markdown_table(rows)}

Differences, paired by job set, with intervals of 95 %:

{markdown_table(gaps)}

The trainings mix the same four loads. They differ from those above by {_listed(ONLINE_DQN)} of the deep Q-network and {_listed(ONLINE_PPO)} of PPO.
{_episodes(results, online=True)}"""


def _listed(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in arguments.items())


# --- predictions ----------------------------------------------------------------------------------


def _price(results: Results) -> str:
    models = [name for name in results.price["model"].unique(maintain_order=True) if name != TRUE]
    rows: list[Sequence[str]] = [("", "load", TRUE, *models)]
    for name in results.price["candidate"].unique(maintain_order=True):
        for load in PRICED:
            here = results.price.filter(candidate=name, load=load)
            means = dict(here.select("model", "slowdown").iter_rows())
            plain = means[TRUE]
            rows.append((_label(name), f"{load} %", f"{plain:.3f}",
                         *(f"{means[model]:.3f} ({means[model] / plain - 1:+.1%})" for model in models)))  # fmt: skip
    return f"""### The price of a misprediction

Jobs are laid out by predicted classes, mistaken as often as the models mistake programs held out at random, and run for their true ones. A
place is given for the true run time: this is the price of a wrong order, not that of jobs that outlive their places.

{markdown_table(rows)}"""


# --- the rest -------------------------------------------------------------------------------------


def _setting(results: Results) -> str:
    setting = results.setting
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    return f"""## Setting

- **Job sets.** A load of 100 % is ten jobs, one for each class on average; lengths are evenly spread over the classes. Of two resources of ten units a job asks for half
  to all of one and up to half of the other, or, as likely, for a tenth to all of both. The horizon is 201 steps, so that every job has a place.
- **Reward.** −(a + c / a) with c from arrival to start (reading A), which adds up to minus the sum of slowdowns and what no choice changes. Of the other readings, B counts
  only the steps that actions without a job let pass, and C the decisions.
- **The paper's formulation**: its observation, a perceptron of 20 units, no mask, a penalty of 210, a replay memory of 2,000, learning rate 0.01, ε = 0.1 of random
  actions, the target network copied after 1,000 decisions. Batches of 32, RMSprop and an update every five decisions are ours: it does not say.
- **Numbers** that suit better: {_listed(SUITED)}.
- **Trainings**: seeds 0 to {setting.seeds - 1}, {setting.iterations} iterations, and for jobs that are all there at once loads of 20 to 200 % mixed; the agent of the last iteration is judged.
  Job sets that judge are not trained on, and settings were chosen on others; that one more step was looked for was decided when *{ALL_PARTS}* had been judged on them.
- Made at commit {results.commit} with {packages}."""


def _label(name: str) -> str:
    return {REFERENCE: "SJF in order", "tetris-in-order": "Tetris in order", "packer": "Packer", "tetris": "Tetris", "sjf": "SJF",
            "earliest-finish": "earliest finish", WHOLE: "deep Q-network",
            ALL_PARTS: "deep Q-network"}.get(name, name)  # fmt: skip


def _mean(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "never done"


def _several(values: Sequence[float]) -> str:
    """Return the mean over seeds, or for how many of them some jobs were never placed."""
    endless = len(values) - int(np.isfinite(values).sum())
    if endless == len(values):
        return "never done"
    return f"{endless} of {len(values)} never done" if endless else f"{np.mean(values):+.3f}"
