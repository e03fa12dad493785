"""`simkit init`: a first scenario for a log, which runs as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simkit import open_run
from simkit.scenario import first_scenario as module
from simkit.scenario.yaml_document import load_scenario
from simkit.traces import rules

SAMPLES = Path(__file__).parents[3] / "traces" / "samples"
SWF = """\
; UnixStartTime: 1700000000
; TimeZoneString: Europe/Berlin
; MaxProcs: 16
1 0 0 100 4 -1 -1 4 200 -1 1 1 1 -1 1 1 -1 -1
2 10 0 50 8 -1 -1 8 90 -1 1 2 1 -1 1 1 -1 -1
3 20 60 30 3 -1 -1 3 -1 -1 0 2 1 -1 1 2 -1 -1
4 20 61 30 2 -1 -1 2 7200 -1 0 2 1 -1 1 2 -1 -1
"""
SACCT = """\
JobID|User|Partition|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|NNodes|AllocTRES
1|ada|gpu|2024-03-02T13:00:00|2024-03-02T13:30:00|2024-03-02T14:30:00|01:00:00|02:00:00|6|1|cpu=6,gres/gpu=4,mem=64G,node=1
2|bob|gpu|2024-03-02T13:10:00|2024-03-02T14:00:00|2024-03-02T15:00:00|01:00:00|02:00:00|32|2|cpu=32,gres/gpu:a100=8,mem=100G,node=2
3|bob|cpu|2024-03-02T13:20:00|2024-03-02T13:20:00|2024-03-02T13:50:00|00:30:00|1-00:00:00|20|2|cpu=20,mem=40G,node=2
4|cy|cpu|2024-03-02T13:20:00|2024-03-02T13:50:00|2024-03-02T14:20:00|00:30:00|1-00:00:00|8|1|cpu=8,mem=30.5G,node=1
"""
JOBS = """\
job_id,submit_time_s,run_time_s,processors,start_time_s
1,0,100,4,0
2,10,50,2,20
3,10,50,3,100
"""
GANGS = """\
job_id,submit_time_s,run_time_s,instances,cpu,mem,gpu
1,0,100,3,0.1,16,0
2,10,50,1,2,8.25,1
"""


def finished_all(simkit, scenario):
    """Run a scenario; return whether all its jobs finished."""
    folder = f"{scenario}.run"
    done = simkit("run", scenario, "-o", folder)
    assert done.code == 0, done.err
    return set(open_run(folder).jobs["status"]) == {"finished"}


def test_the_bundled_sample_gets_the_machine_of_its_header(simkit):
    done = simkit("init", SAMPLES / "lublin_1000.swf.gz")
    assert done.code == 0
    assert "Machines    128 processors for 1,000 jobs\n" in done.out
    assert (
        "Not known   when jobs started: the size of the machine is that in the header\n" in done.out
    )
    assert done.out.endswith("lublin_1000.yaml written; run it: simkit run lublin_1000.yaml\n")
    text = Path("lublin_1000.yaml").read_text()
    assert "  # the log does not tell when they started, nor what was in use at once\n" in text
    assert "  # the log's header: 128 processors\n  processors: 128\n" in text
    assert finished_all(simkit, "lublin_1000.yaml")


def test_partitions_of_swf_are_pools_of_what_was_in_use_at_once(simkit):
    Path("log.swf").write_text(SWF.replace("MaxProcs: 16", "MaxProcs: 20"))
    done = simkit("init", "log.swf")
    assert "Machines    1: 12 processors for 2 jobs\n            2: 5 processors for 2" in done.out
    assert (
        "own, 17 processors in all; at most 12 were in use at once; the header has 20" in done.out
    )
    text = Path("log.yaml").read_text()
    assert "  # peak in use in the log: 12 processors on 2023-11-14 22:13 UTC\n" in text.replace(
        "    #", "  #"
    )
    assert "# the log's header: 20 processors; those below: 17\n" in text
    assert "# the log's time zone: Europe/Berlin\n" in text
    assert "# 3 of 4 jobs have a time limit; of the others the policy knows the run time" in text
    assert "# max_time: 7200  # s\n" in text
    loaded = load_scenario(Path("log.yaml"))
    parts = {part.name: (part.partitions, part.processors) for part in loaded.cluster.partitions}
    assert parts == {"1": ((1,), 12), "2": ((2,), 5)}
    assert finished_all(simkit, "log.yaml")


@pytest.mark.parametrize(("header", "processors"), [(16, 16), (4, 8)])
def test_partitions_share_the_processors_of_a_header_that_has_too_few_for_each(
    simkit, header, processors
):
    Path("log.swf").write_text(SWF.replace("MaxProcs: 16", f"MaxProcs: {header}"))
    done = simkit("init", "log.swf")
    assert f"Machines    {processors} processors for 4 jobs, shared by 2 partitions\n" in done.out
    assert (
        f"which processors each partition may use: they share the {header} of the header, as what "
        "was in use in each adds up to 17" in " ".join(done.out.split())
    )
    larger = "a job asks for more processors than the header has" in " ".join(done.out.split())
    assert larger == (processors > header)
    cluster = load_scenario(Path("log.yaml")).cluster
    assert cluster.processors == processors
    assert [(part.name, part.processors) for part in cluster.partitions] == [
        ("1", None), ("2", None),
    ]  # fmt: skip
    assert finished_all(simkit, "log.yaml")


def test_partitions_that_may_share_machines_say_how_many_there_would_be(simkit):
    Path("log.swf").write_text(SWF.replace("; MaxProcs: 16\n", ""))
    done = simkit("init", "log.swf")
    assert "own, 17 processors in all; at most 12 were in use at once\n" in done.out
    shared = Path("log.yaml").read_text().replace("  # processors: 12", "  processors: 12")
    shared = "".join(s for s in shared.splitlines(True) if not s.startswith("      processors"))
    Path("shared.yaml").write_text(shared)
    assert load_scenario(Path("shared.yaml")).cluster.processors == 12
    assert finished_all(simkit, "shared.yaml")


def test_jobs_without_a_partition_keep_a_place(simkit):
    Path("log.swf").write_text(SWF.replace("1 2 -1 -1", "1 -1 -1 -1"))
    simkit("init", "log.swf")
    assert "partitions: [-1]  # jobs without one" in Path("log.yaml").read_text()
    assert finished_all(simkit, "log.yaml")


def test_gpus_memory_and_machines_come_from_what_slurm_allocated(simkit):
    Path("sacct.txt").write_text(SACCT)
    done = simkit("init", "sacct.txt", "--set", "time_zone=Europe/Berlin")
    assert "Machines    gpu: 3 machines with 16 processors, 64 mem, 4 gpu\n" in done.out
    assert "cpu: 2 machines with 10 processors, 30.5 mem\n" in done.out
    assert "time zone" not in done.out
    assert "gpus not asked for" not in done.out  # the scenario asks for them
    text = Path("sacct.yaml").read_text()
    assert "# peak in use in the log: 12 gpu on 2024-03-02 13:00 UTC\n" in text
    assert "# peak in use in the log: 38 processors on 2024-03-02 13:00 UTC\n" in text
    assert "# the longest time limit in the log: 1d 00:00:00; to enforce a limit:\n" in text
    assert '  time_zone: "Europe/Berlin"\n' in text
    assert finished_all(simkit, "sacct.yaml")


NODES = """\
JobID|Partition|Submit|Start|End|Elapsed|AllocCPUS|NNodes|NodeList|AllocTRES
1|gpu|2024-03-02T13:00:00|2024-03-02T13:00:00|2024-03-02T14:00:00|01:00:00|6|1|g1|cpu=6,gres/gpu=1
2|gpu|2024-03-02T13:00:00|2024-03-02T13:30:00|2024-03-02T14:30:00|01:00:00|8|1|g1|cpu=8,gres/gpu=3
3|gpu|2024-03-02T13:00:00|2024-03-02T14:00:00|2024-03-02T15:00:00|01:00:00|4|1|g2|cpu=4,gres/gpu=1
4|cpu|2024-03-02T13:00:00|2024-03-02T13:00:00|2024-03-02T14:00:00|01:00:00|24|3|c[08-10]|cpu=24
5|cpu|2024-03-02T13:00:00|2024-03-02T14:00:00|2024-03-02T14:30:00|00:30:00|16|2|c08,g2|cpu=16
6|short|2024-03-02T13:00:00|2024-03-02T14:10:00|2024-03-02T14:20:00|00:10:00|7|1|c08|cpu=7
"""


def test_machines_that_a_log_names_are_grouped_by_the_partitions_that_use_them(simkit):
    Path("sacct.txt").write_text(NODES)
    done = simkit("init", "sacct.txt")
    assert done.code == 0
    assert "partitions share" not in done.out
    assert "NodeList" not in Path("sacct.yaml").read_text()
    cluster = load_scenario(Path("sacct.yaml")).cluster
    assert cluster.machines is not None
    groups = {group.name: (group.count, group.capacity) for group in cluster.machines}
    assert groups == {
        "gpu": (1, {"processors": 14, "gpu": 4}),  # g1: 6 + 8 processors from 13:30 to 14:00
        "cpu": (2, {"processors": 8}),  # c09, c10
        "gpu+cpu": (1, {"processors": 12, "gpu": 1}),  # g2
        "cpu+short": (1, {"processors": 15}),  # c08: the ends of job 4 come before job 5
    }
    partitions = {part.name: set(part.machines) for part in cluster.partitions}
    assert partitions == {
        "gpu": {"gpu", "gpu+cpu"},
        "cpu": {"cpu", "gpu+cpu", "cpu+short"},
        "short": {"cpu+short"},
    }
    assert finished_all(simkit, "sacct.yaml")


def test_one_partition_with_named_machines_has_one_group(simkit):
    Path("sacct.txt").write_text(NODES.replace("|cpu|", "|gpu|").replace("|short|", "|gpu|"))
    simkit("init", "sacct.txt")
    cluster = load_scenario(Path("sacct.yaml")).cluster
    assert cluster.machines is not None
    assert [(g.count, g.capacity) for g in cluster.machines] == [(5, {"processors": 15, "gpu": 4})]
    assert not cluster.partitions
    assert finished_all(simkit, "sacct.yaml")


@pytest.mark.parametrize("nothing", ["None assigned", "", "c[08-"])
def test_a_job_whose_machines_are_not_named_leaves_the_names_of_the_others(simkit, nothing):
    Path("sacct.txt").write_text(NODES.replace("|c08|", f"|{nothing}|").replace("|g2|", "||"))
    done = simkit("init", "sacct.txt")
    said = "the machines of 2 jobs: NodeList names none; those of the others are to hold them as"
    assert f"Not known   {said} well\n" in done.out
    cluster = load_scenario(Path("sacct.yaml")).cluster
    assert cluster.machines is not None
    groups = {group.name: (group.count, group.capacity) for group in cluster.machines}
    assert groups == {
        "gpu": (1, {"processors": 14, "gpu": 4}),  # g1, and job 3 fits on it
        "cpu": (4, {"processors": 8}),  # c08 to c10, g2
        "short": (1, {"processors": 7}),  # none of its jobs names a machine
    }
    assert "# The log names no machines of these jobs.\n" in Path("sacct.yaml").read_text()
    assert finished_all(simkit, "sacct.yaml")


def test_machines_are_more_than_the_named_ones_if_other_jobs_need_them(simkit):
    head, first, *_ = NODES.splitlines(keepends=True)
    other = first.replace("1|gpu", "2|gpu").replace("|6|1|g1|cpu=6,gres/gpu=1", "|6|3||cpu=6")
    Path("sacct.txt").write_text(head + first + other + other.replace("2|gpu", "3|gpu"))
    assert "Machines    3 machines with 6 processors, 1 gpu\n" in simkit("init", "sacct.txt").out
    text = Path("sacct.yaml").read_text()
    assert "# 1 machine named in the log. Each has\n" in text
    assert "# 2 more for jobs whose machines the log does not name.\n" in text  # 18 were in use
    assert finished_all(simkit, "sacct.yaml")


def test_machines_of_a_job_with_fewer_gpus_than_machines_have_their_share(simkit):
    share = "1|gpu|2024-03-02T13:00:00|2024-03-02T13:00:00|2024-03-02T14:00:00|01:00:00|40|2|n[1-2]"
    share += "|cpu=40,gres/gpu=1\n"
    Path("sacct.txt").write_text(NODES.partition("\n")[0] + "\n" + share)
    done = simkit("init", "sacct.txt")
    assert "Machines    2 machines with 20 processors, 1 gpu\n" in done.out
    assert "gpus in equal units 1" in done.out
    assert finished_all(simkit, "sacct.yaml")


LIMITS = [
    # time limits of three jobs; lines on them
    (("UNLIMITED",) * 3, ["# the log has no time limits (3 jobs without a limit), so the policy "
                          "knows the true run times", "estimates: actual"]),
    (("",) * 3, ["# the log has no time limits, so the policy knows the true run times",
                 "estimates: actual"]),
    (("02:00:00", "UNLIMITED", "UNLIMITED"),
     ["# 1 of 3 jobs has a time limit", "# without a limit, and planned as endless: 2 jobs",
      "estimates: requested"]),
    (("02:00:00", "UNLIMITED", ""),
     ["# 1 of 3 jobs has a time limit", "# without a limit, and planned as endless: 1 job; the "
      "policy knows the run time of the other 1", "estimates: requested"]),
    (("02:00:00", "", ""), ["# 1 of 3 jobs has a time limit; of the others the policy knows the "
                            "run time", "estimates: requested"]),
    (("02:00:00",) * 3, ["# 3 of 3 jobs have a time limit", "estimates: requested"]),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "lines"), LIMITS)
def test_a_job_without_limit_has_no_time_limit(simkit, limits, lines):
    head, *rows = SACCT.splitlines()
    rows = [
        "|".join([*row.split("|")[:7], limit, *row.split("|")[8:]])
        for row, limit in zip(rows, limits, strict=False)
    ]
    Path("log.txt").write_text("\n".join([head, *rows]) + "\n")
    done = simkit("init", "log.txt")
    text = Path("log.yaml").read_text()
    assert "\n".join(["", *lines, ""]) in text
    assert ("time limits: the policy knows" in done.out) == ("estimates: actual" in lines)


def test_without_a_zone_a_line_says_what_to_set(simkit):
    Path("sacct.txt").write_text(SACCT)
    done = simkit("init", "sacct.txt")
    assert "the time zone: times count as UTC; set workload.time_zone" in done.out
    assert "  # time_zone: Europe/Berlin\n" in Path("sacct.yaml").read_text()


def test_a_table_with_starts_gets_its_peak_and_one_without_its_largest_job(simkit):
    Path("jobs.csv").write_text(JOBS)
    Path("few.csv").write_text("\n".join(line.rpartition(",")[0] for line in JOBS.splitlines()))
    done = simkit("init", "jobs.csv")
    assert "Machines    6 processors for 3 jobs\n" in done.out
    assert "time limits: the policy knows the true run times (estimates: actual)" in done.out
    assert "6 processors on 20 s after the log's zero" not in Path("jobs.yaml").read_text()
    assert "6 processors 20 s after the log's zero" in Path("jobs.yaml").read_text()
    done = simkit("init", "few.csv")
    assert "Machines    4 processors for 3 jobs\n" in done.out
    assert "when jobs started, and the size of the machine: it is that of the largest" in done.out
    for scenario in ("jobs.yaml", "few.yaml"):
        assert load_scenario(Path(scenario)).estimates.type == "actual"
        assert finished_all(simkit, scenario)


def test_a_table_of_several_resources_gets_one_machine_for_all_jobs(simkit):
    Path("gangs.csv").write_text(GANGS)
    done = simkit("init", "gangs.csv")
    assert "on how many machines each job ran: they are one without boundaries" in done.out
    machines = load_scenario(Path("gangs.yaml")).cluster.machines
    assert machines is not None
    assert [(m.count, m.capacity) for m in machines] == [(1, {"cpu": 2, "mem": 48, "gpu": 1})]
    assert finished_all(simkit, "gangs.yaml")


NAMES = ["long", "on", "12", "a: b", 'quo"te', "über", "#1", "no partition", "[x]"]


def test_partitions_of_any_name(simkit):
    head, row, *_ = SACCT.splitlines()
    rows = [row.replace("1|ada|gpu", f"{n}|ada|{name}") for n, name in enumerate(NAMES)]
    Path("sacct.txt").write_text("\n".join([head, *rows]) + "\n")
    assert simkit("init", "sacct.txt").code == 0
    partitions = load_scenario(Path("sacct.yaml")).cluster.partitions
    assert [part.name for part in partitions] == NAMES
    assert finished_all(simkit, "sacct.yaml")


PLACES = ["my log.txt", "~log.txt", "sample:log.txt", "ü.txt", "log", "a'b\".txt", "x.y.txt"]


@pytest.mark.parametrize("name", PLACES)
def test_logs_of_any_name(simkit, name):
    Path(name).write_text(SACCT)
    done = simkit("init", name, "--output", "first.yaml")
    assert done.code == 0, done.err
    assert Path(load_scenario(Path("first.yaml")).workload.path) == Path(name).absolute()  # type: ignore[attr-defined]
    assert simkit("init", name).code == 0


def test_a_log_is_found_from_where_the_scenario_is(simkit):
    for folder in ("data", "work"):
        Path(folder).mkdir()
    Path("data/log.txt").write_text(SACCT)
    for target in ("first.yaml", "data/first.yaml", "work/first.yaml"):
        assert simkit("init", "data/log.txt", "-o", target).code == 0
        assert simkit("validate", target).code == 0
    assert 'path: "data/log.txt"\n' in Path("first.yaml").read_text()
    assert 'path: "log.txt"\n' in Path("data/first.yaml").read_text()


def test_the_jobs_of_a_run_are_a_log_with_starts(simkit):
    assert simkit("run", "quickstart", "-o", "run").code == 0
    facts = json.loads(simkit("trace", "info", "run/jobs.parquet", "--json").out)
    busiest = open_run("run").timeline["allocated_processors"].max()
    assert facts["peak processors in use"].startswith(f"{busiest:g}, first at ")
    assert simkit("init", "run/jobs.parquet", "-o", "again.yaml").code == 0
    assert load_scenario(Path("again.yaml")).cluster.processors == max(busiest, 128)
    assert finished_all(simkit, "again.yaml")


def test_keys_that_are_set_stand_in_the_scenario(simkit):
    Path("log.txt").write_text(SACCT + "5|damaged\n")
    assert simkit("init", "log.txt").code == 3
    assert simkit("init", "log.txt", "--set", "on_error=skip", "--format", "sacct").code == 0
    assert '  on_error: "skip"\n' in Path("log.yaml").read_text()
    assert finished_all(simkit, "log.yaml")


def test_a_file_is_replaced_only_with_force_and_the_log_never(simkit):
    Path("log.swf").write_text(SWF)
    Path("log.yaml").write_text("mine\n")
    done = simkit("init", "log.swf")
    assert done.code == 2
    assert "log.yaml: is there already; replace it with --force, or name another" in done.err
    assert Path("log.yaml").read_text() == "mine\n"
    assert simkit("init", "log.swf", "--force").code == 0
    assert Path("log.yaml").read_text() != "mine\n"
    done = simkit("init", "log.swf", "-o", "log.swf", "--force")
    assert (done.code, Path("log.swf").read_text()) == (2, SWF)
    assert "is the log itself" in done.err


WRONG = [
    # log, further words; exit code, words of the message
    ("nothing.swf", [], 3, "nothing.swf: no such file; did you mean"),
    ("empty.txt", [], 3, "no jobs: the file is empty"),
    ("comments.swf", [], 3, "no jobs: the file is empty or holds only comments"),
    ("headed.txt", [], 3, "no jobs"),
    ("note.txt", [], 3, "the format is not recognised"),
    (".", [], 3, "is a folder"),
    ("log.swf", ["-o", "nowhere/log.yaml"], 2, "there is no folder nowhere; make it"),
    ("log.swf", ["-o", "."], 2, "is a folder; name a file in it"),
    ("log.swf", ["--set", "proccesors=requested"], 3, "proccesors"),
    ("log.swf", ["--set", "processors_scale=2"], 3, "is applied by a scenario"),
    ("tasks.csv", ["--format", "alibaba2017"], 3, "tasks"),
]


@pytest.mark.parametrize(("log", "words", "code", "message"), WRONG)
def test_what_cannot_be_done_is_said_and_writes_nothing(simkit, log, words, code, message):
    Path("log.swf").write_text(SWF)
    Path("nothing.sw").write_text(SWF)
    Path("empty.txt").write_text("")
    Path("comments.swf").write_text("; MaxProcs: 8\n")
    Path("headed.txt").write_text(SACCT.splitlines()[0] + "\n")
    Path("note.txt").write_text("Dear all,\n")
    Path("tasks.csv").write_text("0,100,1,1,4,Terminated,50,0.25\n")
    before = sorted(path.name for path in Path().iterdir())
    done = simkit("init", log, *words)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert sorted(path.name for path in Path().iterdir()) == before


@pytest.mark.parametrize("place", ["reading", "writing"])
def test_ctrl_c_leaves_nothing_behind(simkit, monkeypatch, place):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    Path("log.swf").write_text(SWF)
    if place == "reading":
        monkeypatch.setattr(module, "_sizes", interrupted)
    else:
        monkeypatch.setattr(Path, "write_text", interrupted)
    done = simkit("init", "log.swf")
    assert done.code == 130
    assert [path.name for path in Path().iterdir()] == ["log.swf"]


def test_info_shows_peaks_waits_gpus_and_readable_run_times(simkit):
    Path("sacct.txt").write_text(SACCT)
    facts = json.loads(simkit("trace", "info", "sacct.txt", "--json").out)
    assert facts["run time"] == "00:30:00 to 01:00:00, median 00:45:00"
    assert facts["jobs with gpus"] == "2 (50.0%)"
    assert facts["recorded wait"] == "mean 00:27:30, median 00:30:00, p90 00:44:00"
    assert facts["peak processors in use"] == "46, first at 2024-03-02 14:00 UTC"
    assert facts["peak gpu in use"] == "12, first at 2024-03-02 14:00 UTC"
    peaks = {row["name"]: row["peak"] for row in facts["jobs by partition"]}
    assert peaks == {
        "gpu": {"processors": 38, "mem": 164, "gpu": 12},
        "cpu": {"processors": 20, "mem": 40, "gpu": 0},
    }
    out = simkit("trace", "info", "sacct.txt").out
    assert "Partition  jobs  share  peak processors  peak mem  peak gpu\n" in out
    assert "cpu           2  50.0%               20        40         0\n" in out


def test_info_says_so_where_a_log_has_no_starts(simkit):
    facts = json.loads(simkit("trace", "info", SAMPLES / "lublin_1000.swf.gz", "--json").out)
    assert (
        facts["recorded wait"]
        == facts["peak in use"]
        == "unknown: the log does not tell when jobs started"
    )
    Path("log.swf").write_text(SWF.replace("3 20 60", "3 20 -1"))
    facts = json.loads(simkit("trace", "info", "log.swf", "--json").out)
    assert facts["peak processors in use"] == "12, first at 2023-11-14 22:13 UTC of 3 of 4 jobs"
    assert facts["recorded wait"].endswith(" of 3 of 4 jobs")
    Path("log.swf").write_text(SWF.replace("3 20 60", "3 20 -60"))
    facts = json.loads(simkit("trace", "info", "log.swf", "--json").out)
    assert facts["recorded wait"].endswith(" of 3 of 4 jobs")
    assert facts["report"]["notes"] == {rules.START_EARLY: 1}
    early = SACCT.replace("|2024-03-02T13:00:00|2024", "|2024-03-02T15:00:00|2024")
    Path("sacct.txt").write_text(early)  # job 1 starts at 13:30
    facts = json.loads(simkit("trace", "info", "sacct.txt", "--json").out)
    assert facts["recorded wait"].endswith(" of 3 of 4 jobs")
    assert facts["peak processors in use"] == "46, first at 2024-03-02 14:00 UTC"
    Path("sacct.txt").write_text("".join(early.splitlines(keepends=True)[:2]))
    facts = json.loads(simkit("trace", "info", "sacct.txt", "--json").out)
    assert facts["recorded wait"] == "unknown: no job starts at or after its submission"
