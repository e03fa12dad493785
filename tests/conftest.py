"""What holds for all tests: threads, signals, hypothesis profiles, order, collection."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
settings.register_profile("full", settings.get_profile("base"), max_examples=150)
settings.load_profile("small")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--last-bits", type=int, metavar="N",
        help="disturb the last bits of trainings, as the Nth of other processors would",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    if (number := config.getoption("last_bits")) is not None:
        from last_bits import disturb_last_bits

        disturb_last_bits(number)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests marked `long` first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Keep thousands of collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def reference() -> Callable[[str], Any]:
    """Return a function that reads a log with reference schedules, or skips."""
    default = Path(__file__).resolve().parents[2] / "shared" / "oracle"
    folder = Path(os.environ.get("SIMKIT_ORACLE", default)) / "hpc"

    def read(log: str) -> Any:
        import polars as pl  # not before the threads are set

        path = folder / f"{log}.csv.gz"
        if not path.is_file():
            pytest.skip(f"no reference schedule {path}; set SIMKIT_ORACLE")
        return pl.read_csv(path)

    return read
