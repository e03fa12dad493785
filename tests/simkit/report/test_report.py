"""What the page says: read back from the file, without a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from packed_columns import unpacked

import simkit as package
from simkit.errors import RunError
from simkit.report import gantt
from simkit.report.facts import MOST_STEPS, cumulative_steps, longest_waits
from simkit.report.over_time import clock_of
from simkit.report.report import MOST_RUNS, write_report
from simkit.results.run_folder import open_run


def read(page):
    """Return the data of a page, and the columns of each run."""
    text = page.read_text("utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])  # type: ignore[index]
    blocks = re.findall(r'id="block-\d+">(.*?)</script>', text)
    columns = [
        unpacked({"block": block, "columns": run["columns"]})
        for block, run in zip(blocks, data["runs"], strict=True)
    ]
    return data, columns


@pytest.fixture
def folder(write_run, random_jobs):
    return write_run(
        "tiny", random_jobs(200), capacity=60, epoch_s=893466664.0, time_zone="US/Pacific"
    )


def test_the_same_run_gives_the_same_bytes(folder, tmp_path):
    pages = [write_report(folder, tmp_path / f"{n}.html").read_bytes() for n in range(2)]
    assert pages[0] == pages[1]


def test_every_job_and_bar_is_there(folder, tmp_path):
    data, (columns,) = read(write_report(folder, tmp_path / "r.html"))
    run = open_run(folder)
    clock = data["clock"]
    times = {
        name: clock["start"] + clock["unit"] * (np.array(columns[f"job.{name}"]) - 1)
        for name in ("submit", "start", "end")
    }
    assert columns["job.id"] == run.jobs["job_id"].to_list()
    for name, found in times.items():
        assert np.allclose(found, run.jobs[f"{name}_time_s"].to_numpy(), atol=clock["unit"])
    facts = data["runs"][0]["gantt"]
    assert facts["bars"] == len(run.allocations) == len(columns["bar.job"])
    assert (facts["bars_left_out"], facts["jobs_left_out"]) == (0, 0)
    assert data["runs"][0]["counts"] == {
        "submitted": 200, "finished": 200, "killed": 0, "rejected": 0, "running": 0, "waiting": 0,
        "other": 0,
    }  # fmt: skip


def test_what_is_unknown_is_named_and_counted(folder, tmp_path):
    data, (columns,) = read(write_report(folder, tmp_path / "r.html"))
    run, jobs = data["runs"][0], open_run(folder).jobs
    unknown = int((jobs["user"] == -1).sum())
    assert unknown
    assert run["groups"]["user"]["unknown"] == unknown
    names = run["gantt"]["names"]["user"]
    assert names[0] == "unknown"
    assert columns["job.user"].count(0) == unknown
    assert run["groups"]["queue"]["unknown"] == 200


def test_a_budget_keeps_the_largest_and_counts_the_rest(folder, tmp_path, monkeypatch):
    from simkit.report import report

    monkeypatch.setattr(report, "MOST_RECTANGLES", 50)
    monkeypatch.setattr(report, "MOST_JOBS", 80)
    data, (columns,) = read(write_report(folder, tmp_path / "r.html"))
    facts = data["runs"][0]["gantt"]
    assert facts["rectangles"] == len(columns["rect.bar"]) <= 50
    assert facts["jobs"] == len(columns["job.id"]) == 80
    assert facts["jobs_left_out"] == 120
    assert facts["bars"] + facts["bars_left_out"] == len(open_run(folder).allocations)
    jobs = open_run(folder).jobs
    area = (jobs["run_time_s"] * jobs["processors"]).to_numpy()
    kept = jobs["job_id"].is_in(columns["job.id"]).to_numpy()
    assert area[kept].min() >= area[~kept].max()
    drawn = {columns["job.id"][row] for row in columns["bar.job"]}
    assert drawn <= set(columns["job.id"])


def test_the_grid_counts_what_is_left_out(folder, tmp_path, monkeypatch):
    from simkit.report import report

    grids = []
    for most in (50, gantt.MOST_RECTANGLES):
        monkeypatch.setattr(report, "MOST_RECTANGLES", most)
        grids.append(read(write_report(folder, tmp_path / "r.html"))[1][0]["grid"])
    assert grids[0] == grids[1]


def test_explanations_go_to_the_jobs_that_waited_longest(folder, tmp_path):
    run = open_run(folder)
    first = longest_waits(run, 1)[0]
    assert first["wait_time_s"] == run.jobs["wait_time_s"].max()
    why = {first["job_id"]: [(0.0, 10.0, "order", "behind job 3"), (10.0, 12.0, "room", "4 short")]}
    data, _ = read(write_report(folder, tmp_path / "r.html", explanations=[why]))
    longest = data["runs"][0]["longest"]
    assert longest[0]["explanation"] == [list(part) for part in why[first["job_id"]]]
    assert all(job["explanation"] == [] for job in longest[1:])


def test_jobs_that_never_started_are_not_the_longest_waits(write_run, tmp_path):
    jobs = {
        "job_id": [1, 2, 3], "submit_time_s": [0.0, 0.0, 5.0], "run_time_s": [9.0, 9.0, 9.0],
        "processors": [8.0, 8.0, 8.0], "start_time_s": [0.0, 9.0, None],
    }  # fmt: skip
    data, _ = read(write_report(write_run("w", jobs), tmp_path / "r.html"))
    run = data["runs"][0]
    assert [job["job_id"] for job in run["longest"]] == [2]
    assert run["counts"]["waiting"] == 1
    assert run["distributions"]["wait_time_s"]["without"] == 1


def three_waits():
    """Return jobs that waited 0, 99 and 198 s."""
    return {
        "job_id": [1, 2, 3], "submit_time_s": [0.0, 1.0, 2.0], "run_time_s": [100.0] * 3,
        "processors": [8.0] * 3, "start_time_s": [0.0, 100.0, 200.0],
    }  # fmt: skip


def test_cumulative_curves_are_shares_of_the_jobs(write_run, tmp_path):
    data, _ = read(write_report(write_run("three", three_waits()), tmp_path / "r.html"))
    curve = data["runs"][0]["distributions"]["wait_time_s"]
    assert curve["values"] == [0.0, 99.0, 198.0]
    assert curve["shares"] == pytest.approx([1 / 3, 2 / 3, 1.0])


@pytest.mark.parametrize("count", [10, 500, 100_000])
def test_shares_of_kept_values_are_exact(count):
    values = np.random.default_rng(1).lognormal(5, 3, count)
    values[: count // 4] = 0.0
    steps, shares = cumulative_steps(values)
    assert len(steps) <= MOST_STEPS
    assert (steps[0], steps[-1], shares[-1]) == (0.0, values.max(), 1.0)
    ordered = np.sort(values)
    assert np.array_equal(shares, np.searchsorted(ordered, steps, side="right") / count)
    assert np.diff(shares).max() <= max(0.003, 1.5 / count)


EVIL = "</script><script>alert(1)</script><!--"


def test_names_cannot_leave_their_place(write_run, random_jobs, tmp_path):
    names = [EVIL, "a\u2028b", "\u202egnihton", "&amp;", "\ud800", "\"'`", "x" * 5000]
    jobs = random_jobs(70)
    users = pl.Series([n.encode("utf-8", "replace").decode() for n in names] * 10)
    folder = write_run("evil", {**jobs, "user": users}, capacity=60, error=EVIL)
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "name": EVIL}))
    page = write_report(folder, tmp_path / "r.html")
    text = page.read_text("utf-8")
    assert EVIL not in text
    assert text.count("<script") == text.count("</script>") == 3
    for hidden in ("\u2028", "\u202e"):
        assert hidden not in text
    data, _ = read(page)
    found = data["runs"][0]["gantt"]["names"]["user"]
    assert EVIL in found
    assert "\\u202egnihton" in found
    assert max(map(len, found)) < 100


def test_the_file_lets_nothing_else_run_or_load(folder, tmp_path):
    from base64 import b64encode
    from hashlib import sha256

    text = write_report(folder, tmp_path / "r.html").read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]  # type: ignore[index]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]  # type: ignore[index]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "innerHTML" not in script


@pytest.mark.parametrize("jobs", [0, 1])
@pytest.mark.parametrize("status", ["complete", "interrupted"])
def test_small_and_broken_runs_give_pages(write_run, random_jobs, tmp_path, jobs, status):
    folder = write_run("small", random_jobs(jobs), status=status, error="Ctrl-C")
    data, _ = read(write_report(folder, tmp_path / "r.html", allow_partial=True))
    assert data["runs"][0]["status"] == status
    assert ("empty" in data["runs"][0]) == (jobs == 0)


def test_a_run_without_metrics_is_a_page_too(write_run, random_jobs, tmp_path):
    folder = write_run("cut", random_jobs(20), status="interrupted")
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "jobs": 500}))
    (folder / "metrics.json").unlink()
    data, _ = read(write_report(folder, tmp_path / "r.html", allow_partial=True))
    assert data["runs"][0]["metrics"] == []
    assert data["runs"][0]["counts"]["other"] == 480
    with pytest.raises(RunError, match="--partial"):
        write_report(folder, tmp_path / "r.html")


def test_a_run_that_was_killed_before_it_wrote_a_table_is_a_page(write_run, random_jobs, tmp_path):
    folders = [write_run(n, random_jobs(20), capacity=60) for n in ("whole", "killed")]
    info = json.loads((folders[1] / "run.json").read_text())
    (folders[1] / "run.json").write_text(json.dumps({**info, "status": "incomplete"}))
    for table in folders[1].glob("*.parquet"):
        table.unlink()
    data, columns = read(write_report(folders, tmp_path / "r.html", allow_partial=True))
    assert "no table of jobs" in data["runs"][1]["empty"]
    assert data["runs"][1]["counts"]["other"] == 20
    assert len(columns[0]["job.id"]) == 20
    assert "not complete" in data["comparisons"][0]["refused"]


def test_a_run_in_memory_has_no_command_to_explain_it(tmp_path):
    run = package.simulate({"workload": {"type": "lublin", "jobs": 20, "processors": 8}})
    data, _ = read(write_report(run, tmp_path / "r.html"))
    assert data["runs"][0]["explain"] == ""
    assert data["runs"][0]["counts"]["finished"] == 20


def test_who_gains_is_paired_by_job(write_run, random_jobs, tmp_path):
    jobs = random_jobs(100)
    later = {
        **jobs,
        "start_time_s": jobs["start_time_s"] + np.where(jobs["user"] == 3, 600.0, -60.0),
    }
    later["start_time_s"] = np.maximum(later["start_time_s"], jobs["submit_time_s"])
    folders = [write_run(n, j, capacity=60) for n, j in (("a", jobs), ("b", later))]
    data, _ = read(write_report(folders, tmp_path / "r.html"))
    (one,) = data["comparisons"]
    table = one["groups"]["user"]
    loser = next(row for row in table["rows"] if row["total"] > 0)
    assert loser["name"] == "3"
    assert table["lose"] == 1
    assert loser["total"] == pytest.approx(600.0 * loser["jobs"])
    assert loser["worse"] == 1
    assert one["paired"] == 100


def test_lines_over_time_stop_where_a_run_ends(write_run, tmp_path):
    folders = [
        write_run(
            name,
            {
                "job_id": [1, 2], "submit_time_s": [0.0, 0.0], "run_time_s": [100.0, run_time],
                "processors": [8.0, 8.0], "start_time_s": [0.0, 100.0],
            },
        )
        for name, run_time in (("short", 100.0), ("long", 300.0))
    ]  # fmt: skip
    data, columns = read(write_report(folders, tmp_path / "r.html"))
    for run, found, known in zip(data["runs"], columns, (0.5, 1.0), strict=True):
        for chart in run["charts"]:
            for line in chart["lines"]:
                for part in line["parts"]:
                    levels = np.array(found[f"{line['key']}.{part}"])
                    assert (levels[: int(known * len(levels))] > 0).all()
                    assert (levels[int(known * len(levels)) :] == 0).all()


def test_runs_of_other_workloads_are_shown_and_not_compared(write_run, random_jobs, tmp_path):
    folders = [write_run(str(seed), random_jobs(50, seed=seed), capacity=60) for seed in (0, 1)]
    data, _ = read(write_report(folders, tmp_path / "r.html"))
    assert "the workloads differ" in data["comparisons"][0]["refused"]


def test_a_sweep_is_curves_and_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package.run_sweep(
        {
            "workload": {"type": "lublin", "jobs": 40, "processors": 16},
            "sweep": {"workload.load": [0.5, 1.0, 2.0], "policy.backfill": ["none", "easy"], "seed": [0, 1]},
        },
        "sweep",
    )  # fmt: skip
    data, _ = read(write_report("sweep", tmp_path / "r.html"))
    sweep = data["sweep"]
    assert (sweep["runs"], sweep["complete"], sweep["seeds"]) == (12, 12, [0, 1])
    (curve,) = sweep["curves"]
    assert curve["x"] == "workload.load"
    assert sorted({row["numbers"][0] for row in curve["rows"]}) == [0.5, 1.0, 2.0]
    assert len(curve["rows"]) == len(sweep["table"]["rows"]) == 6
    summary = package.summarise("sweep", ["workload.load", "policy"], ["wait_time_s"])
    means = {row.values: row.cells[0].mean for row in summary.rows}
    for row in curve["rows"]:
        assert row["cells"][0][0] == pytest.approx(means[tuple(row["values"])])


def test_more_runs_than_fit_beside_each_other_are_a_sweep(write_run, random_jobs, tmp_path):
    folders = [write_run(str(n), random_jobs(5, seed=n), seed=n) for n in range(MOST_RUNS + 1)]
    for folder in folders:
        (folder / "metrics.json").write_text(
            json.dumps({"wait_time_s": {"mean": 1.0, "unit": "s", "formula": "", "window": ""}})
        )
    data, _ = read(write_report(folders, tmp_path / "r.html"))
    assert data["sweep"]["runs"] == MOST_RUNS + 1


@pytest.mark.parametrize(
    ("target", "said"),
    [("r.pdf", "an .html file"), ("no/r.html", "there is no folder"), ("d.html", "is a folder")],
)
def test_problems_are_said(folder, tmp_path, target, said):
    (tmp_path / "d.html").mkdir()
    with pytest.raises(RunError, match=said):
        write_report(folder, tmp_path / target)
    with pytest.raises(RunError, match="at least one"):
        write_report([], tmp_path / "r.html")
    with pytest.raises(RunError, match="no such run folder"):
        write_report(tmp_path / "nothing", tmp_path / "r.html")


def test_clocks_go_forward_and_back(write_run, random_jobs):
    jobs = random_jobs(50, spread_s=3.3e7)  # more than a year from 25 April 1998 on
    clock = clock_of([open_run(write_run("y", jobs, epoch_s=893466664.0, time_zone="US/Pacific"))])
    assert [offset / 3600 for _, offset in clock.offsets] == [-7.0, -8.0, -7.0]
    assert clock.offsets[1][0] == 909306000  # 25 October 1998, 09:00 UTC
    assert clock_of([open_run(write_run("n", jobs))]).epoch_s is None
    fixed = {"epoch_s": 893466664.0, "time_zone": "UTC-06:00"}
    clock = clock_of([open_run(write_run("f", jobs, **fixed))])
    assert (clock.zone, [offset for _, offset in clock.offsets]) == ("UTC-06:00", [-6 * 3600.0])


def test_the_command(simkit, write_run, random_jobs):
    write_run("run", random_jobs(30), capacity=60)
    done = simkit("report", "run")
    assert done.out.startswith("report: run/report.html (")
    assert Path("run/report.html").stat().st_size > 10_000
    assert simkit("report", "run", "-o", "x.txt").code == 2


MINE = """
from simkit import Place

class SmallestFirst:
    def reset(self, info, rng):
        pass

    def schedule(self, state):
        for task in sorted(state.queue, key=lambda task: task.demand[0]):
            if on := state.fit(task):
                yield Place(task, on)
"""


def test_waits_under_a_policy_of_your_own_are_explained_if_its_code_is_allowed(simkit):
    Path("mine.py").write_text(MINE)
    load = {"type": "lublin", "jobs": 40, "processors": 16, "offered_load": 1.2}
    policy = {"name": "mine.py:SmallestFirst"}
    package.simulate({"workload": load, "policy": policy}, output="run")
    done = simkit("report", "run")
    assert "mine.py:SmallestFirst' is code, which would run" in done.err
    assert "give --allow-code" in done.err
    assert "--no-code" not in done.err
    longest = read(Path("run/report.html"))[0]["runs"][0]["longest"]
    assert longest
    assert not any(job["explanation"] for job in longest)
    done = simkit("report", "run", "--allow-code")
    assert done.err == ""
    longest = read(Path("run/report.html"))[0]["runs"][0]["longest"]
    assert all(job["explanation"] for job in longest)


def test_a_run_and_a_sweep_do_not_mix(simkit, write_run, random_jobs):
    Path("sweep").mkdir()
    write_run("easy", random_jobs(20))
    for name in ("0", "1"):
        write_run(f"sweep/{name}", random_jobs(20))
    done = simkit("report", "easy", "sweep")
    assert done.code == 2
    assert "easy is a run, but sweep a folder of runs" in done.err
    assert "simkit report easy`" in done.err
    assert "simkit report sweep`" in done.err
    assert not Path("easy/report.html").exists()
    Path("empty").mkdir()
    assert "empty: there is no run in it or below it" in simkit("report", "easy", "empty").err


def test_recorded_waits_are_those_of_the_log(tmp_path):
    log = tmp_path / "log.swf"
    rows = [
        f"{n} {10 * n} {w} 50 2 -1 -1 2 100 -1 1 1 1 1 1 1 -1 -1"
        for n, w in enumerate([5, 400, -1, 90], 1)
    ]
    log.write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    package.simulate({"workload": {"type": "swf", "path": str(log)}}, output=tmp_path / "run")
    data, _ = read(write_report(tmp_path / "run", tmp_path / "r.html"))
    recorded = data["runs"][0]["recorded"]
    assert recorded["recorded"]["count"] == 3
    assert recorded["recorded"]["mean"] == 165.0
    assert recorded["simulated"]["count"] == 3
    log.write_text(log.read_text() + rows[0].replace("1 ", "9 ", 1) + "\n")
    data, _ = read(write_report(tmp_path / "run", tmp_path / "r.html"))
    assert data["runs"][0]["recorded"] is None  # the log is no longer that of the run
