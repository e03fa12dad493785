"""How far a damaged gzip file can be read: the number of its whole lines, for an error."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

_PIECE = 1 << 16
_GZIP_WRAPPED = 31  # zlib's window bits for data in a gzip wrapper


def whole_lines(path: Path) -> int:
    """Return how many line ends of a gzip file can be unpacked, up to where it is damaged.

    Readers take a file in pieces of megabytes, and what was unpacked of a piece is lost when it
    breaks off; this looks again, closely. A file that cannot be read at all has 0 lines.
    """
    try:
        with path.open("rb") as packed:
            pieces = iter(lambda: packed.read(_PIECE), b"")
            return sum(text.count(b"\n") for text in _unpacked(pieces))
    except OSError:
        return 0


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text that can be had, of one member after the other."""
    member = zlib.decompressobj(_GZIP_WRAPPED)
    for piece in pieces:
        rest = piece
        while rest:
            before = member.copy()
            try:
                yield member.decompress(rest)
            except zlib.error:
                yield from _byte_by_byte(before, rest)
                return
            rest = member.unused_data if member.eof else b""
            if member.eof:
                member = zlib.decompressobj(_GZIP_WRAPPED)


def _byte_by_byte(member: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """Yield what a piece holds before the byte that breaks it."""
    for position in range(len(piece)):
        try:
            yield member.decompress(piece[position : position + 1])
        except zlib.error:
            return
