"""Reads the packed columns of a report, number by number, as its page does."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any


def unpacked(found: dict[str, Any]) -> dict[str, Any]:
    """Undo `Packed.finish` as the page does, number by number."""
    block, at, columns = gzip.decompress(base64.b64decode(found["block"])), 0, {}
    for column in found["columns"]:
        part, count = block[at : at + column["bytes"]], column["count"]
        at += column["bytes"]
        if column["kind"] == "texts":
            columns[column["name"]] = json.loads(part)
        elif column["kind"] == "bytes":
            columns[column["name"]] = list(part)
        else:
            steps = [sum(part[n + count * p] << (8 * p) for p in range(4)) for n in range(count)]
            columns[column["name"]] = [sum(steps[: n + 1]) % 2**32 for n in range(count)]
    assert at == len(block)
    return columns
