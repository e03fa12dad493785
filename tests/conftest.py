"""What holds for all tests: threads, signals, hypothesis profiles, order, what is left out."""

from __future__ import annotations

import gc
import os
import re
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# Tests run in several processes already. It counts since NumPy, polars and torch come later.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

# A job in the background, and what some runners start, ignores Ctrl-C; so would all that tests start.
for _signal, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)
if hasattr(signal, "pthread_sigmask"):  # or they are blocked
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})

# How long an example takes depends on what else the machine does, so there is no deadline.
settings.register_profile("base", deadline=None, suppress_health_check=list(HealthCheck))
# The usual run draws the same examples each time, so that a change of the code alone can turn it
# red; new examples are sought with --hypothesis-profile=full and by tests/fuzz/campaign.py.
settings.register_profile(
    "small", settings.get_profile("base"), max_examples=20, derandomize=True, database=None
)
settings.register_profile("quick", settings.get_profile("small"), max_examples=8)  # `make test`
settings.register_profile("full", settings.get_profile("base"), max_examples=150)
settings.load_profile("small")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--last-bits", type=int, metavar="N",
        help="disturb the last bits of trainings, as the Nth of other processors would",
    )  # fmt: skip
    parser.addoption(
        "--budget", type=float, metavar="SECONDS", help="skip tests that would start later",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    if (number := config.getoption("last_bits")) is not None:
        from last_bits import disturb_last_bits

        disturb_last_bits(number)


INTEGRATIONS = ("stable_baselines3", "sb3_contrib", "torchrl", "distributed", "playwright")
"""What the extra `integrations` installs; only tests marked `thorough` need it."""
THOROUGH = re.compile(
    r"^pytestmark = (pytest\.mark\.thorough$|\[\s*pytest\.mark\.thorough\b)", re.M
)


def leaves_out_thorough(config: pytest.Config) -> bool:
    """Tell whether the tests marked `thorough` are left out, as in `make test`."""
    return "not thorough" in config.getoption("markexpr")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file whose tests are all left out: it may load much."""
    if collection_path.suffix != ".py" or not leaves_out_thorough(config):
        return None
    benchmark = (config.rootpath / "tests" / "benchmarks") in collection_path.parents
    return benchmark or bool(THOROUGH.search(collection_path.read_text("utf-8"))) or None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out."""
    missing = [name for name in INTEGRATIONS if find_spec(name) is None]
    every = sampling(config)
    if leaves_out_thorough(config):
        terminalreporter.write_line(
            "left out: tests marked slow or thorough, among them all of Stable-Baselines3, TorchRL, "
            f"Dask and a browser, and about {every - 1} of {every} cases of those marked sampled; "
            "run make test-all"
        )
    elif missing:
        terminalreporter.write_line(f"skipped: tests of {', '.join(missing)}; run make test-all")
    elif every > 1:
        terminalreporter.write_line(
            f"left out: tests marked slow, and about {every - 1} of {every} cases of those marked "
            "sampled; run make slow"
        )
    late = [
        report
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple) and TOO_LATE in report.longrepr[2]
    ]
    if late:
        terminalreporter.write_line(f"{len(late)} near tests not started")


BEGUN = pytest.StashKey[float]()
"""When the first test could start (s, monotonic clock)."""
TOO_LATE = "not started within"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would start after the budget of time."""
    budget = item.config.getoption("budget")
    if budget is not None and time.monotonic() - item.config.stash[BEGUN] > budget:
        pytest.skip(f"{TOO_LATE} {budget:g} s")


COMPILED = re.compile(r"tests/learners/(.*[/_[])?(pairs/|pool/|deepjs|fitness|rlscheduler)")
"""Tests that let numba compile, for seconds: one worker has all of them, and compiles once."""


def sampling(config: pytest.Config) -> int:
    """Return n where about one in n cases of a test marked `sampled` is run; its first always is.

    8 for `make test`, 2 for `make test-all`, 1 for `make slow` and for tests called by name.
    """
    if leaves_out_thorough(config):
        return 8
    return 2 if "not slow" in config.getoption("markexpr") else 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample of what is marked so, and run what takes long first.

    So no worker is left with a long test at the end, but with a budget of time the order is that of
    the command line: the nearest first. What numba compiles goes to one worker.
    """
    for item in items:
        if COMPILED.search(item.nodeid):
            item.add_marker(pytest.mark.xdist_group("compiled"))
    every = sampling(config)
    rules: set[str] = set()
    left_out = []
    for item in items:
        if item.get_closest_marker("sampled"):
            rule, _, case = item.nodeid.partition("[")
            # by checksum: every other place would be the same value of a second parameter
            if rule in rules and crc32(case.encode()) % every:
                left_out.append(item)
            rules.add(rule)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        left = set(left_out)
        items[:] = [item for item in items if item not in left]
    if config.getoption("budget") is None:
        items.sort(key=lambda item: not any(map(item.get_closest_marker, ("long", "thorough"))))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep thousands of collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    session.config.stash[BEGUN] = time.monotonic()


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the folder of real traces from the code under test, as where there is none."""
    monkeypatch.delenv("SIMKIT_DATA", raising=False)


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set SIMKIT_DATA to the folder of real traces for this test, or skip it."""
    from trace_files import real_file

    folder = real_file()
    monkeypatch.setenv("SIMKIT_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def oracle() -> Path:
    """Return the folder of reference schedules, or skip."""
    default = Path(__file__).resolve().parents[2] / "shared" / "oracle"
    folder = Path(os.environ.get("SIMKIT_ORACLE", default)) / "hpc"
    if not folder.is_dir():
        pytest.skip(f"no reference schedules in {folder}; set SIMKIT_ORACLE")
    return folder


@pytest.fixture(scope="session")
def reference(oracle: Path) -> Callable[[str], Any]:
    """Return a function that reads a log with reference schedules."""
    import polars as pl  # not before the threads are set

    return lambda log: pl.read_csv(oracle / f"{log}.csv.gz")
