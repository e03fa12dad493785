"""Job and task tables whose times are dates: the epoch and the zone come from them."""

import pytest

import simkit
from simkit.errors import TraceError
from simkit.traces.jobs_table import read_jobs_table
from simkit.traces.task_table import read_task_table
from simkit.verify import verify_run

HEAD = "job_id,submit_time_s,run_time_s,processors,deadline_s"


@pytest.fixture
def jobs(tmp_path):
    def write(*rows, head=HEAD, name="jobs.csv"):
        path = tmp_path / name
        path.write_text("\n".join([head, *rows]) + "\n")
        return path

    return write


def refused(read, path, **keys):
    with pytest.raises(TraceError) as caught:
        read(path, **keys)
    return str(caught.value).replace(str(path), "FILE")


ROWS = ("1,2024-03-01 08:00,60,2,2024-03-01 10:00", "2,2024-03-01 08:30,60,2,",
        "3,2024-03-01 08:15,60,1,inf")  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "keys", "problem"),
    [
        (ROWS, {}, "FILE: submit_time_s: times without a time zone; declare zone"),
        (("1,2024-13-01 08:00,60,2,", ROWS[1]), {"zone": "UTC"},
         "FILE:2: submit_time_s is '2024-13-01 08:00', a date that cannot be; correct it"),
        (("1,2024-03-31 02:30,60,2,", ROWS[1]), {"zone": "Europe/Berlin"},
         "a time that the clock of Europe/Berlin skips as it is put forward"),
        (("1,soon,60,2,", ROWS[1]), {"zone": "UTC"}, "submit_time_s is 'soon', not a number"),
        ((ROWS[1], "1,soon,60,2,"), {"zone": "UTC"}, "is 'soon', not of the form of dates"),
        (("1,2024-03-01 08:00,60,2,99",), {"zone": "UTC"}, "deadline_s: no time can be read"),
        (ROWS, {"zone": "UTC", "factors": {"submit_time_s": 0.001}},
         "submit_time_s holds dates, which a factor cannot convert"),
        (("1,01.03.2024 08:00,60,2,",), {"zone": "UTC"},
         'time_format: "%d.%m.%Y %H:%M" reads them'),
    ],
)  # fmt: skip
def test_dates_that_cannot_be_read(jobs, rows, keys, problem):
    assert problem in refused(read_jobs_table, jobs(*rows), **keys)


TASKS = {"job_id": "job", "submit_time_s": "at", "run_time_s": "took", "cpu": "cpu"}


def test_an_unknown_amount_is_not_none_of_it(jobs):
    head = "job_id,submit_time_s,run_time_s,cpu,mem"
    assert read_jobs_table(jobs("1,0,5,2,", head=head)).workload.request.tolist() == [[2, 0]]
    found = refused(read_jobs_table, jobs("1,0,5,2,N/A", head=head))
    assert "FILE:2: mem is nan, it must be at least 0" in found
    tasks = jobs("a,0,5,n/e", "b,0,5,1", head="job,at,took,cpu")
    assert read_task_table(tasks, columns=TASKS).report.dropped == {"no usable request": 1}


@pytest.mark.parametrize("kind", ["jobs", "tasks"])
def test_a_run_of_dates_is_audited(tmp_path, jobs, kind):
    if kind == "jobs":
        path = jobs(*(row.replace(",", ";").replace("60", "60,5") for row in ROWS),
                    head="a note\n" + HEAD.replace(",", ";"))  # fmt: skip
        keys = {"zone": "Europe/Berlin"}
    else:
        path = jobs("a\t2024-03-01 08:00\t60\t1,5", "b\t2024-03-01 08:30\t60\t2",
                    head="job\tat\ttook\tcpu")  # fmt: skip
        keys = {"zone": "Europe/Berlin", "columns": TASKS}
    cluster = {"machines": [{"count": 2, "cpu": 4}]} if kind == "tasks" else {"processors": 4}
    scenario = {
        "workload": {"type": kind, "path": str(path)} | keys,
        "cluster": cluster,
        "policy": {"fitness": "first-fit"} if kind == "tasks" else {"order": "fcfs"},
    }
    simkit.simulate(scenario, output=tmp_path / "run")
    audit = verify_run(tmp_path / "run", inputs=[tmp_path])
    assert audit.ok, [f"{v.check}: {v.message}" for v in audit.violations]
    assert {"tasks", "input"} & {check.name for check in audit.done}, [c.name for c in audit.done]
