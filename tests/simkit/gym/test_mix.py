"""A mix: whole episodes, no episode twice, shares as near as whole episodes allow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from simkit.agent.encoder import Field, ObservationSchema
from simkit.errors import RunError, ScenarioError
from simkit.gym.dataset import Dataset, kinds_of_actions, mix, read_dataset, summary, write_dataset

SCHEMA = ObservationSchema("seen", (Field("load", (2,), 0.0, 1.0, "1", "how much"),))
FACTS = {
    "observation": SCHEMA.as_json(),
    "actions": {"count": 3, "void": 2, "arguments": {"actions": "start"}},
    "reward": {"reward": "value", "arguments": {}},
    "cost": {"cost": "wait", "arguments": {}},
    "scenario": {"name": "rare"},
    "policies": ["a"],
}


def dataset(lengths, name, mark=0.0, **facts) -> Dataset:
    """Return episodes of so many decisions; an observation tells dataset, episode and row."""
    rows = [
        (number, row, row == length)
        for number, length in enumerate(lengths)
        for row in range(length + 1)
    ]
    episode, row, last = (np.array(column) for column in zip(*rows, strict=True))
    return Dataset(
        observation=np.stack((np.full(len(rows), mark), episode + row / 100), axis=1).astype(np.float32),
        mask=np.ones((len(rows), 3), bool), action=np.where(last, -1, row % 3),
        reward=np.where(last, 0.0, 1.0 + mark), cost=np.where(last, 0.0, row),
        passed_s=np.where(last, 0.0, 1800.0), probability=np.where(last, 0.0, 0.5),
        behaviour=np.zeros(len(rows), np.int64), names=(name,), episode=episode,
        terminated=np.append(last[1:], False) & (episode % 2 == 0),
        truncated=np.append(last[1:], False) & (episode % 2 == 1), facts=FACTS | facts,
    )  # fmt: skip


def written(folder: Path, **parts: Dataset) -> dict[str, Path]:
    for name, data in parts.items():
        write_dataset(folder / f"{name}.parquet", data)
    return {name: folder / f"{name}.parquet" for name in parts}


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=12),
    st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 9), st.integers(0, 5),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_shares_are_as_near_as_whole_episodes_allow(tmp_path_factory, ours, theirs, tenths, seed):
    folder = tmp_path_factory.mktemp("mix")
    one, other = dataset(ours, "a"), dataset(theirs, "b", mark=1.0)
    paths = written(folder, a=one, b=other)
    shares = {paths["a"]: tenths / 10, paths["b"]: 1 - tenths / 10}
    done = mix(shares, folder / "m.parquet", seed=seed)
    mixed = read_dataset(folder / "m.parquet")
    asked = min(sum(ours) / done[0].share, sum(theirs) / done[1].share)
    for part, lengths, name, mark in zip(done, (ours, theirs), "ab", (0.0, 1.0), strict=True):
        # half an episode beyond or before the share, but for the one that is taken at least
        most = max(lengths) if part.episodes == 1 else max(lengths) / 2
        assert abs(part.decisions - part.share * asked) <= most
        mine = (mixed.behaviour == mixed.names.index(name)) & (mixed.action >= 0)
        assert mine.sum() == part.decisions
        assert part.came == pytest.approx(mine.sum() / (mixed.action >= 0).sum())
        assert (mixed.observation[mine, 0] == mark).all()
        firsts = mixed.observation[mixed.starts[:-1]]
        whole = firsts[firsts[:, 0] == mark, 1]
        assert len(set(whole.tolist())) == len(whole) == part.episodes  # none twice
    for first, after in zip(mixed.starts, mixed.starts[1:], strict=False):
        source = one if mixed.observation[first, 0] == 0 else other
        begin = source.starts[round(float(mixed.observation[first, 1]))]
        end = begin + after - first
        assert source.action[end - 1] == -1
        assert_array_equal(mixed.observation[first:after], source.observation[begin:end])
        assert_array_equal(mixed.truncated[first:after], source.truncated[begin:end])


def test_a_number_of_decisions(tmp_path):
    paths = written(tmp_path, a=dataset([5] * 20, "a"), b=dataset([5] * 20, "b", 1.0))
    shares = {paths["a"]: 0.25, paths["b"]: 0.75}
    done = mix(shares, tmp_path / "m.parquet", decisions=80)
    assert [(part.decisions, part.came) for part in done] == [(20, 0.25), (60, 0.75)]
    facts = read_dataset(tmp_path / "m.parquet").facts
    assert facts["policies"] == ["a", "b"] or facts["policies"] == ["b", "a"]
    assert [(part["file"], part["share"]) for part in facts["mix"]] == [
        ("a.parquet", 0.25),
        ("b.parquet", 0.75),
    ]
    again = mix(shares, tmp_path / "n.parquet", decisions=80)
    assert again == done
    assert (tmp_path / "m.parquet").read_bytes() == (tmp_path / "n.parquet").read_bytes()
    mix(shares, tmp_path / "o.parquet", decisions=80, seed=1)
    assert (tmp_path / "m.parquet").read_bytes() != (tmp_path / "o.parquet").read_bytes()
    # and a mix can be mixed again
    mix({tmp_path / "m.parquet": 0.5, paths["a"]: 0.5}, tmp_path / "p.parquet")
    assert set(read_dataset(tmp_path / "p.parquet").names) == {"a", "b"}


def test_too_few_decisions_are_told_of_all(tmp_path):
    paths = written(tmp_path, a=dataset([5], "a"), b=dataset([9], "b"))
    with pytest.raises(RunError) as caught:
        mix({paths["a"]: 0.5, paths["b"]: 0.5}, tmp_path / "m.parquet", decisions=100)
    lines = str(caught.value).split("\n")
    assert ["a.parquet: has 5 decisions, its share of 100 is 50" in lines[0], len(lines)] == [
        True,
        2,
    ]
    assert "mix at most 10 in all" in lines[0]
    assert not (tmp_path / "m.parquet").exists()


WRONG_SHARES = [
    ([0.5, 0.6], "add up to 1.1; they must add up to 1"),
    ([1.5, -0.5], "the share is -0.5; it must be above 0"),
    ([1.0], "at least two datasets, here is one"),
    ([float("nan"), 0.5], "must be above 0"),
]


@pytest.mark.parametrize(("shares", "said"), WRONG_SHARES)
def test_wrong_shares(shares, said, tmp_path):
    given = {tmp_path / f"{row}.parquet": share for row, share in enumerate(shares)}
    with pytest.raises(ScenarioError, match=said):
        mix(given, tmp_path / "m.parquet")


def test_what_differs_is_told_all_at_once(tmp_path):
    wider = ObservationSchema("seen", (Field("load", (2,), 0.0, 2.0, "1", "how much"),))
    other = dataset(
        [3], "b", observation=wider.as_json(), reward={"reward": "wait", "arguments": {}},
        actions={"count": 3, "void": 2, "arguments": {}},
    )  # fmt: skip
    paths = written(tmp_path, a=dataset([3], "a"), b=other)
    with pytest.raises(RunError) as caught:
        mix({paths["a"]: 0.5, paths["b"]: 0.5}, tmp_path / "m.parquet")
    lines = str(caught.value).split("\n")
    assert len(lines) == 3
    for line, word in zip(
        lines,
        ("field load: high is 1.0 here", "actions: arguments", "reward: reward: value here"),
        strict=True,
    ):
        assert line.startswith(f"{paths['b']} cannot be mixed with {paths['a']}: ")
        assert word in line


def test_the_numbers_of_a_dataset():
    found = summary(dataset([3, 1], "a"))
    assert (found.rows, found.decisions, found.episodes) == (6, 4, 2)
    assert (found.terminated, found.truncated) == (1, 1)
    assert (found.reward, found.reward_of_episode) == (1.0, 2.0)
    assert (found.cost, found.cost_of_episode) == (3 / 4, 3 / 2)
    assert found.hours == 2.0
    assert found.actions == {"place": 3 / 4, "void": 1 / 4}
    (one,) = found.behaviours
    assert (one.name, one.decisions, one.share, one.reward, one.cost, one.probability) == (
        "a",
        4,
        1.0,
        1.0,
        0.75,
        0.5,
    )


KINDS = [
    # (arguments of the actions, numbers in all, kind -> how many)
    ({}, 6, {"place": 5, "do nothing": 1}),
    ({"suspend": 2}, 8, {"place": 5, "suspend": 2, "do nothing": 1}),
    ({"reject": True}, 11, {"place": 5, "reject": 5, "do nothing": 1}),
    ({"suspend": 2, "reject": True}, 13, {"place": 5, "suspend": 2, "reject": 5, "do nothing": 1}),
]


@pytest.mark.parametrize(("arguments", "count", "kinds"), KINDS)
def test_kinds_of_actions_of_a_ready_pool(arguments, count, kinds):
    told = {"arguments": {"actions": "ready-pool", "action_arguments": arguments}}
    data = dataset([2], "a", actions=told)
    found = kinds_of_actions(replace(data, mask=np.ones((3, count), bool)))
    assert {name: len(numbers) for name, numbers in found.items()} == kinds
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(count))
    if len(kinds) == 4:
        assert (found["reject"], found["suspend"]) == (range(5, 10), range(10, 12))
