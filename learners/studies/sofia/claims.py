"""The claims of the Sofia study."""

from __future__ import annotations

from typing import Final

from simkit.learners.studies.page import CONFIRMED, NOT_CONFIRMED, Claim, judged
from simkit.learners.studies.results import Results
from simkit.learners.studies.sofia.curves import RETURN, SLOWDOWN, change, saving
from simkit.learners.studies.sofia.trainings import NATURAL


def _diverges(results: Results) -> str:
    falls = judged(change(results, SLOWDOWN, NATURAL), "<", 0.0) == CONFIRMED
    return NOT_CONFIRMED if falls else CONFIRMED


CLAIMS: Final = (
    Claim("natural gradient", "It “could not converge”.",
          "Held-out slowdown {{number: held_out_slowdown | natural gradient | untrained}} untrained, {{number: held_out_slowdown | natural gradient | trained}} trained; with tuned Adam {{number: held_out_slowdown | Adam, tuned | trained}}.",
          _diverges,
          ("It forms the Fisher matrix of each layer, 27,600 squared for the first, which does not fit into memory, and its pseudo-inverse, without damping.",)),
    Claim("natural gradient", "It was meant to converge faster.",
          "To the same return: {{number: samples, % of Adam, tuned : .0f ±}} % of tuned Adam's samples.",
          lambda results: judged(saving(results, NATURAL, "Adam, tuned"), "<", 1.0, 1.0), ("–",)),
    Claim("natural gradient", "It slows training down “by a factor of 4 per iteration”.",
          "A factor of {{number: processor_ms | natural | cost of an iteration | over=gradient : .2f ±}}.",
          "processor_ms | natural | cost of an iteration | over=gradient >= 4",
          ("It sums outer products of gradients.",)),
    Claim("figure 4", "The agent is “slightly better” than SJF.",
          "All jobs: agent {{number: slowdown | natural gradient | 0.7}}, SJF {{number: slowdown | SJF, reserving best | 0.7}}, and {{number: slowdown | SJF | 0.7}} if it starts jobs only now.",
          "slowdown | natural gradient | 0.7 | less=SJF, reserving best < 0",
          ("Jobs that are unfinished after 150 steps are left out.",)),
    Claim("figure 4", "The agent wins by keeping resources free for small jobs that will arrive.",
          "All jobs are there at step 0, likewise.", "",
          ("No job arrives later: slots and backlog take in all of them at step 0.",)),
    Claim("figure 4", "SJF is better than Packer.",
          "Reserving: {{number: slowdown | SJF, reserving best | 0.7}} and {{number: slowdown | Packer, reserving best | 0.7}}; not: {{number: slowdown | SJF | 0.7}} and {{number: slowdown | Packer | 0.7}}.",
          "slowdown | Packer, reserving best | 0.7 | less=SJF, reserving best > 0",
          ("Both may start jobs later than now.",)),
    Claim("load", "L = Q + M is “around 70–80 %”.",
          "L over all steps: {{number: load | natural gradient | first iteration}} untrained, {{number: load | natural gradient | last iteration}} trained.", "",
          ("0.7 is the rate of jobs; L goes up to 2, and is read at the last step.",)),
    Claim("figure 3", "The “mean final reward” grows.",
          "The return: {{number: held_out_return | natural gradient | untrained : ,.0f}} untrained, {{number: held_out_return | natural gradient | trained : ,.0f}} trained.",
          lambda results: judged(change(results, RETURN, NATURAL), "<", 0.0),
          ("It is the reward of step 150 alone, 0 once all is done.",)),
)  # fmt: skip
