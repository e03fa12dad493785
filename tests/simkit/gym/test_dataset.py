"""The file of a dataset: what is written is read back, and a wrong file is refused in words."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from simkit.errors import RunError
from simkit.gym.dataset import Dataset, read_dataset, write_dataset, writing_dataset

FACTS = {"scenario": "rare", "reward": {"name": "value"}}


def dataset(lengths=(2, 3), size=4, actions=3, names=("qos", "sjf"), seed=0) -> Dataset:
    """Return episodes of so many decisions, of random numbers."""
    rng = np.random.default_rng(seed)
    rows = sum(lengths) + len(lengths)
    last = np.zeros(rows, bool)
    last[np.cumsum(np.array(lengths) + 1) - 1] = True
    final = np.append(last[1:], False)
    cut = rng.random(rows) < 0.5
    number = lambda: np.where(last, 0.0, rng.random(rows))  # noqa: E731
    return Dataset(
        observation=rng.random((rows, size), np.float32),
        mask=rng.random((rows, actions)) < 0.5,
        action=np.where(last, -1, rng.integers(actions, size=rows)),
        reward=number(), cost=number(), passed_s=number(), probability=number(),
        behaviour=np.repeat(np.arange(len(lengths)) % len(names), np.array(lengths) + 1), names=names,
        episode=np.repeat(np.arange(len(lengths)), np.array(lengths) + 1),
        terminated=final & ~cut, truncated=final & cut, facts=FACTS,
        seed=np.repeat(np.arange(len(lengths)), np.array(lengths) + 1) + 7,
    )  # fmt: skip


def assert_same(one: Dataset, other: Dataset) -> None:
    for field in fields(Dataset):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype, field.name
            assert_array_equal(mine, theirs, field.name)
        else:
            assert mine == theirs, field.name


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 5), st.integers(1, 9),
    st.integers(0, 99),
)  # fmt: skip
@settings(deadline=None, max_examples=30)
def test_what_is_written_is_read_back(tmp_path_factory, lengths, size, actions, seed):
    path = tmp_path_factory.mktemp("dataset") / "a.parquet"
    data = dataset(tuple(lengths), size, actions, ("qos", "sjf")[: len(lengths)], seed)
    write_dataset(path, data)
    assert_same(read_dataset(path), data)
    again = path.with_name("b.parquet")
    write_dataset(again, data)
    assert again.read_bytes() == path.read_bytes()


def test_last_rows_say_nothing_of_an_action(tmp_path):
    """Other tools see nulls there, and the policy by its name."""
    write_dataset(tmp_path / "a.parquet", dataset((1, 1)))
    table = pl.read_parquet(tmp_path / "a.parquet")
    for name in ("action", "reward", "cost", "passed_s", "probability"):
        assert table[name].is_null().to_list() == [False, True, False, True], name
    assert table["behaviour"].to_list() == ["qos", "qos", "sjf", "sjf"]
    assert table.schema["observation"] == pl.Array(pl.Float32, 4)
    assert table.schema["mask"] == pl.Array(pl.Boolean, 3)


def test_parts_with_other_names_are_told_apart(tmp_path):
    """Each part that is written may know other policies."""
    path = tmp_path / "a.parquet"
    one, other = dataset((2,), names=("qos",)), dataset((3,), names=("sjf",), seed=1)
    columns = [{f.name: getattr(part, f.name) for f in fields(Dataset)} for part in (one, other)]
    columns[1]["episode"] = columns[1]["episode"] + 1
    with writing_dataset(path, 4, 3, FACTS) as file:
        file.write(columns[0], one.names)
        file.write(columns[1], other.names)
    found = read_dataset(path)
    named = [found.names[index] for index in found.behaviour]
    assert named == ["qos"] * 3 + ["sjf"] * 4
    assert found.starts.tolist() == [0, 3, 7]


WRONG = [
    # (what is changed, what is said)
    (lambda d: replace(d, action=d.action[:-1]), "observation has 7, .*all columns must have the same number"),
    (lambda d: replace(d, action=np.where(d.action < 0, 0, d.action)), "no action"),
    (lambda d: replace(d, action=np.where(d.action < 0, -1, 3)), "an action is 3, but the mask has 3"),
    (lambda d: replace(d, episode=np.array([0, 0, 0, 1, 1, 0, 0])), "do not stand together"),
    (lambda d: replace(d, terminated=d.terminated | d.truncated, truncated=d.terminated | d.truncated),
     "either terminated or truncated"),
    (lambda d: replace(d, terminated=np.zeros(7, bool), truncated=np.zeros(7, bool)), "either terminated or truncated"),
    (lambda d: replace(d, names=("qos",)), "a behaviour is none of the 1 names"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_columns_must_fit_together(change, said):
    with pytest.raises(RunError, match=said):
        change(dataset(seed=3))


def interrupted(path: Path) -> None:
    """Write a dataset, and be interrupted before its end."""
    data = dataset()
    with writing_dataset(path, 4, 3, FACTS) as file:
        file.write({f.name: getattr(data, f.name) for f in fields(Dataset)}, data.names)
        raise KeyboardInterrupt


def test_nothing_is_left_of_an_interrupted_file(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def foreign(path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(path)


def text(path: Path) -> None:
    path.write_text("a,b\n1,2\n")


def no_rows(path: Path) -> None:
    with writing_dataset(path, 4, 3, FACTS):
        pass


def newer(path: Path) -> None:
    schema = pq.read_schema(path)
    told = schema.metadata[b"simkit-dataset"].replace(b'"format": 1', b'"format": 9')
    table = pq.read_table(path).replace_schema_metadata({b"simkit-dataset": told})
    pq.write_table(table, path)


def a_column_less(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["mask"]), path)


def no_last_row(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 1), path)


def scrambled(path: Path) -> None:
    table = pq.read_table(path)
    told = {b"simkit-dataset": b"{"}
    pq.write_table(
        pa.Table.from_arrays(table.columns, table.column_names).replace_schema_metadata(told), path
    )


BROKEN = {
    "missing": (Path.unlink, "there is no such file; record one"),
    "cut": (cut, "is not a dataset of simkit, or damaged"),
    "text": (text, "is not a dataset of simkit, or damaged"),
    "foreign": (foreign, "is a table, but not simkit"),
    "no rows": (no_rows, "holds no decision"),
    "newer": (newer, "has the format 9, this simkit reads 1; update simkit"),
    "a column less": (a_column_less, "is not a dataset of simkit, or damaged"),
    "scrambled": (scrambled, "is not a dataset of simkit, or damaged"),
    "no last row": (no_last_row, "not every episode ends with the one row that has no action"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_wrong_file_is_refused(case, tmp_path):
    path, (harm, said) = tmp_path / "a.parquet", BROKEN[case]
    write_dataset(path, dataset())
    harm(path)
    with pytest.raises(RunError, match=said) as caught:
        read_dataset(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).split("\n"))


def test_a_folder_is_no_dataset(tmp_path):
    with pytest.raises(RunError, match="is a folder"):
        read_dataset(tmp_path)
    with pytest.raises(RunError, match="is a folder"):
        write_dataset(tmp_path, dataset())
