"""Names and meanings of the rules of the readers of power and weather."""

from __future__ import annotations

from typing import Final

from simkit.traces.tables import rules as of_tables

NO_TIME: Final = "time unreadable"
NO_SUCH_DATE: Final = "date that cannot be"
SKIPPED_HOUR: Final = "time skipped by the clock"
NO_NUMBER: Final = "value not a number"
NO_VALUE: Final = "value missing"
REPEATED_TIME: Final = "repeated time"
UNSORTED: Final = "out of time order"
NEWEST_FIRST: Final = "newest first"
SECOND_HOUR: Final = of_tables.SECOND_HOUR
FIRST_HOUR: Final = of_tables.FIRST_HOUR
NEGATIVE: Final = "negative power"
OTHER_LENGTH: Final = "interval of another length"

MEANINGS: Final[dict[str, str]] = of_tables.MEANINGS | {
    NO_TIME: "The time is empty or does not have the file's format; the row is left out.",
    NO_SUCH_DATE: "The calendar has no such time: a month 13, a 45th day, 30 February, 25:00, or "
    "a year before 1900 or after 2199; the row is left out.",
    SKIPPED_HOUR: "The clock of the time zone was put forward over this time, so the time does "
    "not exist; the row is left out. If this occurs every spring, the file keeps standard time: "
    "declare a fixed zone, such as UTC-06:00.",
    NO_NUMBER: "The value is text, and none of the marks of a missing value; the row is left out "
    "and leaves a gap. `missing` names more marks, `decimal` another decimal sign.",
    NO_VALUE: "The value is missing or not finite; the row is left out and leaves a gap.",
    REPEATED_TIME: "An earlier row has the same time; the first is kept.",
    UNSORTED: "The row comes after a later time; rows are sorted.",
    NEWEST_FIRST: "The file begins with its newest row; rows are sorted.",
    OTHER_LENGTH: "The time to the next row (from the previous row, where times are ends) is not "
    "the regular step; the row's energy is divided by it. A row beside a gap, and the last (where "
    "times are ends, the first), is as long as its other neighbour, or as a declared step.",
    NEGATIVE: "The power is below 0, as of a plant that consumes at night; it is kept.",
}
"""What each rule or note means, in a sentence."""
