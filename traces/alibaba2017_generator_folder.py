"""Writes a folder of tables that appears only when all of them are written."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from simkit.errors import TraceError

from .alibaba2017_layout import COLUMNS

if TYPE_CHECKING:
    import polars as pl


class TableWriter:
    """Takes rows for the tables of the trace, in any order of tables, and counts them."""

    def __init__(self, streams: dict[str, BinaryIO]) -> None:
        self._streams = streams
        self.rows = dict.fromkeys(streams, 0)

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Append rows, with the columns of the layout, to a table: no header, empty is null."""
        text = frame.select(list(COLUMNS[table])).write_csv(include_header=False)
        self._streams[table].write(text.encode())
        self.rows[table] += frame.height


@contextmanager
def written_tables(folder: Path, *, packed: bool) -> Iterator[TableWriter]:
    """Open a folder of tables for writing; if anything fails, nothing is left of it.

    Args:
        folder: absent, or empty.
        packed: gzip the tables (without time stamps: equal content, equal bytes).

    Raises TraceError if the folder holds things, or cannot be written.
    """
    _refuse_full(folder)
    folder = folder.absolute()
    place = folder if folder.is_dir() else folder.parent
    unfinished = place / f".{folder.name}.{os.getpid()}.part"
    try:
        place.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
        with ExitStack() as files:
            yield TableWriter(
                {name: _opened(unfinished, name, files, packed=packed) for name in COLUMNS}
            )
        if place == folder:  # somebody's working folder, perhaps: it is filled, not replaced
            for path in unfinished.iterdir():
                path.rename(folder / path.name)
        else:
            unfinished.rename(folder)
    except OSError as error:
        raise TraceError(
            f"{folder}: cannot be written: {error.strerror or error}; choose another folder or "
            "make room"
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)  # renamed, or of no use


def _opened(folder: Path, table: str, files: ExitStack, *, packed: bool) -> BinaryIO:
    raw = files.enter_context((folder / f"{table}.csv{'.gz' * packed}").open("wb"))
    if not packed:
        return raw
    stream = gzip.GzipFile("", "wb", fileobj=raw, compresslevel=6, mtime=0)
    return cast("BinaryIO", files.enter_context(stream))


def _refuse_full(folder: Path) -> None:
    if folder.is_dir():
        try:
            entries = sorted(entry.name for entry in folder.iterdir())
        except OSError as error:
            raise TraceError(
                f"{folder}: cannot be read: {error.strerror or error}; choose another folder"
            ) from None
        if entries:
            more = ", …" * (len(entries) > 3)
            raise TraceError(
                f"{folder}: holds other things ({', '.join(entries[:3])}{more}); name a new or an "
                "empty folder for the tables"
            )
    elif folder.exists() or folder.is_symlink():
        raise TraceError(f"{folder}: is a file; name a new or an empty folder for the tables")
