"""Sofia's observation: what stands in which row and column."""

from __future__ import annotations

import numpy as np
import pytest

from simkit.agent.observe_slots import (
    SOFIA_NAMES,
    SofiaCompact,
    SofiaShares,
    sofia_compact,
    sofia_schema,
)
from simkit.agent.slotted import Slotted, SlottedView

MODEL = Slotted((4, 8), slots=2, horizon=3, max_length=2, backlog_shown=4)


def view(*leading: int) -> SlottedView:
    """Return one state, or the same one many times."""
    of_one = {
        "occupied": [[4, 1], [2, 0], [0, 0]],
        "length": [2, 0],
        "size": [[1, 6], [0, 0]],
        "backlog": 3,
        "since_arrival": 0,
    }
    arrays = {name: np.array(value, np.int64) for name, value in of_one.items()}
    return SlottedView(**{n: np.broadcast_to(a, leading + a.shape) for n, a in arrays.items()})


EXPECTED = np.array(
    [
        # cpu: held, slot 0, slot 1; mem: the same; the backlog's two columns, row by row
        [4, 1, 0, 1, 6, 0, 1, 1],
        [2, 1, 0, 0, 6, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
)


def test_columns_in_units() -> None:
    assert (sofia_compact(view(), MODEL) == EXPECTED).all()


def test_columns_in_shares() -> None:
    scale = [4, 4, 4, 8, 8, 8, 1, 1]
    np.testing.assert_allclose(sofia_compact(view(), MODEL, shares=True), EXPECTED / scale)


@pytest.mark.parametrize("leading", [(5,), (2, 3), (0,)])
def test_leading_axes(leading: tuple[int, ...]) -> None:
    many = sofia_compact(view(*leading), MODEL)
    assert many.shape == (*leading, 3, 8)
    assert many.dtype == np.float32
    assert (many == EXPECTED).all()


def test_a_long_backlog_is_cut() -> None:
    seen = SlottedView(**(vars(view()) | {"backlog": np.array(99)}))
    assert sofia_compact(seen, MODEL)[..., -2:].sum() == 4


@pytest.mark.parametrize("shares", [False, True])
def test_the_schema_is_of_these_numbers(shares: bool) -> None:
    schema, table = sofia_schema(MODEL, shares=shares), sofia_compact(view(), MODEL, shares=shares)
    assert (schema.name, schema.shape) == (SOFIA_NAMES[shares], table.shape)
    for field, begin, end in schema.places():
        part = table[:, begin:end]
        assert field.low <= part.min() <= part.max() <= field.high, field.name


def test_the_studys_state_has_1380_numbers() -> None:
    model = Slotted((50, 50), slots=10, horizon=60, max_length=45, backlog=None, backlog_shown=60)
    assert sofia_schema(model).shape == (60, 23)


def test_encoders_look_at_slots() -> None:
    class Slots:
        model = MODEL

        def view(self) -> SlottedView:
            return view()

    for encoder in (SofiaCompact(Slots()), SofiaShares(Slots())):
        expected = sofia_compact(view(), MODEL, shares=encoder.shares)
        assert (encoder.encode(None) == expected).all()  # type: ignore[arg-type]
        assert encoder.schema == sofia_schema(MODEL, shares=encoder.shares)
