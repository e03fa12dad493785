"""Numbers of tables: the decimal sign is found or asked for, marks of no value are no numbers."""

import numpy as np
import polars as pl
import pytest

from simkit.errors import TraceError
from simkit.traces.tables.rows import MISSING, Decimals, without_marks


def read(*words, declared=None, separator=";"):
    decimals = Decimals(declared, separator, "file.csv")
    return decimals.read([without_marks(pl.Series(list(words)))])[0].tolist(), decimals


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["12,5", "1.234,5", "7"], [12.5, 1234.5, 7]),
        (["12,5", "1.234"], [12.5, 1234]),  # another cell says what the point is
        (["12,5", "1,234"], [12.5, 1.234]),
        (["0,125", "-3,5e2"], [0.125, -350]),
        (["1.234.567"], [1234567]),
        (["12.5", "1,234"], [12.5, 1234]),
        (["1,234.5", "1,234,567"], [1234.5, 1234567]),
        (["12345", "1.234"], [12345, 1.234]),  # 12345 is not grouped, so the point is decimal
        (["1 234,5", "1\u202f234\u00a0567,5"], [1234.5, 1234567.5]),
        (["1'234.5", "1'234'567"], [1234.5, 1234567]),
        (["−5,5"], [-5.5]),
        (["1e3", "2E-1"], [1000, 0.2]),
    ],
)
def test_the_sign_is_found_by_numbers_with_one_meaning(words, numbers):
    assert read(*words)[0] == numbers


def test_what_was_found_is_said_unless_it_is_the_point():
    assert read("12,5")[1].said == "decimal comma"
    assert read("12.5")[1].said == ""
    assert read("12,5", declared=",")[1].said == ""


@pytest.mark.parametrize(
    ("words", "separator"),
    [(["1,234"], ";"), (["1,234", "999"], "\t"), (["1,234", "12345"], ","), (["1.234"], ";"),
     (["1.234", "-5.678"], "|")],
)  # fmt: skip
def test_a_number_with_two_meanings_is_asked_for(words, separator):
    with pytest.raises(TraceError) as caught:
        read(*words, separator=separator)
    found = str(caught.value)
    assert found.startswith(f"file.csv: {words[0]} may be 1.234 or 1234")
    assert 'decimal: ","' in found
    assert 'decimal: "."' in found


def test_a_declared_sign_decides():
    assert read("1,234", declared=",")[0] == [1.234]
    assert read("1,234", declared=".")[0] == [1234]
    assert read("1.234", declared=",")[0] == [1234]
    assert np.isnan(read("1.25", declared=",")[0])  # two digits are no group


def test_in_a_table_with_commas_a_point_is_decimal():
    assert read("1.234", separator=",")[0] == [1.234]


def test_two_signs_in_one_table_are_refused():
    with pytest.raises(TraceError, match="12,5 and 3.75 have different decimal signs"):
        read("12,5", "3.75")


@pytest.mark.parametrize("mark", [*MISSING, "N/A", "NaN", "NULL", "None", " n/e ", "NA", "#N/A"])
def test_marks_of_no_value(mark):
    assert without_marks(pl.Series([mark, "1"])).to_list() == [None, "1"]


def test_further_marks_are_text_or_numbers():
    words = pl.Series(["-999", "-999.0", "-9,99e2", "99", "k.A.", "-998"])
    expected = [None, None, None, "99", None, "-998"]
    assert without_marks(words, ["-999", "k.A."]).to_list() == expected
