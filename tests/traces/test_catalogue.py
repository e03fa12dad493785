"""The catalogue of public logs, and downloads from a server on this machine."""

from __future__ import annotations

import gzip
import hashlib
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from trace_files import real_file

from simkit.errors import TraceError
from simkit.traces import catalogue as module
from simkit.traces.catalogue import catalogue, fetch, find_log

LOG = gzip.compress(b"; a log\n" + b"".join(b"%d " % n for n in range(5000)), mtime=0)
SUM = hashlib.sha256(LOG).hexdigest()
NAME, FILE = "LANL-O2K", "LANL-O2K-1999-2.swf.gz"  # a log whose checksum is not known


class Archive(ThreadingHTTPServer):
    """Serves one file under /archive and keeps what was asked for."""

    body, status, promised, headers = LOG, 200, None, {}

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}/archive"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.send_header("Content-Length", self.server.promised or len(self.server.body))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *words):
        pass


@pytest.fixture
def archive():
    with Archive() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def known_sum(monkeypatch):
    """Let the catalogue know the checksum of the file served here."""
    entries = [replace(e, sha256=SUM) if e.name == NAME else e for e in catalogue()]
    monkeypatch.setattr(module, "_entries", lambda: tuple(entries))


class TestCatalogue:
    def test_entries_are_complete_and_distinct(self):
        logs = catalogue()
        assert len({log.name.lower() for log in logs}) == len({log.url for log in logs}) == 33
        assert [log.start for log in logs] == sorted(log.start for log in logs)
        for log in logs:
            assert log.url.startswith("https://www.cs.huji.ac.il/labs/parallel/workload/l_")
            assert log.url.endswith(f"/{log.file}")
            assert log.file.endswith(".swf.gz")
            assert log.page == log.url.removesuffix(log.file) + "index.html"
            assert 1 <= log.months <= 42
            assert "Feitelson" in log.citation
            assert log.sha256 is None or len(bytes.fromhex(log.sha256)) == 32
            assert (log.cleaned_jobs or 0) <= (log.jobs or 0)
            assert log.checked == (log.sha256 is not None)
            assert log.cleaned_jobs is None or log.file.endswith("-cln.swf.gz")

    @pytest.mark.parametrize("name", ["SDSC-SP2", "sdsc-sp2", "SDSC-SP2-1998-4.2-cln.swf.gz"])
    def test_found_by_name_or_file(self, name):
        log = find_log(name)
        assert (log.name, log.processors, log.jobs, log.cleaned_jobs, log.months) == (
            "SDSC-SP2", 128, 73_496, 59_715, 24,
        )  # fmt: skip
        assert "University of California" in log.terms

    @pytest.mark.parametrize(
        "log", [log for log in catalogue() if log.checked], ids=lambda g: g.name
    )
    def test_facts_hold_for_the_real_file(self, log):
        packed = real_file("swf", log.file).read_bytes()
        assert hashlib.sha256(packed).hexdigest() == log.sha256
        lines = gzip.decompress(packed).splitlines()
        header = dict(
            line.lstrip(b"; ").split(b":", 1) for line in lines if line[:1] == b";" and b":" in line
        )
        assert sum(1 for line in lines if line.strip() and line[:1] != b";") == log.cleaned_jobs
        assert int(header[b"MaxJobs"]) == log.jobs
        assert int(header[b"MaxProcs"]) == log.processors
        assert log.acknowledge.split()[0] in header[b"Acknowledge"].decode()


class TestFetch:
    def test_gets_the_file_once(self, archive, tmp_path):
        told = []
        for _ in range(2):
            path = fetch(
                NAME, tmp_path / "new" / "folder", base_url=archive.url + "/",
                progress=lambda *state: told.append(state),
            )  # fmt: skip
            assert path == tmp_path / "new" / "folder" / FILE
            assert path.read_bytes() == LOG
        assert archive.asked == [f"/archive/l_lanl_o2k/{FILE}"]
        assert told[-1] == (len(LOG), len(LOG))
        assert [p.name for p in path.parent.iterdir()] == [FILE]
        assert path.stat().st_mode & 0o044 == 0o044

    def test_an_older_version_is_replaced(self, archive, tmp_path, known_sum):
        (tmp_path / FILE).write_bytes(b"older")
        assert fetch(NAME, tmp_path, base_url=archive.url).read_bytes() == LOG

    def test_stays_packed_where_the_server_calls_gzip_an_encoding(self, archive, tmp_path):
        archive.headers = {"Content-Encoding": "x-gzip"}
        assert fetch(NAME, tmp_path, base_url=archive.url).read_bytes() == LOG

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ({"status": 404}, "the server answers 404"),
            ({"promised": len(LOG) + 9}, "not a whole gzipped log"),  # connection lost
            ({"body": LOG[:-20]}, "not a whole gzipped log"),  # cut off at the server
            ({"body": b"<html>moved</html>"}, "not a whole gzipped log"),  # some other page
        ],
    )
    def test_nothing_half_written_is_left(self, archive, tmp_path, answer, message):
        for name, value in answer.items():
            setattr(archive, name, value)
        with pytest.raises(TraceError, match=message) as error:
            fetch(NAME, tmp_path, base_url=archive.url)
        assert f"{archive.url}/l_lanl_o2k/{FILE}" in str(error.value)
        assert list(tmp_path.iterdir()) == []

    def test_wrong_checksum(self, archive, tmp_path, known_sum):
        archive.body = gzip.compress(b"another log")
        with pytest.raises(TraceError, match=f"the checksum is not {SUM}"):
            fetch(NAME, tmp_path, base_url=archive.url)
        assert list(tmp_path.iterdir()) == []

    def test_no_network(self, tmp_path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))  # bound but not listening: refuses connections
            port = free.getsockname()[1]
            with pytest.raises(TraceError, match=r"no answer .*check the network"):
                fetch(NAME, tmp_path, base_url=f"http://127.0.0.1:{port}")
        assert list(tmp_path.iterdir()) == []

    def test_unwritable_folder(self, archive, tmp_path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(TraceError, match=r"cannot write .*choose another folder"):
            fetch(NAME, tmp_path / "file", base_url=archive.url)
        assert archive.asked == []

    def test_base_url_without_scheme(self, tmp_path):
        with pytest.raises(TraceError, match="base_url must begin with https://"):
            fetch(NAME, tmp_path, base_url="mirror.example")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("SDSC-SP3", "no public log is called 'SDSC-SP3'; did you mean 'SDSC-SP2'?"),
            ("hpcn2", "did you mean 'HPC2N'?"),
            ("xyzzy", "known: ANL-Intrepid"),
        ],
    )
    def test_unknown_name(self, tmp_path, name, message):
        with pytest.raises(TraceError) as error:
            fetch(name, tmp_path)
        assert message in str(error.value)
