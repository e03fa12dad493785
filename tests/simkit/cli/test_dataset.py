"""`simkit dataset`: what each command says, and that a mistake is told in a sentence."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from children import SIMKIT, child

from simkit.gym.dataset import read_dataset

READY = (
    "--set", "policy.backfill={type: ready-pool, horizon: 12h}", "--set", "workload.jobs=60",
    "--actions", "ready-pool", "--env", "action_arguments.max_start=12",
)  # fmt: skip


@pytest.fixture
def recorded(simkit):
    """Return the folder with two datasets, of three episodes each."""
    for order in ("qos", "sjf"):
        done = simkit(
            "dataset", "record", "rare", "-o", f"{order}.parquet", "--episodes", 3, *READY,
            "--set", f"policy.order={order}", "--name", order,
        )  # fmt: skip
        assert done.code == 0, done.err
    return Path.cwd()


def test_record_show_mix_and_export(simkit, recorded):
    shown = simkit("dataset", "show", "qos.parquet")
    assert shown.code == 0, shown.err
    data = read_dataset(recorded / "qos.parquet")
    decisions = int((data.action >= 0).sum())
    assert f"Decisions   {decisions:,} of 3 episodes, 3 terminated and 0 truncated" in shown.out
    assert f"{data.reward.sum() / 3:,.4g} an episode: value" in shown.out
    assert "an episode: wait" in shown.out
    assert "Observation ready-set, 252 numbers" in shown.out
    done = simkit("dataset", "mix", "qos.parquet=0.5", "sjf.parquet=0.5", "-o", "m.parquet")
    assert done.code == 0, done.err
    mixed = read_dataset(recorded / "m.parquet")
    share = ((mixed.behaviour == mixed.names.index("qos")) & (mixed.action >= 0)).sum() / (
        mixed.action >= 0
    ).sum()
    (row,) = [line for line in done.out.splitlines() if line.startswith("qos.parquet")]
    assert row.split()[1:3] == ["50.0%", f"{share:.1%}"]
    pytest.importorskip("h5py")
    done = simkit(
        "dataset", "export", "m.parquet", "--minari", "rare-v0", "--d3rlpy", "rare.h5"
    )  # fmt: skip
    assert done.out == "rare-v0 written (minari)\nrare.h5 written (d3rlpy)\n"


def test_seeds_and_arguments_of_the_environment(simkit):
    done = simkit(
        "dataset", "record", "quickstart", "-o", "a.parquet", "--seeds", "3,5..6",
        "--set", "policy.backfill=none", "--slots", 400, "--max-decisions", 20,
        "--env", "episode.jobs=30", "--env", "episode.from=all",
        "--env", "reward.slowdown=1", "--env", "reward.wait=0.5",
    )  # fmt: skip
    assert done.out == "a.parquet written: 60 decisions of 3 episodes\n", done.err
    data = read_dataset(Path("a.parquet"))
    assert data.seed is not None
    assert sorted(set(data.seed.tolist())) == [3, 5, 6]
    assert data.truncated.sum() == 3
    assert data.facts["episode"] == {"jobs": 30, "from": "all"}
    assert data.facts["reward"]["reward"] == {"slowdown": 1, "wait": 0.5}
    shown = simkit("dataset", "show", "a.parquet")
    assert "an episode: 1 slowdown + 0.5 wait" in shown.out
    assert "Actions     place" in shown.out


MISTAKES = [
    # (words after `simkit dataset`, exit code, what is said)
    ("record rere -o b.parquet", 2, "rere: there is no such file"),
    ("record rare -o nowhere/b.parquet", 2, "nowhere/b.parquet: there is no folder nowhere"),
    (
        "record rare -o b.parquet --env slot=3",
        2,
        "environment.slot: unknown key; did you mean 'slots'?",
    ),
    ("record rare -o b.parquet --env slots=3 --slots 4", 2, "--env slots: is given twice"),
    (
        "record rare -o b.parquet --reward value --env reward.wait=1",
        2,
        "--env reward.wait: reward is",
    ),
    ("record rare -o b.parquet --seeds x", 2, "'x' is not a seed"),
    ("record rare -o b.parquet --seeds 1 --episodes 2", 2, "leave out --episodes"),
    ("record empty.yaml -o b.parquet", 3, "no job"),
    ("show b.parquet", 2, "b.parquet: there is no such file"),
    ("export b.parquet --d3rlpy b.h5", 2, "b.parquet: there is no such file"),
    ("export b.parquet", 2, "say what to write"),
    ("mix a.parquet b.parquet=0.5 -o c.parquet", 2, "a.parquet: is no dataset with a share"),
    ("mix a.parquet=0.5 a.parquet=0.5 -o c.parquet", 2, "a.parquet: is given twice"),
]


@pytest.mark.parametrize(("words", "code", "said"), MISTAKES)
def test_mistakes_are_told_in_a_sentence(words, code, said, simkit):
    Path("empty.yaml").write_text(
        "workload: {type: deeprm, rate: 0.0001}\ncluster: {machines: [{count: 1, cpu: 9, mem: 9}]}\n"
    )
    done = simkit("dataset", *words.split())
    assert done.code == code, done
    assert said in done.err
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["empty.yaml"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_an_interruption_leaves_nothing(tmp_path):
    words = ["dataset", "record", "rare", "-o", "a.parquet", "--episodes", "1000", *READY]
    with child([*SIMKIT, *words], tmp_path, stderr=subprocess.PIPE) as process:
        limit = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted; nothing was written\n")
    assert list(tmp_path.iterdir()) == []
