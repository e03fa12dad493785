"""The reproduction of SchedQRM: its kinds of training, what is judged and how."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")

from simkit.learners.reproductions.schedqrm import study
from simkit.learners.reproductions.schedqrm.judge import gap, meets_bar
from simkit.learners.reproductions.schedqrm.price import taken_for
from simkit.learners.reproductions.schedqrm.study import (
    KINDS,
    LADDER,
    LOADS,
    WHOLE,
    Agent,
    agents,
    scenario_of,
)

TINY = study.SchedQRMSetting(1, 2, 60, 6, ("paper", WHOLE, study.PPO), 2)


def test_every_kind_of_training_can_begin():
    from simkit import plugins

    names = set()
    for seed in range(2):
        for kind in KINDS:
            for online in (False, True):
                agent = Agent(kind, seed, online)
                scenario = scenario_of(agent, TINY)
                learn = scenario.learn
                assert learn is not None
                names.add(agent.name)
                if not (seed or online):
                    begin = plugins.find("simkit.learners", learn.learner)
                    begin(scenario, learn.all_arguments, seed=seed, device="cpu")
    assert len(names) == 4 * len(KINDS)
    assert LADDER[WHOLE]["double"]
    assert len(list(agents(study.FULL))) == 3 * len(KINDS)


def rows(candidate: str, seed: int, load: int, slowdown: list[float]) -> pl.DataFrame:
    return pl.DataFrame({
        "candidate": candidate, "seed": seed, "load": load, "set": range(len(slowdown)),
        "class": 1, "slowdown": slowdown,
    })  # fmt: skip


def test_the_bar():
    rng = np.random.default_rng(0)
    rule, tables = rng.uniform(2, 5, 40), []
    for load in LOADS:
        below = 0.005 if load < 100 else -0.2
        tables.append(rows("sjf-in-order", 0, load, rule.tolist()))
        tables.append(rows("good", 0, load, (rule + below + rng.normal(0, 0.01, 40)).tolist()))
        tables.append(rows("level", 0, load, (rule + rng.normal(0, 0.3, 40)).tolist()))
        tables.append(rows("lost", 0, load, [*rule[:-1].tolist(), np.inf]))
    judged = pl.concat(tables)
    assert meets_bar(judged, "good", 0)
    assert not meets_bar(judged, "level", 0)
    assert not meets_bar(judged, "lost", 0)
    found = gap(judged, "good", 0, 200)
    assert found.is_below
    assert found.value == pytest.approx(-0.2, abs=0.02)
    assert str(gap(judged, "lost", 0, 200)) == "never done"


def test_classes_are_mistaken_as_often_as_is_said():
    shares = np.full((10, 10), 0.0)
    shares[:, 2] = 0.25
    shares[np.arange(10), np.arange(10)] += 0.75
    length = np.repeat(np.arange(11), 4000).reshape(11, -1)
    found = taken_for(length, shares, np.random.default_rng(1))
    assert (found[0] == 0).all()  # padding
    assert (found[3] == 3).all()
    for n in (1, 5, 10):
        assert (found[n] == n).mean() == pytest.approx(0.75, abs=0.03)
        assert ((found[n] == n) | (found[n] == 3)).all()
