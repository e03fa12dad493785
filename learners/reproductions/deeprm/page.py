"""The page of `simkit reproduce deeprm`: claims, the original's behaviour, our measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path

import polars as pl

from simkit.learners.reproductions.common import markdown_table
from simkit.learners.reproductions.deeprm.figures import (
    OPPONENTS,
    AtLoad,
    RatioEstimate,
    Withheld,
    at_load,
    first_below,
)
from simkit.learners.reproductions.deeprm.pictures import draw_all
from simkit.learners.reproductions.deeprm.study import HIGHEST, RATES, DeepRMRun, DeepRMSetting
from simkit.text import counted
from simkit.training import Workplace

CLAIMED = (10, 70, 110, 130)
"""Loads whose gains the table of claims shows."""
RESULT = """\
- **The agents are better than SJF, Packer and Tetris at loads of 50 % and more:** with all jobs
  counted, their slowdown is 29 % below the best of them at 70 %, 37 % at 110 % and 38 % at 130 %.
  At 10 % and 30 % they are level with it.
- **Agents trained at 110 % or 130 % are the better ones at 70 % and 90 %, too:** at 70 % their
  slowdown is 2.17 and 2.18, that of the agents trained there is 2.29; at 90 % it is 2.42 and 2.41,
  that of the agents trained at 70 % is 2.78. Below 50 % the order turns.
- **A simple rule that withholds long jobs does as well.** The agents are better than the best such
  rule at 184 %, worse at 90 %, and not clearly different at the other loads (at 150 % the interval
  of the difference ends at 0).
- **The claim about the completion time does not hold here.** The agents that are trained for it
  need 17.2 steps at 130 %; Tetris with a knob of 0.0005 needs 16.3.
- **Reservations do not help the rules,** except at 184 %: a place that cannot be taken back costs
  more than it gains."""
"""Written by hand from the tables of the full version."""
SHORT = 3
"""The most steps of a short job of this workload."""


def write_page(
    place: Workplace,
    setting: DeepRMSetting,
    judged: pl.DataFrame,
    curves: pl.DataFrame,
    withheld: Withheld,
) -> Path:
    """Write deeprm.md, deeprm.csv, deeprm-curves.csv and the pictures; return the page."""
    found = [at_load(judged, load, setting) for load in setting.judged]
    completion = at_load(judged, 130, setting, "turnaround_time_s")
    _table(found).write_csv(place.pages / "deeprm.csv", float_precision=4)
    curves.filter(curves["held_out_slowdown"].is_not_null()).write_csv(
        place.pages / "deeprm-curves.csv", float_precision=4
    )
    draw_all(place.pages, found, curves, withheld)
    parts = [
        _head(place),
        "## Result\n\n"
        + ("Conclusions are drawn from the full version only." if place.quick else RESULT),
        _claims(found, completion, curves, withheld, setting),
        _loads(found),
        _objectives(next(f for f in found if f.load == 130), completion),
        _learning(curves, next(f for f in found if f.load == 70), setting),
        _withheld(withheld),
        _other_rules(found),
        _setting(setting),
    ]
    page = place.pages / "deeprm.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _head(place: Workplace) -> str:
    size = " --quick" if place.quick else ""
    note = (
        "\n\n**This is the quick version**: too few iterations, job sets and seeds for conclusions."
        if place.quick
        else ""
    )
    return f"""# DeepRM (2016)

**Question.** Does an agent that learns from a picture of a pool schedule jobs better than rules do, as H. Mao,
M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement learning" (HotNets 2016), say?

`simkit reproduce deeprm{size}` trains and judges everything and writes this page, its tables
([deeprm.csv](deeprm.csv), [deeprm-curves.csv](deeprm-curves.csv)) and its pictures. It is about the paper's recipe;
[one agent for all loads](deeprm-one-agent.md) is about ours, which is better.{note}"""


def _claims(
    found: Sequence[AtLoad],
    completion: AtLoad,
    curves: pl.DataFrame,
    withheld: Withheld,
    setting: DeepRMSetting,
) -> str:
    by_load = {f.load: f for f in found}
    at_130 = by_load[130]
    share = withheld.withheld_steps / max(withheld.steps, 1)
    long = _long_jobs(withheld.lengths)
    shown = [by_load[load] for load in CLAIMED if load in by_load]
    gains = "; ".join(f"{f.load} %: {_percent(f.gain)}" for f in shown)
    over_rule = "; ".join(f"{f.load} %: {_percent(f.gain_over_withholding)}" for f in shown)
    tetris = by_load[70].means[by_load[70].best_tetris]
    below = first_below(
        _curves_of(curves, [DeepRMRun(70, s) for s in range(setting.seeds)]), tetris
    )
    goals = (
        f"Trained for slowdown: slowdown {at_130.agent}, completion time "
        f"{_mean_of(completion, at_130.agents):.1f} steps; trained for completion time: "
        f"{_mean_of(at_130, completion.agents):.2f}, {completion.agent}"
    )
    rule = min(OPPONENTS, key=lambda label: completion.means.get(label, inf))
    goals += f". Best rule by completion time: {rule}, {completion.means[rule]:.1f} steps."
    rows = [
        ("Better than SJF, Packer and Tetris at high load, comparable elsewhere (figure 4)",
         "Tetris' knob is not published, and what its scripts plot as Tetris is Packer. Slowdowns are "
         "floored job by job (division of integers), and jobs without an end are left out.",
         f"Below the best of SJF, Packer and Tetris with any knob by: {gains}. Below the best of "
         f"[a simple rule that withholds long jobs](#a-rule-that-withholds) by: {over_rule}."),
        ("At 130 %, best at each objective when trained for it (figure 5)",
         "The reward of the completion time is minus the number of jobs in the system.", goals),
        ("Better than Tetris after 200 iterations, converged near 1,000 (figure 6)",
         "100 fixed job sets: they are learned by heart after some 300 iterations.",
         f"With fresh job sets better than Tetris after {below if below is not None else '—'} "
         "iterations, on unseen sets."),
        ("At 110 %, in 23.4 % of the steps a job is withheld that would fit, nearly always a long one "
         "(figure 7)", "—",
         f"At {withheld.load} %, in {share:.1%} of the steps; {_share(long, withheld.lengths)} of the "
         f"jobs that are ever withheld are longer than {SHORT} steps, of all jobs "
         f"{_share(_long_jobs(withheld.present), withheld.present)}."),
        ("89,451 parameters", "89,851: the image has a column more, the steps since the last arrival.",
         "89,851."),
        ("80 s an iteration on 24 cores", "40 to 71 s of one core.",
         "See [benchmarks](../benchmarks.md)."),
    ]  # fmt: skip
    return "\n".join(
        ["## Claims", "", "| the paper says | the original code | measured here |", "|---|---|---|",
         *(f"| {' | '.join(row)} |" for row in rows)]
    )  # fmt: skip


def _loads(found: Sequence[AtLoad]) -> str:
    rows = [
        (f"{f.load} %", _slowdown(f, "SJF"), _slowdown(f, "Packer"), f"{f.means[f.best_tetris]:.2f} ({f.best_tetris[7:]})",
         _slowdown(f, "Random"), str(f.agent), ", ".join(_slowdown(f, name) for name in f.agents), f"{f.trained} %", _percent(f.gain),
         str(sum(f.unfinished[a] for a in f.agents)))
        for f in found
    ]  # fmt: skip
    return "\n\n".join(
        ["## Load (figure 4)",
         "![Slowdown by load](deeprm-load.svg)",
         markdown_table([("load", "SJF", "Packer", "best Tetris (knob)", "Random", "DeepRM", "each seed", "trained at",
                          "below the best", "unfinished"), *rows]),
         "Mean slowdown over all jobs of all job sets; in brackets the interval of 95 % of the mean over the "
         "agents' seeds, by resampling job sets; *trained at*: the training whose agents are the best at this load, "
         "chosen on these sets, as the knobs of the rules are; *below the best*: how much less the agents' mean is than that of the "
         "best of SJF, Packer and Tetris, set by set; *unfinished*: jobs of these agents that did not end.",
         "### All agents at all loads",
         _by_training(found)]
    )  # fmt: skip


def _by_training(found: Sequence[AtLoad]) -> str:
    """Return the table of all trainings at all loads."""
    trainings = list(found[0].by_training)
    rows = [(f"{f.load} %", *(str(f.by_training[at]) for at in trainings)) for f in found]
    return markdown_table([("load", *(f"trained at {at} %" for at in trainings)), *rows])


def _objectives(slowdown: AtLoad, completion: AtLoad) -> str:
    labels = ["SJF", "Packer", slowdown.best_tetris, "Random"]
    rows = [
        (label, _slowdown(slowdown, label), f"{completion.means[label]:.1f}") for label in labels
    ]
    for name, agents in (("slowdown", slowdown.agents), ("completion time", completion.agents)):
        rows.append((f"DeepRM for {name}", f"{_mean_of(slowdown, agents):.2f}",
                     f"{_mean_of(completion, agents):.1f}"))  # fmt: skip
    return "\n\n".join(
        ["## Two objectives at 130 % (figure 5)",
         markdown_table([("", "mean slowdown", "mean completion time, steps"), *rows])]
    )  # fmt: skip


def _between(values: pl.Series) -> str:
    """Return the smallest and the largest of some values, or a single value."""
    return "–".join(
        dict.fromkeys(f"{end:.2f}" for end in sorted(values)[:: max(1, len(values) - 1)])
    )


def _learning(curves: pl.DataFrame, at_70: AtLoad, setting: DeepRMSetting) -> str:
    rows = []
    fresh = _curves_of(curves, [DeepRMRun(70, s) for s in range(setting.seeds)])
    fixed = _curves_of(curves, [DeepRMRun(70, 0, fresh=False)])
    for iteration in (0, 50, 100, 200, 300, 400, 600, 800, 1000):
        cells = [
            table.filter(pl.col("iteration") == iteration)["held_out_slowdown"].drop_nulls()
            for table in (fresh, fixed)
        ]
        if any(len(cell) for cell in cells):
            shown = [_between(cell) for cell in cells]
            rows.append((f"{iteration:,}", *shown))
    return "\n\n".join(
        ["## Learning at 70 % (figure 6)",
         "![Learning curves](deeprm-learning.svg)",
         markdown_table([("iteration", f"fresh job sets, {counted(setting.seeds, 'seed')}",
                          "the paper's fixed ones, 1 seed"), *rows]),
         f"Slowdown on the {setting.held_out} unseen job sets, all jobs counted, actions drawn from the policy. "
         f"SJF: {at_70.means['SJF']:.2f}."]
    )  # fmt: skip


def _withheld(found: Withheld) -> str:
    rows = [
        (str(length), f"{found.present[length]:,}", f"{found.lengths.get(length, 0):,}",
         f"{found.slowdown[length]:.2f}", f"{found.slowdown_of_tetris[length]:.2f}")
        for length in sorted(found.present)
    ]  # fmt: skip
    return "\n\n".join(
        [f"## What is withheld at {found.load} % (figure 7)",
         "![Withheld jobs](deeprm-withheld.svg)",
         markdown_table([("length", "jobs", "withheld in some step", "slowdown, DeepRM", "slowdown, Tetris"), *rows]),
         "A job is withheld if it is in a slot and would fit at once, but a step passes. All agents of the load "
         "together; for Tetris, one run of each job set."]
    )  # fmt: skip


def _other_rules(found: Sequence[AtLoad]) -> str:
    rows = [
        (f"{f.load} %", str(f.agent), f"{f.means[f.best_reserving]:.2f} ({f.best_reserving})",
         _percent(f.gain_over_reserving), f"{f.means[f.best_withholding]:.2f} ({f.best_withholding})",
         _percent(f.gain_over_withholding))
        for f in found
    ]  # fmt: skip
    return "\n\n".join(
        ["## Reservations",
         "An agent may give a job a place in the future; the paper's heuristics start it now or not at all. "
         "*Reserving* versions of SJF and of Tetris, with each knob, may do the same.",
         "## A rule that withholds",
         "SJF that starts a long job only if a number of units of each resource stay free, or after a number of "
         "steps ([`slotted-headroom`](../reference/policies.md)). It is the strategy that the paper sees the agent "
         "learn, in a dozen lines. Long jobs can be put off at loads above 100 % only because of the setting: jobs "
         "arrive for 50 steps, and what is put off runs when no more jobs arrive. With continuing arrivals, a load "
         "above 100 % leaves no such time.",
         markdown_table([("load", "DeepRM", "best reserving rule", "DeepRM below it", "best withholding rule",
                          "DeepRM below it"), *rows]),
         "The best knob, headroom and patience are chosen on the same sets that are shown, which favours the rules."]
    )  # fmt: skip


def _setting(setting: DeepRMSetting) -> str:
    loads = ", ".join(f"{load} %" for load in setting.trained)
    rates = ", ".join(f"{RATES[load]:g} ({load} %)" for load in setting.judged)
    return f"""## Setting

- **Jobs.** As in the original code, not as in the text, whose demands reach no load above 92 %: a job a step with a
  probability of {rates}; 49 steps with arrivals; `workload: {{type: deeprm}}`. Judged on the first
  {setting.held_out} of the original's unseen job sets, until all is done.
- **Training.** {setting.iterations} iterations at {loads}, {counted(setting.seeds, "seed")} each ({setting.further_seeds}
  at {HIGHEST} % and for the completion time), {setting.job_sets} fresh job sets an iteration, {setting.rollouts} rollouts of each; one training of {setting.long_iterations:,}
  iterations on {setting.job_sets} fixed sets, as in the paper. Every agent trained for slowdown
  is judged at every load. The agents of the last iteration are judged, not the best iteration on these sets.
- **Agents** draw their actions from the policy, as in training: one that always takes the likeliest may leave a job
  waiting for ever. After 200 steps in which a task would fit and none is placed, one is placed by force. All jobs count, ended or not.
- **Judging** is done by the ordinary engine (`simkit evaluate`), training by the lock-step environment, which tests
  hold equal to it."""


def _table(found: Sequence[AtLoad]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"load": f.load, "label": label, "mean_slowdown": mean,
             "unfinished": f.unfinished[label]}
            for f in found
            for label, mean in f.means.items()
        ]
    )  # fmt: skip


def _curves_of(curves: pl.DataFrame, tasks: Iterable[DeepRMRun]) -> pl.DataFrame:
    return curves.filter(curves["training"].is_in([task.name for task in tasks]))


def _slowdown(found: AtLoad, label: str) -> str:
    return f"{found.means[label]:.2f}"


def _mean_of(found: AtLoad, labels: Sequence[str]) -> float:
    return sum(found.means[label] for label in labels) / len(labels)


def _percent(estimate: RatioEstimate) -> str:
    return f"{100 * estimate.value:.0f} % [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def _long_jobs(jobs: dict[int, int]) -> int:
    return sum(count for length, count in jobs.items() if length > SHORT)


def _share(part: int, lengths: dict[int, int]) -> str:
    return f"{part / max(sum(lengths.values()), 1):.1%}"
