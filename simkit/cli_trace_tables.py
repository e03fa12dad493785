"""What `simkit trace generate alibaba2017` does: it writes a folder of tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from simkit.progress import PATIENCE_S, progress_bar
from simkit.units import parse_duration

GENERATE: Final = "simkit.traces.alibaba2017_generator:generate_alibaba2017"


def generate_tables(
    folder: Path,
    *,
    jobs: int,
    machines: int | None,
    usage_interval: str,
    packed: bool,
    seed: int,
    show_progress: bool,
) -> dict[str, int]:
    """Write the tables of a generated trace into a new folder, and return their rows.

    Raises SimkitError for arguments out of their range, and if the folder cannot be written.
    """
    from simkit import plugins
    from simkit.errors import ScenarioError
    from simkit.seeds import stream

    try:
        interval = parse_duration(usage_interval)
    except ValueError as error:
        raise ScenarioError(f"--usage-interval: {error}") from None
    if interval != int(interval):
        raise ScenarioError(f"--usage-interval: {usage_interval} is not in whole seconds; round it")
    with _instances_written(enabled=show_progress) as progress:
        rows: dict[str, int] = plugins.find("simkit.tools", GENERATE)(
            folder,
            jobs=jobs,
            machines=machines,
            usage_interval_s=int(interval),
            packed=packed,
            rng=stream(seed, "workload"),
            progress=progress,
        )
    return rows


@contextmanager
def _instances_written(*, enabled: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what the generator tells of (instances written, in all); a bar if it takes long."""
    if not (enabled and sys.stderr.isatty()):
        yield None
        return
    begin, bar = perf_counter(), progress_bar("instances", "")
    rows: list[Any] = []

    def show(done: int, total: int) -> None:
        if not rows:
            if perf_counter() - begin < PATIENCE_S:
                return
            rows.append(bar.add_task("", total=total))
            bar.start()
        bar.update(rows[0], completed=done)

    try:
        yield show
    finally:
        bar.stop()
