"""Power of machines and of what the site adds, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simkit.engine.machines_on import MachinePower, Switch
from simkit.errors import PolicyError, ScenarioError
from simkit.power.machine_model import ConstantPue, Curve, CurvedPue, PowerModel
from simkit.power.signal import Steps

SPEC = (100.0, 150.0, 170.0, 180.0, 300.0)  # W at 0, 25, 50, 75, 100 %

POWERS = [
    # model, utilisations, W
    (PowerModel.linear(100, 300), (0.0,), 100),
    (PowerModel.linear(100, 300), (0.25,), 150),
    (PowerModel.linear(100, 300), (1.0,), 300),
    (PowerModel.table(SPEC), (0.0,), 100),
    (PowerModel.table(SPEC), (0.25,), 150),  # a point of the table
    (PowerModel.table(SPEC), (0.625,), 175),  # half way between 50 and 75 %
    (PowerModel.table(SPEC), (1.0,), 300),
    (PowerModel.table(SPEC), (1.25,), 420),  # over-committed: the last line goes on
    (PowerModel.per_resource(80, {"cpu": 100, "gpu": 400}), (0.5, 0.25), 80 + 50 + 100),
]


@pytest.mark.parametrize(("model", "utilisation", "watts"), POWERS)
def test_power_by_hand(model: PowerModel, utilisation: tuple[float, ...], watts: float) -> None:
    assert model.power_w(utilisation) == pytest.approx(watts)
    columns = zip(model.curves, utilisation, strict=True)
    dynamic = sum(curve.powers_w(np.array([u, u])) for curve, u in columns)
    assert model.idle_w + dynamic == pytest.approx([watts, watts])


def test_full_power_is_that_of_all_resources() -> None:
    assert PowerModel.per_resource(80, {"cpu": 100, "gpu": 400}).full_w == 580


def test_a_boot_draws_its_own_power_for_its_own_time() -> None:
    model = PowerModel.linear(100, 300, off_w=5, boot=120, boot_w=200, shutdown=30)
    machine = MachinePower(model, "m1", Switch.OFF)
    log = [(0.0, machine.switch.value, machine.standing_w())]
    assert machine.switch_on(10.0) == 130.0
    for time in (10.0, 129.0, 130.0):
        machine.settle(time)
        log.append((time, machine.switch.value, machine.standing_w()))
    assert machine.switch_off(200.0) == machine.next_change == 230.0
    log.append((200.0, machine.switch.value, machine.standing_w()))
    machine.settle(230.0)
    log.append((230.0, machine.switch.value, machine.standing_w()))
    assert log == [
        (0.0, "off", 5.0),
        (10.0, "booting", 200.0),
        (129.0, "booting", 200.0),
        (130.0, "on", 100.0),
        (200.0, "shutting down", 100.0),
        (230.0, "off", 5.0),
    ]
    assert machine.next_change == math.inf


def test_without_times_a_switch_is_done_at_once() -> None:
    machine = MachinePower(PowerModel.linear(100, 300), "m1")
    machine.switch_off(0.0)
    assert machine.switch is Switch.OFF
    machine.switch_on(0.0)
    assert (machine.switch, machine.standing_w()) == (Switch.ON, 100.0)


def test_a_machine_that_is_on_is_not_switched_on() -> None:
    with pytest.raises(PolicyError, match="'m1' is on at 7 s; it must be off to be switched"):
        MachinePower(PowerModel.linear(100, 300), "m1").switch_on(7.0)


WRONG = [
    (lambda: PowerModel.linear(300, 100), "power in use is 200 W below idle"),
    (lambda: PowerModel.linear(-1, 100), "idle_w is -1"),
    (lambda: PowerModel.table([100.0]), "the table has 1 numbers"),
    (lambda: PowerModel.linear(1, 2, boot=math.inf), "machine power.boot: "),
    (lambda: PowerModel(1.0, ("cpu",), (Curve((0.0, 0.5), (0.0, 9.0)),)), "rise from 0 to 1"),
    (lambda: PowerModel(1.0, ("cpu",), ()), "0 curves for 1 resources"),
    (lambda: ConstantPue(0.9), "0.9 is not at least 1"),
    (lambda: CurvedPue(0.0, {0: 1.5}), "rated_w is 0"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_wrong_models_are_refused(make: object, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        make()  # type: ignore[operator]


SUMMER = Steps([0.0, 100.0], [20.0, 30.0], 200.0, unit="degC", past_end="hold")
"""It is 20 °C, and 30 °C from 100 s on."""


def test_pue_follows_load_and_weather() -> None:
    pue = CurvedPue(1000.0, {0.0: 2.0, 0.5: 1.4, 1.0: 1.2}, SUMMER, {20: 0.0, 40: 0.2})
    assert pue.pue(500.0, 0.0) == pytest.approx(1.4)
    assert pue.pue(250.0, 0.0) == pytest.approx(1.7)
    assert pue.pue(2000.0, 100.0) == pytest.approx(1.2 + 0.1)  # level beyond the points
    assert [pue.next_change(t) for t in (0.0, 100.0)] == [100.0, math.inf]
    assert (ConstantPue(1.3).pue(1.0, 0.0), ConstantPue().next_change(0.0)) == (1.3, math.inf)
