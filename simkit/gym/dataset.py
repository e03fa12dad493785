"""A dataset: decisions of whole episodes in a Parquet file that says what it holds; summary, mixes.

    data = read_dataset(Path("qos.parquet"))
    data.observation[data.action >= 0]   # those that were acted on
    mix({Path("qos.parquet"): 0.5, Path("random.parquet"): 0.5}, Path("mixed.parquet"))

Each row is a decision: what was seen, which actions were offered, which was taken, and what came of
it until the next row. The last row of an episode shows what was seen at its end and has no action,
so that nothing is stored twice. The schema's metadata says in JSON what the numbers mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from math import isclose
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from simkit.agent.encoder import ObservationSchema, differing_entries
from simkit.arrays import Bools, Floats, Ints, stream
from simkit.errors import RunError, ScenarioError
from simkit.files import (
    SpecialFileError,
    TooMuchError,
    check_decoded,
    parse_json,
    refuse_special,
)
from simkit.results.output_folder import check_file, reason, whole_file
from simkit.text import counted

VERSION: Final = 1
"""Version of the format."""
ROWS: Final = 4096
"""Rows of a row group, if they are not very wide."""
NUMBERS: Final = ("reward", "cost", "passed_s", "probability")
"""Columns of numbers that the last row of an episode lacks."""
_FLAT: Final = ("episode", "terminated", "truncated")
_COLUMNS: Final = ("observation", "mask", "action", *NUMBERS, "behaviour", "seed", *_FLAT)
_KEY: Final = b"simkit-dataset"
_CELLS: Final = 8_000_000  # of the observations of a row group at most
_REMEDY = "record it again, or name another file"


@dataclass(frozen=True)
class Dataset:
    """Decisions of episodes, one after another; of each, the last row has no action.

    That row shows what was seen at the episode's end.

    Raises RunError, all problems at once, if the columns do not fit together.
    """

    observation: npt.NDArray[np.float32]
    """(N, K) what was seen; an image row by row."""
    mask: Bools
    """(N, M) which actions were offered."""
    action: Ints
    """(N,) the number of the action; -1 in last rows."""
    reward: Floats
    """(N,) what was earned until the next row; 0 in last rows, as in the next three."""
    cost: Floats
    """(N,) what was to be paid until the next row."""
    passed_s: Floats
    """(N,) simulated seconds until the next row."""
    probability: Floats
    """(N,) probability with which the policy took the action."""
    behaviour: Ints
    """(N,) the policy, as an index into `names`."""
    names: tuple[str, ...]
    """Names of the policies."""
    episode: Ints
    """(N,) the episode, from 0; its rows stand together."""
    terminated: Bools
    """(N,) true of an episode's last action if the episode came to its end."""
    truncated: Bools
    """(N,) true of an episode's last action if the episode was cut off."""
    facts: Mapping[str, Any]
    """The file's description, plain values as in JSON: ``observation`` (see
    `ObservationSchema.from_json`), ``actions`` and their arguments, ``reward``, ``cost``,
    ``scenario``, ``policies``, ``simkit``."""
    seed: Ints | None = None
    """(N,) seed of the scenario; None: unknown."""

    def __post_init__(self) -> None:
        """Check the columns; see above."""
        if problems := list(_problems(self)):
            raise RunError("\n".join(f"dataset: {text}" for text in problems))

    def __len__(self) -> int:
        """Return the number of rows, last ones too."""
        return len(self.action)

    @property
    def starts(self) -> Ints:
        """(E + 1,) the first row of each episode, and the number of rows."""
        first = np.flatnonzero(np.diff(self.episode, prepend=-1))
        return np.append(first, len(self))


def _problems(data: Dataset) -> Iterator[str]:
    """Yield what is wrong with the columns of a dataset."""
    rows = len(data.action)
    if not rows:
        yield "has no rows; record an episode with a decision"
        return
    columns = {name: getattr(data, name) for name in _COLUMNS}
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if wrong := {name: length for name, length in lengths.items() if length != rows}:
        text = ", ".join(f"{name} has {length:,}" for name, length in wrong.items())
        yield f"action has {rows:,} rows, {text}; all columns must have the same number"
        return
    if data.observation.ndim != 2 or data.mask.ndim != 2:
        yield (
            f"observation has shape {data.observation.shape}, mask {data.mask.shape}; both have a "
            "row of numbers for each decision"
        )
        return
    last = data.action < 0
    ends = np.append(np.diff(data.episode) != 0, True)
    if len(np.unique(data.episode[ends])) < ends.sum() or (data.episode < 0).any():
        yield "the rows of an episode do not stand together, or its number is below 0"
    if (last != ends).any():
        yield "not every episode ends with the one row that has no action"
    elif (np.diff(np.flatnonzero(ends), prepend=-1) < 2).any():
        yield "an episode has no action; leave it out"
    if data.action.max() >= data.mask.shape[1]:
        yield f"an action is {data.action.max()}, but the mask has {data.mask.shape[1]} actions"
    over = data.terminated | data.truncated
    if (over != np.append(last[1:], False)).any() or (data.terminated & data.truncated).any():
        yield "each episode's last action must be either terminated or truncated, and no other"
    if not 0 <= data.behaviour.min() <= data.behaviour.max() < len(data.names):
        yield f"a behaviour is none of the {len(data.names)} names"


class DatasetFile:
    """A dataset that is being written; see `writing_dataset`."""

    def __init__(self, path: Path, size: int, actions: int, facts: Mapping[str, Any]) -> None:
        self._schema = _schema(size, actions, facts)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self.rows: int = max(min(ROWS, _CELLS // size), 1)
        """How many rows are written at a time."""

    def write(self, columns: Mapping[str, Any], names: Sequence[str]) -> None:
        """Add rows.

        Args:
            columns: as in `Dataset`; of the last row of an episode, the action is -1.
            names: names of the policies.
        """
        arrays = [_arrow(field, columns, names) for field in self._schema]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), self.rows)

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()


@contextmanager
def writing_dataset(
    path: Path, size: int, actions: int, facts: Mapping[str, Any]
) -> Iterator[DatasetFile]:
    """Give a file to write a dataset to; it gets its name when it is complete.

    Args:
        path: the file.
        size: numbers of an observation, K.
        actions: numbers of a mask, M.
        facts: the file's description; see `Dataset.facts`.

    Raises RunError if it cannot be written; nothing is left behind then, nor after an interruption.
    """
    check_file(path)
    with whole_file(path) as part:
        file = DatasetFile(part, size, actions, facts)
        try:
            yield file
        finally:
            file.close()


def write_dataset(path: Path, data: Dataset) -> None:
    """Write a dataset to a file; raises RunError if that cannot be done."""
    size, actions = data.observation.shape[1], data.mask.shape[1]
    columns = {name: getattr(data, name) for name in _COLUMNS}
    with writing_dataset(path, size, actions, data.facts) as file:
        file.write(columns, data.names)


def _schema(size: int, actions: int, facts: Mapping[str, Any]) -> pa.Schema:
    number, whole, flag = pa.float64(), pa.int64(), pa.bool_()
    types = {
        "episode": whole, "seed": whole, "observation": pa.list_(pa.float32(), size),
        "mask": pa.list_(flag, actions), "action": whole, "reward": number, "cost": number,
        "passed_s": number, "behaviour": pa.dictionary(pa.int32(), pa.string()),
        "probability": number, "terminated": flag, "truncated": flag,
    }  # fmt: skip
    header = json.dumps({"format": VERSION, **facts}, sort_keys=True, allow_nan=False)
    return pa.schema(types.items(), metadata={_KEY: header.encode()})


def _arrow(field: pa.Field, columns: Mapping[str, Any], names: Sequence[str]) -> pa.Array:
    """Return a column as it is stored: null where a last row has no value."""
    values, kind = columns.get(field.name), field.type
    if values is None:
        return pa.nulls(len(columns["action"]), kind)
    if pa.types.is_fixed_size_list(kind):
        flat = pa.array(np.ascontiguousarray(values).reshape(-1), kind.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, type=kind)
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(names))
    last = np.asarray(columns["action"]) < 0 if field.name in ("action", *NUMBERS) else None
    return pa.array(values, kind, mask=last)


def read_dataset(path: Path) -> Dataset:
    """Return the dataset of a file.

    Raises RunError for a file that is missing, no dataset of simkit, damaged or empty.
    """
    with _read_errors(path):
        facts = _facts(path, pq.read_schema(path))
        _check_size(path)
        table = pq.read_table(path, memory_map=False).combine_chunks()
        if not table.num_rows:
            raise RunError(f"{path}: holds no decision; {_REMEDY}")
        behaviour = table["behaviour"].unify_dictionaries().combine_chunks()
        seed = table["seed"]
        flat = {name: table[name].to_numpy() for name in _FLAT}
        flat |= {name: table[name].fill_null(0.0).to_numpy() for name in NUMBERS}
        try:
            return Dataset(
                observation=_rows(table["observation"]),
                mask=_rows(table["mask"]),
                action=table["action"].fill_null(-1).to_numpy(),
                behaviour=behaviour.indices.to_numpy().astype(np.int64),
                names=tuple(behaviour.dictionary.to_pylist()),
                facts=facts,
                seed=None if seed.null_count else seed.to_numpy(),
                **flat,
            )
        except RunError as error:
            lines = str(error).split("\n")
            raise RunError("\n".join(f"{path}: {line}; {_REMEDY}" for line in lines)) from None


def _check_size(path: Path) -> None:
    """Raise TooMuchError for a file of a few bytes that stands for many equal rows."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    cells = sum(group.column(n).num_values for group in groups for n in range(group.num_columns))
    check_decoded(path, 8 * cells, metadata.num_rows)


def _rows(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return (N, K) the rows of a column of lists of one length."""
    lists = column.combine_chunks()
    if lists.null_count:
        raise ValueError("a row is missing")
    flat = lists.flatten().to_numpy(zero_copy_only=False)
    rows: npt.NDArray[Any] = flat.reshape(len(column), column.type.list_size)
    return rows


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file that is read into a RunError that says so."""
    if path.is_dir():
        raise RunError(f"{path}: is a folder; name the file of a dataset")
    try:
        refuse_special(path)
        yield
    except (SpecialFileError, TooMuchError) as error:
        raise RunError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise RunError(
            f"{path}: there is no such file; record one with `simkit dataset record`"
        ) from None
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        why = reason(error) if isinstance(error, OSError) and error.errno else ""
        what = f"cannot be read: {why}" if why else "is not a dataset of simkit, or damaged"
        raise RunError(f"{path}: {what}; {_REMEDY}") from None


def _facts(path: Path, schema: pa.Schema) -> dict[str, Any]:
    header = (schema.metadata or {}).get(_KEY)
    if header is None:
        raise RunError(
            f"{path}: is a table, but not simkit's; record one with `simkit dataset record`"
        )
    facts: dict[str, Any] = parse_json(header)
    if (version := facts.pop("format")) != VERSION:
        raise RunError(
            f"{path}: has the format {version}, this simkit reads {VERSION}; update simkit, or "
            "record it again"
        )
    return facts


@dataclass(frozen=True)
class Behaviour:
    """The decisions of one policy."""

    name: str
    decisions: int
    share: float
    """Share of all decisions."""
    reward: float
    """Mean over its decisions, as in the next two."""
    cost: float
    probability: float


@dataclass(frozen=True)
class Summary:
    """The numbers of a dataset; means are over decisions unless stated otherwise."""

    rows: int
    """With the last row of each episode."""
    decisions: int
    episodes: int
    terminated: int
    """Episodes that came to their end."""
    truncated: int
    """Episodes that were cut off."""
    reward: float
    reward_of_episode: float
    """Mean over episodes, as for the cost."""
    cost: float
    cost_of_episode: float
    hours: float
    """Simulated, from the first decisions on."""
    actions: dict[str, float]
    """Kind of action → its share of the decisions."""
    behaviours: tuple[Behaviour, ...]


def summary(data: Dataset) -> Summary:
    """Return the numbers of a dataset."""
    acts = data.action >= 0
    decisions, episodes = int(acts.sum()), len(data.starts) - 1
    kinds = kinds_of_actions(data)
    chosen = data.action[acts]
    reward, cost = data.reward[acts], data.cost[acts]
    return Summary(
        rows=len(data),
        decisions=decisions,
        episodes=episodes,
        terminated=int(data.terminated.sum()),
        truncated=int(data.truncated.sum()),
        reward=float(reward.mean()),
        reward_of_episode=float(reward.sum() / episodes),
        cost=float(cost.mean()),
        cost_of_episode=float(cost.sum() / episodes),
        hours=float(data.passed_s[acts].sum() / 3600.0),
        actions={
            name: float(np.isin(chosen, list(numbers)).mean()) for name, numbers in kinds.items()
        },
        behaviours=tuple(
            _behaviour(data, name, acts & (data.behaviour == number), decisions)
            for number, name in enumerate(data.names)
        ),
    )


def _behaviour(data: Dataset, name: str, mine: Bools, decisions: int) -> Behaviour:
    count = int(mine.sum())
    means = (float(column[mine].sum()) / max(count, 1) for column in
             (data.reward, data.cost, data.probability))  # fmt: skip
    return Behaviour(name, count, count / decisions, *means)


def kinds_of_actions(data: Dataset) -> dict[str, range]:
    """Return the kinds of actions and the numbers that each has."""
    count = data.mask.shape[1]
    void = count - 1
    arguments = data.facts.get("actions", {}).get("arguments", {})
    if arguments.get("actions") != "ready-pool":
        return {"place": range(void), "void": range(void, count)}
    given = arguments.get("action_arguments") or {}
    suspend = int(given.get("suspend", 0))
    ready = (void - suspend) // (2 if given.get("reject") else 1)
    kinds = {
        "place": range(ready),
        "reject": range(ready, void - suspend),
        "suspend": range(void - suspend, void),
        "do nothing": range(void, count),
    }
    return {name: numbers for name, numbers in kinds.items() if len(numbers)}


_SAME = ("actions", "reward", "cost")
"""Facts, besides the observation, that datasets of a mix have in common."""


@dataclass(frozen=True)
class Part:
    """What came of a dataset in a mix."""

    path: Path
    share: float
    """As stated."""
    came: float
    """As it came out."""
    decisions: int
    episodes: int


def mix(
    shares: Mapping[Path, float], path: Path, *, decisions: int | None = None, seed: int = 0
) -> list[Part]:
    """Write a mix of datasets; return how much of each it holds.

    The episodes of a dataset are drawn without replacement until their decisions are as near as
    whole episodes allow to its share of all; at least one is taken. They stand in random order.

    Args:
        shares: file → the share of its decisions, above 0; they add up to 1.
        path: the file to write.
        decisions: number in all; None: the most that the datasets have for these shares.
        seed: seed of the draw.

    Raises ScenarioError for wrong shares, RunError for datasets that do not suit each other, or
    have too few decisions, and as `read_dataset` does; nothing is written then.
    """
    _check_shares(shares)
    parts = [read_dataset(file) for file in shares]
    names = [str(file) for file in shares]
    problems = [
        f"{name} cannot be mixed with {names[0]}: {text} (here: in {names[0]})"
        for part, name in zip(parts[1:], names[1:], strict=True)
        for text in _differences(parts[0].facts, part.facts)
    ]
    if problems:
        raise RunError("\n".join(problems))
    wanted = _wanted(parts, names, list(shares.values()), decisions)
    rng = stream(seed, "dataset.mix")
    drawn = [_drawn(part, count, rng) for part, count in zip(parts, wanted, strict=True)]
    order = rng.permutation([row for row, some in enumerate(drawn) for _ in some])
    left = [iter(some.tolist()) for some in drawn]
    facts = _mixed_facts(parts, names, list(shares.values()))
    size, actions = parts[0].observation.shape[1], parts[0].mask.shape[1]
    with writing_dataset(path, size, actions, facts) as file:
        for number, row in enumerate(order.tolist()):
            part = parts[row]
            file.write(_episode(part, next(left[row]), number), part.names)
    took = [sum(_lengths(part)[some]) for part, some in zip(parts, drawn, strict=True)]
    return [
        Part(file, share, int(count) / int(sum(took)), int(count), len(some))
        for (file, share), count, some in zip(shares.items(), took, drawn, strict=True)
    ]


def _check_shares(shares: Mapping[Path, float]) -> None:
    wrong = [f"{file}: the share is {share:g}; it must be above 0" for file, share in shares.items()
             if not share > 0]  # fmt: skip
    if len(shares) < 2:
        wrong.append(f"a mix has at least two datasets, here {'is one' if shares else 'is none'}")
    elif not isclose(total := sum(shares.values()), 1.0, abs_tol=1e-9):
        wrong.append(f"the shares add up to {total:g}; they must add up to 1")
    if wrong:
        raise ScenarioError(wrong)


def _differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return how the meaning of two datasets differs by their descriptions."""
    seen = [ObservationSchema.from_json(facts["observation"]) for facts in (here, there)]
    found = [f"observation: {text}" for text in seen[0].differences(seen[1])]
    for name in _SAME:
        found += differing_entries(f"{name}:", here[name], there[name])
    return found


def _lengths(data: Dataset) -> Ints:
    """Return (E,) the decisions of each episode."""
    return np.diff(data.starts) - 1


def _wanted(
    parts: list[Dataset], names: list[str], shares: list[float], decisions: int | None
) -> list[float]:
    """Return how many decisions each dataset gives; raises RunError if it has too few."""
    there = [int(_lengths(part).sum()) for part in parts]
    most = min(count / share for count, share in zip(there, shares, strict=True))
    asked = most if decisions is None else decisions
    wrong = [
        f"{name}: has {counted(count, 'decision')}, its share of {asked:,} is "
        f"{share * asked:,.0f}; record more, or mix at most {int(most):,} in all"
        for name, count, share in zip(names, there, shares, strict=True)
        if share * asked > count * (1 + 1e-9)
    ]
    if wrong:
        raise RunError("\n".join(wrong))
    return [share * asked for share in shares]


def _drawn(data: Dataset, wanted: float, rng: np.random.Generator) -> Ints:
    """Return the episodes drawn, at least one, whose decisions are nearest to a number."""
    lengths = _lengths(data)
    order = rng.permutation(len(lengths))
    sums = lengths[order].cumsum()
    return order[: int(np.abs(sums - wanted).argmin()) + 1]


def _episode(data: Dataset, episode: int, number: int) -> dict[str, Any]:
    """Return the columns of an episode under another number."""
    first, last = data.starts[episode], data.starts[episode + 1]
    names = ("observation", "mask", "action", "reward", "cost", "passed_s", "probability",
             "behaviour", "terminated", "truncated")  # fmt: skip
    columns = {name: getattr(data, name)[first:last] for name in names}
    columns["episode"] = np.full(last - first, number)
    columns["seed"] = None if data.seed is None else data.seed[first:last]
    return columns


def _mixed_facts(parts: list[Dataset], names: list[str], shares: list[float]) -> dict[str, Any]:
    """Return the description of a mix: what its parts have in common, and what each has alone."""
    common = {name: parts[0].facts[name] for name in ("observation", *_SAME)}
    own = [{key: value for key, value in part.facts.items() if key not in common} for part in parts]
    return {
        "simkit": version("simkit-cluster"),
        **common,
        "policies": list(dict.fromkeys(name for part in parts for name in part.names)),
        "mix": [
            {"file": Path(name).name, "share": share, **facts}
            for name, share, facts in zip(names, shares, own, strict=True)
        ],
    }
