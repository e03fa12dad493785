"""Dask: carries out the runs of a sweep on a cluster of Dask distributed, here or elsewhere.

    simkit sweep grid.yaml --on dask --workers 4
    simkit sweep grid.yaml --on tls://login1:8786

Needs the extra `cluster`. Who can talk to a scheduler can run code in its workers. A cluster that
is started here therefore has certificates of its own, which exist in memory alone: only this
process and its workers can connect. What protects another scheduler, its owner decides.

Runs write their folders themselves, so workers and this process share a file system. A worker that
dies costs one run, which is begun again elsewhere; a run that has cost several workers has failed.
Dask decides how many: ``distributed.scheduler.allowed-failures``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

from simkit.errors import RunError, ScenarioError, SimkitError
from simkit.experiment.interrupt import DeferredInterrupt
from simkit.experiment.workers import (
    MAIN_GUARD,
    PlannedRun,
    RunTask,
    SweepOutcome,
    end_if_main_runs_again,
    in_turn,
    main_file,
    without_ctrl_c,
)
from simkit.plugins import code_refused, refuses_code

CONNECT_S: Final = 5.0
"""Time in which a scheduler must answer."""
NO_WORKER_S: Final = 60.0
"""Time without any worker after which a sweep gives up."""
LOOK_AGAIN_S: Final = 1.0
"""Time after which new workers get runs although none has ended."""


class DaskCluster:
    """Carries runs out on a cluster of Dask distributed."""

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        """Name a scheduler, ``tls://host:port`` or ``tcp://host:port``; None: workers here.

        Raises ScenarioError for another address, or if Dask is not installed, or what makes its
        certificates is not.
        """
        if address is not None and not _is_address(address):
            raise ScenarioError(
                f"{address!r} is no address of a Dask scheduler; write tls://host:port or "
                "tcp://host:port, or dask for a cluster of this machine"
            )
        _import_distributed()
        if address is None:
            _import_cryptography()
        self.address = address
        self.workers = workers or os.cpu_count() or 1

    def run(self, task: RunTask, runs: Sequence[PlannedRun]) -> Iterator[tuple[int, SweepOutcome]]:
        if not runs:
            return
        with self._client(len(runs)) as client, _marked(runs) as mark:
            if mark is not None:
                _check_workers(client, mark)
            pool = client.get_executor(pure=False)

            def submit(run: PlannedRun) -> Future[SweepOutcome]:
                assignment, data, folder = run
                there = (assignment, data, folder and str(Path(folder).absolute()))
                future: Future[SweepOutcome] = pool.submit(
                    _carry_out, task, there, mark, refuses_code()
                )
                return future

            for row, future in in_turn(submit, runs, lambda: _workers(client), LOOK_AGAIN_S):
                yield row, self._outcome(future, runs[row])

    @contextmanager
    def _client(self, runs: int) -> Iterator[Any]:
        """Connect to the scheduler, or start a cluster; close what was opened."""
        end_if_main_runs_again()
        distributed = _import_distributed()
        with distributed.utils.silence_logging_cmgr(logging.CRITICAL):  # errors say it instead
            if self.address is None:
                with (
                    self._local_cluster(distributed, runs) as cluster,
                    distributed.Client(cluster, set_as_default=False) as client,
                ):
                    yield client
            else:
                with _connected(distributed, self.address) as client:
                    yield client

    @contextmanager
    def _local_cluster(self, distributed: Any, runs: int) -> Iterator[Any]:
        """Start workers of one thread each; raises RunError if they cannot be started."""
        with ExitStack() as opened:
            try:
                # all threads and processes that it starts ignore Ctrl-C, and this thread defers it
                with DeferredInterrupt() as interrupt, without_ctrl_c():
                    place = opened.enter_context(TemporaryDirectory(prefix="simkit-dask-"))
                    opened.enter_context(_without_pages())
                    cluster = distributed.LocalCluster(
                        n_workers=min(self.workers, runs),
                        threads_per_worker=1,
                        memory_limit=0,  # as without Dask: the system's memory is the limit
                        dashboard_address=None,
                        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # not 0.0.0.0:8787
                        security=distributed.Security.temporary(),
                        local_directory=place,  # readable by the user alone
                        silence_logs=logging.CRITICAL,
                    )
                    opened.enter_context(cluster)
            except RuntimeError as error:
                raise RunError(
                    f"the workers of the cluster could not be started: {error}; if {main_file()} "
                    f"has no main guard: {MAIN_GUARD}"
                ) from None
            if interrupt.requested:
                raise KeyboardInterrupt
            yield cluster

    def _outcome(self, future: Future[SweepOutcome], run: PlannedRun) -> SweepOutcome:
        from distributed.scheduler import KilledWorker

        try:
            return replace(future.result(), folder=Path(run[2]))
        except KilledWorker as error:
            deaths = error.allowed_failures + 1
            text = f"{deaths} worker processes died of it, perhaps out of memory; use fewer workers"
            return SweepOutcome(run[0], Path(run[2]), "failed", text)
        except CancelledError as error:
            raise RunError(
                f"{self.address or 'the cluster'}: the connection to the scheduler was lost; give "
                "the same command again: finished runs are not repeated"
            ) from error
        except SimkitError:
            raise
        except Exception as error:  # such as a class that the worker cannot import
            text = f"{type(error).__name__}: {error}; install the same packages on all workers"
            return SweepOutcome(run[0], Path(run[2]), "failed", text)


def _is_address(text: str) -> bool:
    protocol, mark, place = text.partition("://")
    host, colon, port = place.rpartition(":")
    return protocol in ("tcp", "tls") and bool(mark and host and colon) and port.isdecimal()


def _import_distributed() -> Any:
    """Return the package; raises ScenarioError if it is not installed."""
    try:
        import distributed
    except ImportError as error:
        raise ScenarioError(
            "running on Dask needs the extra `cluster`: pip install 'simkit-cluster[cluster]'"
        ) from error
    return distributed


def _import_cryptography() -> None:
    """Raise ScenarioError unless the package is there by which Dask makes certificates."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise ScenarioError(
            "running on Dask needs cryptography, by which no other account can talk to the "
            "workers: pip install 'simkit-cluster[cluster]'"
        ) from error


@contextmanager
def _without_pages() -> Iterator[None]:
    """Let no scheduler or worker that starts meanwhile show pages about itself.

    They have no certificates, and any account of this machine could read them.
    """
    import dask

    none: list[str] = []
    with dask.config.set(
        {f"distributed.{part}.http.routes": none for part in ("scheduler", "worker")}
    ):
        yield


@contextmanager
def _connected(distributed: Any, address: str) -> Iterator[Any]:
    """Connect to a running scheduler; Dask's configuration names certificates for ``tls://``."""
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has a loop in this one
            thread.submit(asyncio.run, _greet(distributed, address)).result()
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except Exception as error:  # of what another server answers, Dask makes anything
        tls = address.startswith("tls:")
        certificates = " and the certificates in Dask's configuration (distributed.comm.tls)" * tls
        raise RunError(
            f"{address}: no Dask scheduler answers within {CONNECT_S:g} s; check the address"
            f"{certificates}, or start one with `dask scheduler`"
        ) from error
    with client:
        yield client


async def _greet(distributed: Any, address: str) -> None:
    """Shake hands with a scheduler; a client would wait without end for a server that is none."""
    certificates = distributed.Security().get_connection_args("client")
    connect = distributed.comm.connect(address, timeout=CONNECT_S, **certificates)
    (await asyncio.wait_for(connect, CONNECT_S)).abort()


@contextmanager
def _marked(runs: Sequence[PlannedRun]) -> Iterator[Path | None]:
    """Put a file next to the first run's folder, by which workers know that they share the disk.

    There is none if runs are not written.
    """
    if not runs[0][2]:
        yield None
        return
    mark = Path(runs[0][2]).absolute().parent / f".simkit-{uuid4().hex}"
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        for left in mark.parent.glob(".simkit-*"):  # by a sweep that was killed
            left.unlink(missing_ok=True)
        mark.touch()
    except OSError as error:
        raise RunError(f"{mark.parent}: cannot be written: {error.strerror}") from error
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


def _workers(client: Any) -> int:
    """Return how many workers there are, at least 1; waits for the first.

    Raises RunError if there is none for `NO_WORKER_S`, or the scheduler is gone.
    """
    try:
        if found := len(client.nthreads()):
            return found
        client.wait_for_workers(1, NO_WORKER_S)
    except TimeoutError as error:
        raise RunError(
            f"{client.scheduler.address}: no worker for {NO_WORKER_S:g} s; start some with `dask "
            f"worker {client.scheduler.address} --nthreads 1` and give the same command again"
        ) from error
    return 1


def _check_workers(client: Any, mark: Path) -> None:
    """Raise RunError unless all present workers have this simkit and share the file system."""
    _workers(client)
    here = _version()
    for worker, found in client.run(_probe, mark, on_error="return").items():
        if isinstance(found, Exception):
            raise RunError(f"{worker}: has no simkit; install version {here} there")
        version, sees = found
        if version != here:
            raise RunError(f"{worker}: has simkit {version}; install version {here} there, too")
        if not sees:
            raise RunError(f"{worker}: {_not_shared(mark)}")


def _version() -> str:
    return metadata.version("simkit-cluster")


def _not_shared(mark: Path) -> str:
    return (
        f"this worker does not see {mark.parent}; choose an --output that all workers and this "
        "machine share, under the same path"
    )


# ---- in a worker

_one_at_a_time = threading.Lock()
"""Simulations of one process take turns if its worker has several threads."""


def _probe(mark: Path) -> tuple[str, bool]:
    return _version(), mark.exists()


def _carry_out(
    task: RunTask, run: PlannedRun, mark: Path | None, refuse_code: bool = False
) -> SweepOutcome:
    """Carry out a run, unless its results would get lost on a disk of this machine alone."""
    if mark is not None and not mark.exists():
        return SweepOutcome(run[0], Path(run[2]), "failed", _not_shared(mark))
    with _one_at_a_time, code_refused(refuse_code):
        return task(run)
