"""Sweeps on Dask: the digests of a local sweep, whatever happens to workers; one sentence each."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from children import SIMKIT, child, until
from command_line import Simkit

from simkit.errors import RunError, ScenarioError
from simkit.experiment import dask_cluster
from simkit.experiment.dask_cluster import DaskCluster
from simkit.experiment.sweep import run_sweep
from simkit.experiment.workers import SweepOutcome
from simkit.policy import Place

pytest.importorskip("cryptography")

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(os.name != "posix", reason="signals to processes"),
]

GRID = {
    "name": "grid",
    "workload": {"type": "lublin", "jobs": 60, "processors": 16},
    "sweep": {"policy.backfill": ["none", "easy"], "seed": [0, 1, 2]},
}
QUIET: dict[str, Any] = {
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
    "memory_limit": 0,
}
POLICIES = """
import os, signal, time
from pathlib import Path
from simkit import Place

class Slow:
    def reset(self, info, rng): pass
    def schedule(self, state):
        Path(__file__).with_name(f"busy-{os.getpid()}").touch()
        time.sleep(0.005)
        for task in list(state.queue):
            if on := state.fit(task):
                yield Place(task, on)

class Deadly(Slow):
    def schedule(self, state):
        os.kill(os.getpid(), signal.SIGKILL)
        yield
"""


def digests(outcomes: Sequence[SweepOutcome]) -> list[str]:
    assert all(o.digest for o in outcomes), [o.error for o in outcomes]
    return [outcome.digest for outcome in outcomes]


def states(outcomes: Sequence[SweepOutcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def policy_class() -> type:
    """Return a policy that no worker can import."""

    class Mine:
        def reset(self, info: Any, rng: Any) -> None:
            pass

        def schedule(self, state: Any) -> Iterator[Any]:
            for task in list(state.queue):
                if on := state.fit(task):
                    yield Place(task, on)

    return Mine


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a scheduler with one worker, as someone else has started them."""
    import distributed

    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, **QUIET) as cluster:
        yield cluster.scheduler_address


def test_a_running_scheduler_carries_out_runs_and_a_class(tmp_path: Path, scheduler: str) -> None:
    sweep = {"policy": [policy_class(), {"order": "sjf"}]}
    grid = {**GRID, "sweep": {"seed": [0]}}
    there = run_sweep(grid, tmp_path / "there", sweep=sweep, executor=DaskCluster(scheduler))
    assert states(there) == ["done"] * 2, there.frame()["error"].to_list()
    assert digests(there) == digests(run_sweep(grid, tmp_path / "here", sweep=sweep, workers=1))


def test_a_run_that_kills_its_workers_fails_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICIES)
    policies = [{"path": f"{tmp_path}/mine.py:{name}"} for name in ("Deadly", "Slow")]
    grid = {**GRID, "sweep": {"policy": policies}}
    failed, done = run_sweep(grid, tmp_path / "out", executor=DaskCluster(workers=2))
    assert failed.state == "failed"
    assert done.digest
    assert failed.error.startswith("4 worker processes died of it, perhaps out of memory")


def test_ctrl_c_ends_workers_and_says_what_remains(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICIES)
    (tmp_path / "s.yaml").write_text(
        "workload: {type: lublin, jobs: 20000, processors: 16}\n"
        "sweep: {policy: [{path: mine.py:Slow}], seed: [0, 1]}\n"
    )
    with child(
        [*SIMKIT, "sweep", "s.yaml", "--on", "dask", "-j", "2", "-o", "out"], tmp_path,
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        until(lambda: len(list(tmp_path.glob("busy-*"))) == 2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it, to all processes
        _, told = process.communicate(timeout=60)
        assert told == "interrupted; finished runs in out will not be repeated\n"
        assert process.returncode == 130
        workers = [int(p.name.removeprefix("busy-")) for p in tmp_path.glob("busy-*")]
        until(lambda: not any(map(psutil.pid_exists, workers)), 20)


def test_ctrl_c_while_the_workers_start_is_a_sentence_too(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("workload: {type: lublin, jobs: 20000, processors: 16}\n")
    with child(
        [*SIMKIT, "sweep", "s.yaml", "--on", "dask", "-j", "2", "--set", "seed=0,1", "-o", "out"],
        tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        parent = psutil.Process(process.pid)
        until(lambda: len(parent.children()) == 3)  # with multiprocessing's own
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert told == "interrupted; finished runs in out will not be repeated\n"
    assert process.returncode == 130


WORDS = [
    # --on, and what is said
    (["foo"], "'foo' is no address of a Dask scheduler; write tls://host:port or tcp://host:port"),
    (["tcp://here"], "'tcp://here' is no address of a Dask scheduler; write tls://host:port or"),
    (["tls://here"], "'tls://here' is no address of a Dask scheduler; write tls://host:port or"),
    (["ucx://here:1"], "'ucx://here:1' is no address of a Dask scheduler; write tls://host:port"),
    (["tcp://a:1", "-j", "2"], "the cluster at tcp://a:1 has its own workers; leave --workers out"),
    (["tcp://127.0.0.1:1"], "tcp://127.0.0.1:1: no Dask scheduler answers within 1 s; check the"),
    (["tls://127.0.0.1:1"], "check the address and the certificates in Dask's configuration"),
]


@pytest.mark.parametrize(("words", "said"), WORDS)
def test_a_cluster_that_is_not_there_is_a_sentence(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1.0)
    done = Simkit(capsys, monkeypatch)("sweep", "backfilling-sweep", "--on", *words)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_is_no_scheduler_is_a_sentence(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that keeps silent, and one whose answer Dask would take for the length of a message."""
    monkeypatch.setattr(dask_cluster, "CONNECT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        Thread(target=_answer, args=(server, answer), daemon=True).start()
        with pytest.raises(RunError, match=f":{port}: no Dask scheduler answers within 1 s"):
            list(DaskCluster(f"tcp://127.0.0.1:{port}").run(len, [({}, {}, "")]))


def _answer(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(answer)
        while connection.recv(1_024):  # until the client goes away
            pass


def test_a_scheduler_with_certificates_takes_those_of_dasks_configuration(tmp_path: Path) -> None:
    """As a user sets it up: files of certificates, named in Dask's configuration."""
    import dask
    import distributed

    made = distributed.Security.temporary()
    files = {"ca": made.tls_ca_file, "cert": made.tls_client_cert, "key": made.tls_client_key}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    keys = {"distributed.comm.tls.ca-file": str(tmp_path / "ca")}
    for role in ("client", "scheduler", "worker"):
        keys |= {f"distributed.comm.tls.{role}.{n}": str(tmp_path / n) for n in ("cert", "key")}
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, security=made, **QUIET
        ) as theirs,
    ):
        address = theirs.scheduler_address
        assert address.startswith("tls://")
        with pytest.raises(RunError, match=r"no Dask scheduler answers .* certificates in Dask's"):
            run_sweep(GRID, tmp_path / "a", executor=DaskCluster(address))
        with dask.config.set(keys):
            done = run_sweep(GRID, tmp_path / "b", executor=DaskCluster(address))
    assert states(done) == ["done"] * 6


def listening(pids: Sequence[int]) -> set[int]:
    """Return the ports of this machine at which processes listen."""
    found = {
        connection.laddr
        for pid in pids
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {address.ip for address in found} <= {"127.0.0.1"}
    return {address.port for address in found}


@pytest.mark.skipif(sys.platform != "linux", reason="reads the ports of processes")
def test_a_stranger_cannot_talk_to_the_cluster(tmp_path: Path) -> None:
    """At no port of scheduler, nannies and workers, with or without encryption, nor by a page."""
    import distributed

    with DaskCluster(workers=2)._client(2) as client:
        client.wait_for_workers(2, 60)
        me = psutil.Process()
        pids = [me.pid, *(child.pid for child in me.children(recursive=True))]
        ports = listening(pids)
        assert len(ports) >= 5  # scheduler, two nannies, two workers
        places = [
            Path(info["local_directory"]) for info in client.scheduler_info()["workers"].values()
        ]
        for place in places:
            assert any(part.stat().st_mode & 0o777 == 0o700 for part in place.parents)
        stranger = distributed.Security.temporary().get_connection_args("client")
        for port in sorted(ports):
            for protocol, certificates in (("tcp", {}), ("tls", stranger)):
                with pytest.raises(OSError):  # noqa: PT011 - of many kinds
                    asyncio.run(knock(f"{protocol}://127.0.0.1:{port}", certificates))
            for page in ("info/main/workers.html", "metrics"):
                answer = page_of(port, page)
                assert not answer.startswith(b"HTTP/1.1 200"), (port, page, answer[:200])


async def knock(address: str, certificates: dict[str, Any]) -> None:
    """Connect to a server of Dask; raises OSError if it does not let one in."""
    import distributed

    connect = distributed.comm.connect(address, timeout=0.5, **certificates)
    await asyncio.wait_for(connect, 1)  # a server that is none would be waited for without end


def page_of(port: int, page: str) -> bytes:
    """Return what a port answers to a browser; nothing if it is none for browsers."""
    with socket.create_connection(("127.0.0.1", port), 0.5) as connection:
        connection.sendall(f"GET /{page} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        try:
            return connection.recv(65_536)
        except OSError:
            return b""


class Elsewhere:
    """A client whose workers answer as they are told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def nthreads(self) -> dict[str, int]:
        return {"tcp://far:1": 1}

    def run(self, *_: Any, **_also: Any) -> dict[str, Any]:
        return {"tcp://far:1": self.answer}


ANSWERS = [
    ((dask_cluster._version(), False), "tcp://far:1: this worker does not see .* choose an --outp"),
    (("0.0.1", True), "tcp://far:1: has simkit 0.0.1; install version .* there, too"),
    (ModuleNotFoundError("simkit"), "tcp://far:1: has no simkit; install version"),
]


@pytest.mark.parametrize(("answer", "said"), ANSWERS)
def test_a_worker_that_cannot_serve_is_named(answer: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=said):
        dask_cluster._check_workers(Elsewhere(answer), tmp_path / "mark")


def test_a_worker_that_comes_later_without_the_folder_runs_nothing(tmp_path: Path) -> None:
    def task(_run: Any) -> SweepOutcome:
        raise AssertionError

    outcome = dask_cluster._carry_out(task, ({}, {}, str(tmp_path)), tmp_path / "absent")
    assert outcome.state == "failed"
    assert "does not see" in outcome.error


def test_a_cluster_without_workers_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import distributed

    monkeypatch.setattr(dask_cluster, "NO_WORKER_S", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, **QUIET) as cluster,
        pytest.raises(RunError, match=r"no worker for 0\.5 s; start some with `dask worker tcp:"),
    ):
        run_sweep(GRID, tmp_path, executor=DaskCluster(cluster.scheduler_address))


@pytest.mark.parametrize("module", ["distributed", "cryptography"])
def test_without_a_package_the_message_names_the_extra(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ScenarioError, match=r"pip install 'simkit-cluster\[cluster\]'"):
        DaskCluster()
    if module == "cryptography":  # what protects another cluster is up to its owner
        DaskCluster("tcp://there:8786")
