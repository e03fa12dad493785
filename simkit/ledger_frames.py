"""The ledger's chunks as polars frames, for the sink that takes the tables of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from simkit.ledger_flows import Floats

if TYPE_CHECKING:
    from simkit.recorder import Sink


class LedgerFrames:
    """A sink of the ledger that hands frames on to a sink of the recorder's."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, table: str, rows: Mapping[str, Floats]) -> None:
        """Append rows, given as columns of equal length, to a table."""
        import polars as pl

        self._sink.write(table, pl.DataFrame(dict(rows)))
