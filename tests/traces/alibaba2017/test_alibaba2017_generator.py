"""Generated Alibaba traces: like the real tables where these are known, whole and consistent."""

import gzip
from importlib import resources
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import DATA, needs_real

from simkit.arrays import stream
from simkit.errors import TraceError
from simkit.traces import alibaba2017_generator as generator
from simkit.traces.alibaba2017 import (
    read_alibaba2017,
    read_containers,
    read_machine_events,
    read_usage,
)
from simkit.traces.alibaba2017_generator import default_machines, generate_alibaba2017, model
from simkit.traces.alibaba2017_generator.draws import STATUSES, draw_tasks
from simkit.traces.alibaba2017_generator.model import Marginal
from simkit.traces.columns import ALIBABA2017

ALIBABA = DATA / "alibaba"
real = needs_real("alibaba", "batch_task.csv.gz")


def generate(folder, jobs=30, seed=0, **choices):
    """Write a trace with usage at two points of time, and return the rows of each table."""
    choices = {"usage_interval_s": 21_600} | choices
    return generate_alibaba2017(folder, jobs=jobs, rng=np.random.default_rng(seed), **choices)


def table(folder, name):
    """Return a table as it is written, every column by its kind in the layout."""
    kinds = {"id": pl.Int64, "number": pl.Float64, "text": pl.String}
    schema = {column.name: kinds[column.kind] for column in ALIBABA2017[name]}
    return pl.read_csv(folder / f"{name}.csv", has_header=False, schema=schema)


def distance(sample, other):
    """The largest difference of two samples' cumulative shares (Kolmogorov and Smirnov's)."""
    from scipy.stats import ks_2samp

    return ks_2samp(np.asarray(sample), np.asarray(other)).statistic


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A trace of 100 jobs, written once for all tests that only look at it."""
    folder = tmp_path_factory.mktemp("made") / "trace"
    generate(folder, jobs=100, seed=1)
    return folder


@pytest.fixture(scope="module")
def tasks():
    """As many jobs as the trace has."""
    return draw_tasks(model.JOBS, np.random.default_rng(1))


# ---- a marginal ---------------------------------------------------------------------------------


def test_a_marginal_gives_its_knots_their_shares():
    fitted = Marginal(((1, 0.5), (2, 0.75), (100, 1)))
    assert fitted.whole_at(np.array([0, 0.5, 0.51, 0.75, 0.76, 1])).tolist() == [1, 1, 2, 2, 3, 100]
    held = Marginal(((1, 0), (2, 0.2), (2, 0.6), (3, 1)))  # 2 stands for 40 %
    assert held.at(np.array([0.2, 0.4, 0.6])) == pytest.approx([2, 2, 2])


# ---- the tables of a generated trace ------------------------------------------------------------


def test_a_seed_decides_every_byte(tmp_path):
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        generate(tmp_path / name, jobs=10, seed=seed, packed=True)
    for name in ALIBABA2017:
        first, same, other = ((tmp_path / f / f"{name}.csv.gz").read_bytes() for f in "abc")
        assert first[4:8] == bytes(4), "the gzip header must hold no time of making"
        assert first == same
        assert first != other


def test_the_pieces_are_told_and_the_other_tables_do_not_depend_on_them(tmp_path, monkeypatch):
    rows = generate(tmp_path / "whole", jobs=40)
    monkeypatch.setattr("simkit.traces.alibaba2017_generator.draws._INSTANCES_AT_ONCE", 500)
    seen = []
    again = generate(tmp_path / "pieces", jobs=40, progress=lambda *now: seen.append(now))
    assert len(seen) > 10
    assert seen[-1][0] == seen[-1][1]
    planned = table(tmp_path / "pieces", "batch_task")["instances"].sum()
    assert seen[-1][1] == planned
    for name in set(ALIBABA2017) - {"batch_instance", "server_usage"}:
        assert rows[name] == again[name]


def test_the_readers_accept_what_is_generated(made):
    trace = read_alibaba2017(made)
    for report in trace.tables.values():
        assert report.read == report.accepted + sum(report.repaired.values()) + sum(
            report.dropped.values()
        )
    foreign = {"task not in batch_task", "more instances than planned", "unknown status"}
    foreign |= {"ends before it starts", "unknown machine id", "value not usable"}
    for report in trace.tables.values():
        assert not foreign & (set(report.dropped) | set(report.notes))
    assert read_machine_events(made).machines().size == default_machines(100)
    containers = read_containers(made)
    assert not set(containers.report.dropped) | set(containers.report.notes)
    for subject in ("machines", "containers", "instances"):
        assert read_usage(made, subject).collect().height > 0


# ---- instances belong to tasks ------------------------------------------------------------------


def attempts_with_tasks(folder):
    """Return the rows of batch_instance beside those of their tasks; rows of nobody left out."""
    rows, owners = table(folder, "batch_instance"), table(folder, "batch_task")
    return rows.drop_nulls("job_id").join(owners, on=["job_id", "task_id"], suffix="_task")


def test_attempts_lie_within_their_task(made):
    rows = attempts_with_tasks(made).filter(pl.col("status") != "Waiting")
    assert (rows["start_time_s"] >= rows["create_time_s"]).all()
    ended = rows.filter(pl.col("end_time_s") != 0, pl.col("end_time_s_task") != 0)
    assert (ended["end_time_s"] >= ended["start_time_s"]).all()
    assert (ended["end_time_s"] <= ended["end_time_s_task"]).all()


def test_an_ended_task_ends_with_its_last_instance(made):
    rows = attempts_with_tasks(made).filter(pl.col("status_task") == "Terminated")
    last = rows.filter(pl.col("status") == "Terminated").group_by("job_id", "task_id")
    ends = last.agg(pl.col("end_time_s").max(), pl.col("end_time_s_task").first())
    assert (ends["end_time_s"] == ends["end_time_s_task"]).all()


STATUS_TABLE = [
    # status of the task, statuses that the last attempts of its instances may have, and one must
    ("Terminated", {"Terminated"}, "Terminated"),
    ("Failed", {"Terminated", "Failed"}, "Failed"),
    ("Running", {"Terminated", "Running"}, "Running"),
    ("Waiting", {"Waiting"}, "Waiting"),
]


@pytest.mark.parametrize(("status", "allowed", "needed"), STATUS_TABLE)
def test_instances_end_up_as_their_task_says(made, status, allowed, needed):
    rows = attempts_with_tasks(made).filter(
        pl.col("status_task") == status, pl.col("seq_no") == pl.col("total_seq_no")
    )
    assert rows.height > 0
    assert set(rows["status"].unique()) <= allowed
    tasks = rows.group_by("job_id", "task_id").agg((pl.col("status") == needed).any())
    assert tasks["status"].all()


def test_machines_of_attempts_exist_and_a_retry_moves_on(made):
    rows = table(made, "batch_instance")
    known = table(made, "server_event")["machine_id"]
    waits = rows["status"] == "Waiting"
    assert rows.filter(~waits)["machine_id"].is_in(known.implode()).all()
    assert rows.filter(waits)["machine_id"].is_null().all()
    retried = rows.filter(pl.col("total_seq_no") > 1)["machine_id"].to_numpy()
    seq = rows.filter(pl.col("total_seq_no") > 1)["seq_no"].to_numpy()
    assert (retried[1:] != retried[:-1])[seq[1:] > 1].all()


# ---- machines, containers, usage ----------------------------------------------------------------


def test_containers_share_no_core_and_leave_room(made):
    rows = table(made, "container_event").filter(pl.col("event") == "Create")
    sets = rows.with_columns(core=pl.col("cpu_set").str.split("|"))
    assert (sets["core"].list.len() == sets["cpu"]).all()
    cores = sets.explode("core")
    assert cores.select("machine_id", "core").is_duplicated().sum() == 0
    held = rows.group_by("machine_id").agg(pl.col("cpu", "mem", "disk").sum())
    size = table(made, "server_event").filter(pl.col("event") == "add")
    both = held.join(size, on="machine_id", suffix="_size")
    for name in ("cpu", "mem", "disk"):
        assert (both[name] <= 0.9 * both[f"{name}_size"] + 1e-9).all()


# ---- distributions ------------------------------------------------------------------------------


def test_jobs_come_in_bursts():
    """The variance of the number of jobs a minute is 4.4 times its mean in the trace."""
    create = draw_tasks(60_000, np.random.default_rng(0))
    size = np.bincount(create.job)[1:]
    submit = create.create_s[np.cumsum(size) - size]
    counts = np.histogram(submit, np.arange(45_000, 52_201, 60))[0]
    single = 60_000 / model.JOBS  # more jobs have more bursts, not larger ones
    assert counts.mean() > 20 * single / 2
    assert counts.var() / counts.mean() == pytest.approx(4.4, rel=0.5)


# ---- distributions, against the published tables ------------------------------------------------


@pytest.fixture(scope="module")
def published():
    """The real batch_task."""
    names = ALIBABA2017["batch_task"].names
    return pl.read_csv(ALIBABA / "batch_task.csv.gz", new_columns=names).with_columns(
        pl.col("plan_mem").cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    )


@real
def test_tasks_are_like_the_published_ones(tasks, published):
    frame = tasks.frame()
    bounds = {"instances": 0.012, "plan_cpu": 0.02, "plan_mem": 0.02}
    for name, bound in bounds.items():
        assert distance(frame[name].drop_nulls(), published[name].drop_nulls()) < bound, name
    jobs = [each["job_id"].value_counts()["count"] for each in (frame, published)]
    assert distance(*jobs) < 0.015
    for name in ("plan_cpu", "plan_mem"):
        missing = [each[name].null_count() / each.height for each in (frame, published)]
        assert missing[0] == pytest.approx(missing[1], rel=0.15), name
    for status in STATUSES[:4]:
        one, other = (each.filter(pl.col("status") == status) for each in (frame, published))
        shares = (one.height / frame.height, other.height / published.height)
        assert shares[0] == pytest.approx(shares[1], rel=0.2), status
        assert ((one["end_time_s"] == 0).mean() > 0) == ((other["end_time_s"] == 0).mean() > 0)
        walls = [each["end_time_s"] - each["create_time_s"] for each in (one, other)]
        assert distance(*walls) < 0.06, status
    for level in (0.5, 0.9, 0.99):
        one, other = (each["instances"].quantile(level) for each in (frame, published))
        assert one == pytest.approx(other, rel=0.15)


@real
def test_correlations_are_the_published_ones(tasks, published):
    from scipy.special import ndtri

    def scores(frame):
        """Correlate instances, wall time and memory after giving each a normal distribution."""
        ended = frame.filter(
            pl.col("status") == "Terminated", pl.col("plan_cpu").is_not_null()
        ).select("instances", pl.col("end_time_s") - pl.col("create_time_s"), "plan_mem")
        ranks = [column.rank().to_numpy() / (len(column) + 1) for column in ended]
        return np.corrcoef(ndtri(ranks))

    assert scores(tasks.frame()) == pytest.approx(scores(published), abs=0.04)


# ---- what a person gets wrong -------------------------------------------------------------------


def test_all_wrong_arguments_are_told_at_once(tmp_path):
    with pytest.raises(TraceError) as caught:
        generate(tmp_path / "x", jobs=0, machines=0, usage_interval_s=1)
    assert str(caught.value).count("\n") == 2


def test_a_folder_with_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(TraceError, match=r"is not empty \(mine.txt\); name a new"):
        generate(tmp_path)
    with pytest.raises(TraceError, match="is a file; name a new"):
        generate(tmp_path / "mine.txt")
    with pytest.raises(TraceError, match="cannot be written"):
        generate(tmp_path / "mine.txt" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    assert generate(tmp_path / "empty", jobs=1)["server_event"] > 5
    names = sorted(path.name for path in (tmp_path / "empty").iterdir())
    assert names == sorted(f"{name}.csv" for name in ALIBABA2017)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_nothing_is_left_of_what_fails(tmp_path, monkeypatch):
    def fails(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(generator, "draw_usage", fails)
    with pytest.raises(TraceError, match="No space left on device; choose another folder or make"):
        generate(tmp_path / "x")
    monkeypatch.setattr(
        generator, "draw_usage", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        generate(tmp_path / "x")
    assert not list(tmp_path.iterdir())


# ---- sizes --------------------------------------------------------------------------------------


@given(jobs=st.integers(1, 12), machines=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_any_small_trace_is_whole(tmp_path_factory, jobs, machines, seed):
    folder = tmp_path_factory.mktemp("any") / "trace"
    rows = generate(folder, jobs=jobs, machines=machines, seed=seed)
    owners, attempts = table(folder, "batch_task"), table(folder, "batch_instance")
    assert owners["job_id"].n_unique() == owners["job_id"].max() == jobs
    last = attempts.drop_nulls("job_id").filter(pl.col("seq_no") == pl.col("total_seq_no"))
    counts = last.group_by("job_id", "task_id").len().join(owners, on=["job_id", "task_id"])
    assert counts.height == owners.height
    assert (counts["len"] == counts["instances"]).all()
    assert attempts["machine_id"].drop_nulls().is_between(1, machines).all()
    events = table(folder, "server_event")
    assert events["machine_id"].max() == machines
    assert (events["event"] == "softerror").any()
    assert rows["server_usage"] == 2 * machines


@pytest.mark.slow
def test_as_many_jobs_as_the_trace(tmp_path):
    rows = generate(tmp_path / "all", jobs=model.JOBS, usage_interval_s=300)
    assert rows["server_usage"] == 1_313 * 144
    assert rows["container_usage"] == pytest.approx(1_480_906, rel=0.1)
    assert rows["batch_instance"] == pytest.approx(16_130_000, rel=0.15)


# ---- the sample ---------------------------------------------------------------------------------

SAMPLE = Path(str(resources.files("simkit.traces.samples") / "alibaba2017"))


def test_the_sample_is_made_by_its_command(tmp_path):
    generate_alibaba2017(
        tmp_path / "new", jobs=60, usage_interval_s=3_600, packed=True, rng=stream(527, "workload")
    )
    for name in ALIBABA2017:  # the packed bytes depend on the version of zlib
        new, shipped = (folder / f"{name}.csv.gz" for folder in (tmp_path / "new", SAMPLE))
        assert gzip.decompress(new.read_bytes()) == gzip.decompress(shipped.read_bytes()), name
