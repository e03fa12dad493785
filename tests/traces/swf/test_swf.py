"""Reading SWF logs: the format, the rules, the report, and what is wrong with a broken file."""

import gzip
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_files import real_file, refusal

from simkit.traces import rules
from simkit.traces.files import Block
from simkit.traces.swf import SwfHeader, _rows, read_swf

HEADER = "; MaxProcs: 64\n; UnixStartTime: 1000\n; TimeZoneString: Europe/Berlin\n"


def row(job=1, submit=0, run=10, allocated=4, requested=4, wanted=20, user=7, **more):
    """A row of SWF with the given fields; `more` by number, e.g. f15=3."""
    fields = [job, submit, -1, run, allocated, -1, -1, requested, wanted, -1, 1, user, 2] + [-1] * 5
    for name, value in more.items():
        fields[int(name[1:]) - 1] = value
    return " ".join(map(str, fields))


@pytest.fixture
def log(tmp_path):
    """Write lines (or bytes) to a file and return its path."""

    def write(*lines, name="log.swf", header=HEADER):
        path = tmp_path / name
        if lines and isinstance(lines[0], bytes):
            path.write_bytes(lines[0])
        else:
            path.write_text(header + "".join(f"{line}\n" for line in lines))
        return path

    return write


message = partial(refusal, read_swf)


# ---- what a row becomes -------------------------------------------------------------------------


def test_a_row_becomes_a_rigid_job(log):
    trace = read_swf(log(row(5, 30, f14=11, f15=12, f16=13)))
    jobs = trace.workload
    assert jobs.resources == ("processors",)
    assert jobs.job_id.dtype == np.int64
    assert (jobs.job_id[0], jobs.submit_time_s[0], jobs.run_time_s[0]) == (5, 30, 10)
    assert (jobs.instances[0], jobs.requested_time_s[0], jobs.gang[0]) == (4, 20, True)
    numbers = [getattr(jobs, n)[0] for n in ("user", "group", "executable", "queue", "partition")]
    assert numbers == [7, 2, 11, 12, 13]
    assert (jobs.epoch_s, jobs.time_zone, jobs.capacity) == (
        1000,
        "Europe/Berlin",
        {"processors": 64},
    )
    assert trace.inputs[0].name == "log.swf"


RULE_TABLE = [
    # row, rule, kind, processors and requested time of the job (or None)
    (row(), None, "accepted", (4, 20)),
    (row(allocated=-1, requested=8), rules.FROM_REQUESTED, "repaired", (8, 20)),
    (row(allocated=0, requested=8), rules.FROM_REQUESTED, "repaired", (8, 20)),
    (row(allocated=2.5), rules.ROUNDED_UP, "repaired", (3, 20)),
    (row(wanted=-1), rules.NO_REQUEST, "repaired", (4, 10)),
    (row(wanted=0), rules.NO_REQUEST, "repaired", (4, 10)),
    (row(wanted=9), rules.RAISED, "repaired", (4, 10)),
    # a row that two rules repair counts under the first
    (row(allocated=-1, wanted=9), rules.FROM_REQUESTED, "repaired", (4, 10)),
    (row(submit=-1), rules.NO_SUBMIT, "dropped", None),
    (row(run=-1), rules.NO_RUN, "dropped", None),
    (row(run=0), rules.ZERO_RUN, "dropped", None),
    (row(allocated=-1, requested=-1), rules.NO_PROCESSORS, "dropped", None),
    (row(allocated=-5, requested=0), rules.NO_PROCESSORS, "dropped", None),
    (row(run="nan"), rules.NOT_A_NUMBER, "dropped", None),
    (row(submit="NaN"), rules.NOT_A_NUMBER, "dropped", None),
    (row(run="inf"), rules.NOT_A_NUMBER, "dropped", None),
    (row(job="nan"), rules.NOT_A_NUMBER, "dropped", None),
    (row(run=1e300), rules.NOT_A_NUMBER, "dropped", None),
    (row(run=2**32 + 1), rules.NOT_A_NUMBER, "dropped", None),
    (row(submit=9e9), rules.NOT_A_NUMBER, "dropped", None),
    # two rules leave it out: the first one counts
    (row(submit=-1, run=-1), rules.NO_SUBMIT, "dropped", None),
]


@pytest.mark.parametrize(("line", "rule", "kind", "job"), RULE_TABLE)
def test_each_rule_repairs_or_drops_and_is_counted_once(log, line, rule, kind, job):
    trace = read_swf(log(line, row(99, submit=5)))
    report = trace.report
    assert report.balanced()
    assert report.read == 2
    counted = {"accepted": {}, "repaired": report.repaired, "dropped": report.dropped}[kind]
    assert counted == ({rule: 1} if rule else {})
    assert report.lines == ({rule: [4]} if rule else {})
    kept = [
        (int(n), t)
        for n, t in zip(trace.workload.instances, trace.workload.requested_time_s, strict=True)
    ]
    assert kept == ([job, (4, 20)] if job else [(4, 20)])


def test_requested_processors_can_come_first(log):
    path = log(row(1, allocated=2, requested=8), row(2, allocated=2, requested=-1))
    trace = read_swf(path, processors="requested")
    assert trace.workload.instances.tolist() == [8, 2]
    assert trace.report.repaired == {rules.FROM_ALLOCATED: 1}


# ---- order, numbers, times ----------------------------------------------------------------------


def test_rows_out_of_order_are_sorted_by_submit_and_id_and_noted(log):
    trace = read_swf(log(row(3, 50), row(9, 20), row(2, 50), row(4, 20)))
    assert trace.workload.job_id.tolist() == [4, 9, 2, 3]
    assert trace.report.notes == {rules.OUT_OF_ORDER: 2}
    assert trace.report.lines == {rules.OUT_OF_ORDER: [5, 7]}
    assert trace.report.accepted == 4


def test_repeated_ids_and_large_jobs_are_kept_and_noted(log):
    trace = read_swf(log(row(1), row(1, 5), row(2, 6, allocated=65)))
    assert len(trace.workload) == 3
    assert trace.report.notes == {rules.REPEATED_ID: 1, rules.TOO_LARGE: 1}
    assert trace.report.lines == {rules.REPEATED_ID: [5], rules.TOO_LARGE: [6]}


def test_absolute_submit_times_count_from_the_first_job(log):
    header = "; UnixStartTime: 0\n"
    lines = (row(2, 1641021290), row(1, 1641021254, run=0), row(3, 1641021300.5))
    trace = read_swf(log(*lines, header=header))
    assert trace.workload.submit_time_s.tolist() == [0, 10.5]
    assert trace.workload.epoch_s == 1641021290
    assert trace.report.notes == {rules.ABSOLUTE_TIMES: 2}


HEADERS = [
    # header, processors, epoch, time zone
    ("; MaxNodes: 338 (batch partition; 512 total)\n", 338, math.nan, None),
    ("; MaxNodes: 8\n; MaxProcs: 64\n", 64, math.nan, None),
    (";maxprocs:1664 (72, 1368, 224)\n", 1664, math.nan, None),
    ("; MaxProcs: -1\n; MaxNodes: 5\n", 5, math.nan, None),
    ("; MaxProcs: unknown\n; UnixStartTime: 893466664\n", None, 893466664, None),
    ("; TimeZoneString: US/Pacific\n; TimeZone: -28800\n", None, math.nan, "US/Pacific"),
    ("; MaxProcs: 7\n; MaxProcs: 9\n", 7, math.nan, None),
]


@pytest.mark.parametrize(("header", "processors", "epoch", "zone"), HEADERS)
def test_the_header_tells_the_machine_and_the_clock(log, header, processors, epoch, zone):
    jobs = read_swf(log(row(), header=header)).workload
    assert jobs.capacity.get("processors") == processors
    assert jobs.epoch_s == pytest.approx(epoch, nan_ok=True)
    assert jobs.time_zone == zone


def test_an_unknown_time_zone_is_noted(log):
    trace = read_swf(log(row(), header="; TimeZoneString: Mars/Olympus\n"))
    assert trace.workload.time_zone is None
    assert trace.report.notes == {rules.UNKNOWN_ZONE: 1}


# ---- the shape of the file ----------------------------------------------------------------------

SHAPES = {
    "windows line ends": f"{HEADER}{row(1)}\n{row(2, 9)}\n".replace("\n", "\r\n").encode(),
    "tabs": f"{row(1)}\n{row(2, 9)}\n".replace(" ", "\t").encode(),
    "padding and trailing blanks": f"   {row(1)}  \n\n  {row(2, 9)}\t\n".encode(),
    "no line end at the end": f"{row(1)}\n{row(2, 9)}".encode(),
    "comments and blanks between rows": f"{row(1)}\n;x\n\n ; y: z\n{row(2, 9)}\n;end".encode(),
    "latin-1 in a comment": b"; By: Universit\xe4t\n" + f"{row(1)}\n{row(2, 9)}\n".encode(),
    "a byte order mark": b"\xef\xbb\xbf" + f"{row(1)}\n{row(2, 9)}\n".encode(),
    "gzip": gzip.compress(f"{HEADER}{row(1)}\n{row(2, 9)}\n".encode(), mtime=0),
    "a plus sign, which polars does not know": f"{row('+1')}\n{row(2, '+9.0')}\n".encode(),
}  # fmt: skip


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES)
def test_the_same_jobs_come_from_all_shapes(log, content):
    trace = read_swf(log(content))
    assert trace.workload.job_id.tolist() == [1, 2]
    assert trace.workload.submit_time_s.tolist() == [0, 9]
    assert trace.report.accepted == trace.report.read == 2


@pytest.mark.parametrize("first", ["long", "short"])
def test_a_long_row_does_not_make_up_for_a_short_one(log, first):
    rows = [f"{row(1)} 5", row(2).rsplit(" ", 1)[0]]
    rows = rows if first == "long" else rows[::-1]
    text = "".join(f"{line}\n" for line in [*rows, row(3)])
    line = 2 if first == "long" else 1
    assert f":{line}: 17 fields, SWF has 18" in message(log(text.encode()))


def test_fields_after_the_eighteenth_are_ignored_and_noted(log):
    trace = read_swf(log(row(1), row(2) + " 5 x", row(3)))
    assert len(trace.workload) == 3
    assert trace.report.notes == {rules.EXTRA_FIELDS: 1}
    assert trace.report.lines == {rules.EXTRA_FIELDS: [5]}


# ---- broken files -------------------------------------------------------------------------------


def cut_gzip():
    packed = gzip.compress("".join(f"{row(i, i)}\n" for i in range(5000)).encode(), mtime=0)
    return packed[: len(packed) // 2]


BROKEN = [
    # content, what the message says after the file's name
    (b"", ": no jobs: the file is empty"),
    (gzip.compress(b"", mtime=0), ": no jobs: the file is empty"),
    (b"; MaxProcs: 3\n;\n", ": no jobs: the file is empty or holds only comments"),
    (b"hello\n", ":1: 1 field, SWF has 18; pad unknown fields with -1"),
    (f"{row()}\n\n;\n1 2 3\n".encode(), ":4: 3 fields, SWF has 18"),
    (f"{row()}\n{row(2)} 19\n1 2 3\n".encode(), ":3: 3 fields, SWF has 18"),
    (f"{row('1_000')}\n".encode(), ":1: field 1 (job) is '1_000', not a number"),
    (b"Job_name Submit Runtime Nodes\n", ":1: 4 fields, SWF has 18"),
    (b"\x7fELF\x02\x01\x00\x00" * 50, ":1: byte 0x7f does not occur in text"),
    (f"{row()}\n{row()}\n".encode() + b"\0" * 9, ":3: byte 0x00 does not occur in text"),
    (gzip.compress(b"\0\1\2" * 100, mtime=0), ":1: byte 0x00 does not occur in text"),
    (
        gzip.compress(f"{row(run=0)}\n".encode(), mtime=0),
        ": no jobs: the only row is left out (run time",
    ),
    (cut_gzip(), ": the gzip data are cut off or damaged"),
    (gzip.compress(f"{row()}\n".encode(), mtime=0)[:-6], ": the gzip data are cut off or damaged"),
    (b"PK\x03\x04" + b"x" * 50, ": holds zip data; unpack or convert it"),
    (f"{row(run=0)}\n{row(2, run=-1)}\n".encode(), ": no jobs: all 2 rows are left out (run time"),
]


@pytest.mark.parametrize(("content", "expected"), BROKEN)
def test_a_broken_file_is_an_error_with_place_and_remedy(log, content, expected):
    text = message(log(content))
    if expected.startswith(": the gzip"):
        line, _, text = text[1:].partition(":")
        assert int(line) >= 1
        text = f":{text}"
    assert text.startswith(expected)
    assert ";" in text or "check" in text  # the remedy


def test_a_missing_file_suggests_its_neighbour(log):
    path = log(row(), name="SDSC-SP2.swf.gz")
    assert message(path.with_name("SDSC-SP3.swf.gz")).endswith(f"; did you mean {str(path)!r}?")
    assert "there is no folder" in message(path.parent / "nowhere" / "log.swf")


def test_a_folder_is_no_log(tmp_path):
    assert message(tmp_path) == ": is a folder; name a log file in it"


def test_a_forbidden_file_says_so(log, monkeypatch):
    def forbidden(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    path = log(row())
    monkeypatch.setattr(Path, "open", forbidden)
    assert message(path).startswith(": may not be read; ask its owner")


# ---- the archive's logs -------------------------------------------------------------------------

ARCHIVE = [
    # log, rows, jobs, processors
    ("KTH-SP2-1996-2.1-cln", 28476, 28467, 100),
    ("NASA-iPSC-1993-3.1-cln", 18239, 18066, 128),
    ("CTC-SP2-1996-3.1-cln", 77222, 77205, 338),
    ("SDSC-SP2-1998-4.2-cln", 59715, 54034, 128),
    ("SDSC-BLUE-2000-4.2-cln", 243306, 232536, 1152),
    ("HPC2N-2002-2.2-cln", 202871, 202871, 240),
    ("LLNL-Thunder-2007-1.1-cln", 121039, 113613, 4008),
    ("DOST-ASTI_COARE-Saliksik-2020-cln", 19760, 19760, 1728),
    ("lublin_256", 10000, 10000, 256),
    ("theta_2022", 23911, 23911, 4360),
]


@pytest.mark.parametrize(("name", "rows", "jobs", "processors"), ARCHIVE)
def test_rows_and_jobs_of_real_logs(name, rows, jobs, processors):
    path = real_file("swf", f"{name}.swf.gz")
    trace = read_swf(path)
    assert (trace.report.read, len(trace.workload)) == (rows, jobs)
    assert trace.report.balanced()
    assert trace.workload.capacity == {"processors": processors}


# ---- lines of a block ---------------------------------------------------------------------------

BLANKS = st.text(" \t\r\v\f", max_size=3)
FIELDS = st.lists(st.sampled_from(["1", "-1", "2.5", "x", "a;b"]), min_size=1, max_size=4)
LINES = st.lists(
    st.one_of(
        st.builds(lambda words, gap: f"{gap} ".join(words), FIELDS, BLANKS),
        st.sampled_from(["", "; MaxProcs: 8", ";", ";;  x ; y", "; Queue: 1  two  blanks"]),
    ),
    max_size=12,
)


@given(LINES, st.data(), st.integers(1, 90))
def test_comments_empty_lines_and_blanks_change_no_row(lines, data, first):
    around = [(data.draw(BLANKS), data.draw(BLANKS)) for _ in lines]
    text = "".join(f"{b}{x}{a}\n" for x, (b, a) in zip(lines, around, strict=True))
    header = SwfHeader()
    found, numbers = _rows(Block(first, text.encode()), header, "log.swf")
    rows = [(n, x.split()) for n, x in enumerate(lines, first) if x and not x.startswith(";")]
    assert found.decode() == "".join(" ".join(words) + "\n" for _, words in rows)
    assert numbers.tolist() == [n for n, _ in rows]
    assert header.lines == [x.encode() for x in lines if x.startswith(";")]
    assert header.remarks == len(lines) - len(rows)
