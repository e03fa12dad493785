"""Names and meanings of the rules that every reader of a table of text has."""

from __future__ import annotations

from typing import Final

COMMENT: Final = "comment line"
ABOVE: Final = "line above the column names"
BELOW: Final = "note below the table"
ENCODING: Final = "not in UTF-8"
SECOND_HOUR: Final = "hour shown twice, the second taken"
FIRST_HOUR: Final = "hour shown twice, the first taken"

MEANINGS: Final[dict[str, str]] = {
    COMMENT: "The line begins with #; it is no row.",
    ABOVE: "The line stands above that with the column names; it is no row.",
    BELOW: "Text below the last row, with other fields than the column names; it is left out.",
    SECOND_HOUR: "The clock was put back, and by the order of the rows this one is from the second "
    "time that it showed this hour.",
    FIRST_HOUR: "The clock was put back and showed this time twice; nothing tells which it is, so "
    "the first is taken, and the time may be an hour early.",
    ENCODING: "The line holds bytes that are no UTF-8; it is read as Windows-1252, which includes "
    "Latin-1.",
}
"""What each rule or note means, in a sentence."""
