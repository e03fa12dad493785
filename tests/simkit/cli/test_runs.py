"""The commands that take runs: compare, export, plot, and tables by group."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from simkit.errors import RunError
from simkit.results.run_folder import open_run


def test_results_by_group(simkit):
    printed = simkit("run", "quickstart", "-o", "a", "--by", "size").out
    assert re.search(r"\n65 to 256 +28 +17\.7% +09:04:54 ", printed)
    waits = r"\n([\w ]+?) +(\d+) +([\d.]+)% +[\d:]+ "
    by_wait = simkit(
        "run", "quickstart", "-o", "a", "--by", "size", "--sort", "wait_share", "--top", "3"
    ).out
    shares = [float(share) for _, _, share in re.findall(waits, by_wait)]
    assert len(shares) == 3
    assert shares == sorted(shares, reverse=True)
    assert "Left out    2 more groups; --top shows more" in by_wait
    wrong = simkit("run", "quickstart", "-o", "new", "--by", "size", "--sort", "wait_tme_s")
    assert "sort: groups have no number 'wait_tme_s'; did you mean 'wait_time_s'?" in wrong.err
    assert not Path("new").exists()
    assert "add --by user" in simkit("run", "quickstart", "-o", "a", "--top", "3").err
    simkit("run", "quickstart", "-o", "b", "--set", "policy.order=sjf")
    compared = simkit("compare", "a", "b", "--by", "size").out
    assert re.search(r"\nwait_time_s\nSize +mean A +mean B .*\n1 +00:45:27 +00:45:59 ", compared)
    again = json.loads(simkit("run", "quickstart", "-o", "a", "--by", "user", "--json").out)
    assert sum(group["jobs"] for group in again["by"]) == 1000
    found = json.loads(simkit("compare", "a", "b", "--by", "user", "--json").out)
    assert {row["group"] for row in found["differences"]} == {None, *map(str, range(1, 21))}
    assert "a/by-user.png" in simkit("plot", "a", "b", "--by", "user").out
    assert Path("a/by-user.png").stat().st_size > 10_000
    wrong = simkit("plot", "a", "--kind", "power", "--by", "user")
    assert (wrong.code, "--by does not go with a picture of power" in wrong.err) == (2, True)
    unknown = simkit("run", "quickstart", "--by", "colour")
    assert (unknown.code, "'--by': 'colour' is not one of 'partition'" in unknown.err) == (2, True)


def test_groups_beyond_the_first_twenty_are_counted(simkit):
    rows = "".join(f"{n},{n},5,1,{n + 100}\n" for n in range(25))
    Path("jobs.csv").write_text(f"job_id,submit_time_s,run_time_s,processors,user\n{rows}")
    Path("s.yaml").write_text(
        "workload: {type: jobs, path: jobs.csv}\ncluster: {processors: 2}\npolicy: {order: fcfs}\n"
    )
    printed = simkit("run", "s.yaml", "-o", "run", "--by", "user").out
    assert "Left out    5 more groups; --top shows more, --json all" in printed
    assert len(re.findall(r"\n1\d\d +1 ", printed)) == 20


def test_pictures_of_comparisons_sweeps_and_trainings(simkit):
    pytest.importorskip("matplotlib")
    Path("s.yaml").write_text(
        "workload: {type: lublin, jobs: 40, processors: 16, offered_load: 0.5}\n"
        "sweep: {workload.offered_load: [0.5, 0.9], seed: [0, 1]}\n"
    )
    simkit("sweep", "s.yaml", "-j", "1", "-o", "out")
    one, other = sorted(str(place.parent) for place in Path("out").rglob("run.json"))[:2]
    x = ("--x", "workload.offered_load")
    assert simkit("plot", "out", *x, "-o", "s.pdf").out == "picture: s.pdf\n"
    assert simkit("plot", "out", *x, "--y", "makespan_s").out == "picture: out/plot.png\n"
    assert "picture: c.svg" in simkit("plot", one, one, "-k", "comparison", "-o", "c.svg").out
    assert (
        "picture: w.png"
        in simkit("plot", one, "--with", one, "-m", "wait_time_s", "-o", "w.png").out
    )
    for words, told in (
        (("out",), "needs --x, one of workload.offered_load"),
        (("out", "--y", "wait_time_s"), "needs --x, one of workload.offered_load"),
        (("out", "--x", "workload.lod"), "x: no scenario of these runs has a key 'workload.lod'"),
        (("out", *x, "--y", "wait"), "y: no run has the metric 'wait'"),
        (("out", *x, "--by", "user"), "by: no scenario of these runs has a key 'user'"),
        (("out", *x, "-m", "wait_time_s"), "--metric does not go with a picture of sweep"),
        ((one, "-k", "comparison"), "1 runs; a comparison has two"),
        ((one, "--by", "colour"), "--by colour: jobs are grouped by one of partition, queue"),
        ((one, other, "-k", "power"), "2 runs; a picture of power shows one"),
        (("nowhere",), "nowhere: there is no such folder"),
        (("nowhere", *x), "nowhere: there is no such folder"),
    ):
        found = simkit("plot", *words)
        assert found.code in (2, 3), words
        assert told in " ".join(found.err.split()), (words, found.err)


def test_compare_export_plot(simkit):
    simkit("run", "quickstart", "-o", "a")
    simkit("run", "quickstart", "-o", "b", "--set", "policy.order=sjf")
    assert "wait_time_s" in simkit("compare", "a", "b").out
    assert json.loads(simkit("compare", "a", "b", "--json").out)["differences"]
    assert simkit("compare", "a").code == 2
    assert simkit("export", "a", "a.swf").out == "a.swf written (swf)\n"
    assert simkit("export", "a", "a.csv").out == "a.csv written (batsim)\n"
    assert pl.read_csv("a.csv").height == 1000
    pytest.importorskip("matplotlib")
    assert simkit("plot", "a", "b", "-o", "both.png").out == "picture: both.png\n"
    assert Path("both.png").stat().st_size > 10_000


def test_what_says_nothing_is_refused_or_told(simkit):
    simkit("run", "quickstart", "-o", "a")
    simkit("run", "quickstart", "-o", "b")
    assert "Differs     nothing, the digests are equal" in simkit("compare", "a", "b").out
    assert "between 0 and 1" in simkit("plot", "a", "--level", "5").err
    late = simkit("run", "quickstart", "-o", "c", "--switch-policy", "900d:sjf")
    assert "1 change of the policy comes after the run's last event" in late.err
    with pytest.raises(RunError, match=r'saved by run.plot\(\).savefig\("x.png"\)'):
        open_run("a").plot("x.png")  # type: ignore[arg-type]


def test_a_partial_run_is_refused_with_the_option_that_takes_it(simkit):
    simkit("run", "quickstart", "-o", "a")
    simkit("run", "quickstart", "-o", "b")
    info = json.loads(Path("b/run.json").read_text())
    Path("b/run.json").write_text(json.dumps(info | {"status": "interrupted"}))
    for command in (["compare", "a", "b"], ["export", "b", "b.swf"], ["verify", "b"]):
        refused = simkit(*command)
        assert refused.code == 2
        assert "--partial" in refused.err
        assert simkit(*command, "--partial").code == 0
