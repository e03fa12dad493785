"""The page of the Sofia study: what it claims, what its program does, and what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from simkit.analysis.plot_style import save_picture
from simkit.learners.reproductions.sofia.judge import CUT, REFERENCE, Score
from simkit.learners.reproductions.sofia.pictures import draw_curves, draw_figure_4
from simkit.learners.reproductions.sofia.study import LOOKS, RATE, SofiaSetting
from simkit.learners.reproductions.sofia.tables import (
    Results,
    claims,
    cost,
    ends,
    figure_4,
    levels,
    loads,
    orders,
    pilots,
    rates,
    savings,
)
from simkit.text import counted

NAME: Final = "sofia"
RESULT: Final = """\
- **The natural gradient converges.** The held-out slowdown fell in all 3 trainings, by 19 %, 18 %
  and 18 %.
- **It needs fewer samples than REINFORCE.** To the same return it takes 15 % of tuned Adam's samples
  (8 to 26 % over seeds) and 20 % of those of Adam 0.001 (17 to 23 %), fewer with every seed.
- **PPO on the same network is the better one.** The natural gradient takes 131 % of its samples (117
  to 147 %) to the same return, more with every seed; in the end the slowdown is 9.58 with PPO and
  9.65 with the natural gradient. Both were tuned by pilots.
- **An iteration costs less than twice a plain one:** 1.19 times, with Fisher products over a tenth
  of the decisions; 3.33 times over all of them.
- **With all jobs counted, the study's agents are worse than its SJF, which reserves:** the natural
  gradient has a slowdown of 9.65 against 8.74, 10 % above. All 3 trainings are above, and the
  difference is 0.85 to 0.97 over batches.
- **Our recipe is level with that SJF, not below it:** greedy it has 8.75, and the difference is -0.04
  to 0.05 over batches, with every seed. It learns to order jobs as SJF does, and finds no more: the
  orders that are better differ from SJF's by 1 % of the return, much less than two rollouts of one
  order do. A rule of two numbers that a grid found, small and soon first, has 8.64, and is below SJF
  by 0.06 to 0.15.
- **The study's agents are better than SJF that starts jobs only now:** 9 % below its 10.57, in all 3
  trainings.
- **Counting only the jobs that finish in 150 steps flatters 9 of 18**, most of all Packer: 12.03
  instead of 17.25, with 67 % of the jobs finished. Small and soon first is first by both counts.
- **Always taking the likeliest action,** as the study's evaluation does, gives 12.26 instead of 9.65
  with all jobs counted, and 9.58 instead of 9.62 by the study's count, with 84 % of the jobs
  finished: worse than the study's SJF by both counts.
- **A published order can rest on the count.** The agent that takes the likeliest actions is ahead
  of Packer, which reserves, by the study's count at all four rates, and behind it with all jobs
  counted. At a rate of 0.3 it is 4.09 instead of 15.56, with 77 % of the jobs finished. It is never
  ahead of SJF."""
"""Written by hand from the full version; a test holds its numbers to the committed tables."""


def write_page(results: Results, folder: Path, *, quick: bool = False) -> Path:
    """Write sofia.md, its two pictures and its two tables; return the page."""
    looks = [row for some in results.curves.values() for curve in some for row in curve.as_rows()]
    pl.DataFrame(looks, infer_schema_length=None).write_csv(
        folder / f"{NAME}-curves.csv", float_precision=4
    )
    judged = pl.DataFrame([_as_row(score) for score in results.scores], infer_schema_length=None)
    judged.write_csv(folder / f"{NAME}-judged.csv", float_precision=4)
    lines = {name: results.here[name].everyone.value for name in ("SJF", REFERENCE)}
    save_picture(folder / f"{NAME}-curves.svg", lambda: draw_curves(results.curves, lines))
    save_picture(folder / f"{NAME}-figure4.svg", lambda: draw_figure_4(results.scores))
    page = folder / f"{NAME}.md"
    parts = (_head(results, quick), _setting(results.setting), _training(results), _play(results))
    page.write_text("\n".join(parts), "utf-8")
    return page


def _as_row(score: Score) -> dict[str, object]:
    row: dict[str, object] = {
        "rate": score.rate, "label": score.label, "trainings": len(score.seeds),
        "batches": score.batches,
    }  # fmt: skip
    estimates = {
        "slowdown": score.everyone, "slowdown_at_cut": score.at_cut,
        "less_reserving_sjf": score.apart,
    }  # fmt: skip
    for name, one in estimates.items():
        row[name] = one and one.value
        row[f"{name}_low"] = one and one.interval.low
        row[f"{name}_high"] = one and one.interval.high
    return row | {"done_at_cut": score.done_at_cut, "unfinished": score.unfinished}


def _head(results: Results, quick: bool) -> str:
    option = " --quick" if quick else ""
    small = "**A small version:** it shows the steps; its numbers decide nothing.\n\n"
    result = "Conclusions are drawn from the full version only." if quick else RESULT
    return f"""# Natural gradient and figure 4 of the Sofia study

**Question.** Does the natural policy gradient converge on the Sofia study's scheduling problem,
does it need fewer samples than plain REINFORCE, and at what cost? Is the study's agent better than
SJF when every job counts?

**Reference.** "Resource management with deep reinforcement learning" (Sofia University, 2021),
after the DeepRM paper (HotNets 2016), and its public program, which was read and run.

**Command.** It writes this page, its pictures and its tables; an interrupted run goes on.

```text
simkit reproduce sofia{option}
```

{small if quick else ""}## Claims

{claims(results)}

## Result

{result}
"""


def _setting(setting: SofiaSetting) -> str:
    seeds, iterations = counted(setting.seeds, "seed"), setting.iterations
    every = counted(setting.held_out_every, "iteration")
    return f"""## Setting

The scenario is `sofia`: a pool of 50 units of two resources, and a batch of about {100 * RATE:g}
jobs, all there at step 0, ten of them in slots and the others behind. An iteration plays 5 batches,
20 times each, as in the study; they are drawn anew each time, where the study trains on the same
five. The network is the study's: 1,380 inputs, 20 hidden units, 11 actions; its compact
observation, as shares of the capacity. What else differs from the study's program:

- Every decision is credited. The program credits only the first one of a step.
- An episode goes on to its end. The program stops after {CUT} steps, and counts the steps that a
  rollout no longer needed as decisions better than the mean.
- Advantages are divided by their spread, and there is no penalty on weights.

Each method is trained for {iterations} iterations with {seeds}; the study shows 1,000. Every
{every} the agent plays the same 20 held-out batches, actions drawn from its policy;
values are means of {LOOKS} such judgements in a row, and intervals are Student's, of 95 %, over seeds.
*Samples* are decisions in training. A *tuned* method has the best of several values of one number,
its learning rate or, the natural gradient, its bound on a step.

*PPO, same network* differs from the natural gradient in the update alone. *Our recipe* is the
learner `ppo`: one scorer for all slots, which sees how long each task has waited and when it can
start, 20 batches of 8 rollouts an iteration, and a place for every task that fits before a step may
pass, as reserving heuristics do.
"""


def _training(results: Results) -> str:
    setting = results.setting
    timed = counted(setting.timed, "iteration")
    return f"""Tuned numbers are the best of pilots, by the held-out slowdown at their end; a pilot has
{setting.pilot_iterations} iterations and a seed of its own:

{pilots(results)}

Pilots are short and have one seed, so another value may be better in the long run. Adam with 0.001
is what the study says; rmsprop, which its program has switched off, was not tried.

## Convergence and samples

![Held-out slowdown and return over samples](sofia-curves.svg)

Thin lines are single trainings, bands the intervals of the means. The dashed lines are heuristics
on the batches of figure 4 below, which are others of the same kind. All judgements:
[sofia-curves.csv](sofia-curves.csv).

{ends(results)}

Samples to a slowdown of the held-out batches, in thousand decisions; the mean over the seeds that
came there.

{levels(results)}

Samples that the natural gradient takes to the same return as another method, as a share of that
one's, seed by seed. The return is the worse of the two that the trainings end with:

{savings(results)}

## Cost of an iteration

{cost(results)}

Processor time, playing included, of {timed} each, which took turns in one process, from
untrained weights on. At most 10 products with the Fisher matrix are made, over a tenth of the
decisions, drawn at random. The matrix itself, 27,851 squared, is never formed; a damping of 0.01
and a bound on a step's mean KL divergence, here 0.01 nats, keep out the negative roots that the study
met. `tests/benchmarks/test_training_speed.py` holds the ratio below 2.
"""


def _play(results: Results) -> str:
    batches = counted(results.setting.batches[RATE], "held-out batch", "held-out batches")
    left = sum(score.unfinished for score in results.scores)
    return f"""## Figure 4, every job counted

The study's program plays {CUT} steps and averages over the jobs that are finished by then. Run as
it is, with the agent that comes with it, it says 2.548, and 3.374 for SJF and 5.307 for Packer: the
order of the figure. But that agent has finished 13 of the 31 jobs, and the heuristics all. Here,
every batch is played to its end, and both counts are taken of the same play: over all jobs, and
over those that were finished after {CUT} steps.

![Both counts, and the slowdown of all jobs over the number of jobs](sofia-figure4.svg)

At {RATE:g} jobs a position, as in the training, on {batches}; means over jobs, those of
agents the mean over seeds, with intervals of 95 % over batches. *Less SJF, reserving* is the
difference to SJF, reserving best, of all jobs, paired by batch.

{figure_4(results)}

Jobs that never finished, over all rates: {left}. They count with their slowdown so far.

*Reserving* heuristics may place a job into the future, as agents may, and the study's own SJF and
Packer: *best* withholds the resources that the best scored job will need, *rest* withholds nothing from
jobs that fit now. The study's Packer scores what would be left after each start within the horizon; ours
scores what is there now. Agents draw their actions; *greedy* takes the likeliest one, as the study
does, but places a task that fits after 200 steps without a start, so that it ends; its slowdown of
all jobs depends on that number.

The order of the figure, by both counts: the study's SJF and Packer, which reserve, and the natural
gradient's agents, trained at {RATE:g} and playing at other rates as well. The batch that comes
with the study has 31 jobs, as many as a batch at a rate of 0.3.

{orders(results)}

Slowdown of all jobs by the probability of a job at each of 100 positions; intervals are in
[sofia-judged.csv](sofia-judged.csv):

{rates(results)}

## Their measure of load

L = Q + M: Q is the share of slots that hold a job, M the share of the units in the steps ahead that
are held. It is at most 2 and falls as a batch is worked off; tasks behind the slots are not
part of it. The program reads it at an episode's last step, so it measures what is left over; at
step {CUT}, a batch that is done counts as 0 below. Each number is of the batches of one iteration.

{loads(results)}
"""
