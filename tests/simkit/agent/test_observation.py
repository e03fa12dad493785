"""Schemas say what an observation's numbers are; encoders are found by name, alone or joined."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from simkit.agent.encoder import Field, ObservationSchema
from simkit.agent.observation import ENCODERS, make_encoder
from simkit.agent.observe_slots import compact_schema, image_schema
from simkit.agent.slotted import Slotted
from simkit.agent.slotted_tracker import SlottedTracker
from simkit.errors import PluginError, RunError, ScenarioError
from simkit.policy import SystemInfo

INFO = SystemInfo(("cpu", "mem"), ("pool",), np.array([[10.0, 10.0]]), ())


def vector(*fields: Field, **parameters: object) -> ObservationSchema:
    return ObservationSchema("mine", fields, parameters)


A = Field("a", (2, 3), 0, 1, "1", "six shares")
B = Field("b", (1,), -1, 1, "h", "an hour")


def test_fields_of_a_vector_follow_each_other():
    schema = vector(A, B)
    assert schema.shape == (7,)
    assert [(f.name, begin, end) for f, begin, end in schema.places()] == [
        ("a", 0, 6),
        ("b", 6, 7),
    ]


def test_fields_of_an_image_stand_side_by_side():
    schema = ObservationSchema("mine", (A, Field("b", (2, 1), 0, 1, "1", "")), rows=2)
    assert schema.shape == (2, 4)
    assert [(begin, end) for _, begin, end in schema.places()] == [(0, 3), (3, 4)]


def test_a_schema_is_written_and_read_back():
    for schema in (vector(A, B, sizes=(1, 2)), image_schema(Slotted()), compact_schema(Slotted())):
        assert ObservationSchema.from_json(json.loads(json.dumps(schema.as_json()))) == schema


OTHERS = [
    # what differs, and the line that says so
    (vector(replace(A, shape=(3, 2)), B), "field a: shape is (2, 3) here, (3, 2) there"),
    (vector(A, replace(B, high=2)), "field b: high is 1.0 here, 2.0 there"),
    (vector(A, replace(B, unit="s")), "field b: unit is h here, s there"),
    (vector(A), "field b: only here"),
    (vector(A, B, replace(B, name="c")), "field c: only there"),
    (vector(B, A), "order of fields: a, b here, b, a there"),
    (vector(A, B, slots=5), "parameter slots: absent here, 5 there"),
    (ObservationSchema("other", (A, B)), "name: 'mine' here, 'other' there"),
]


@pytest.mark.parametrize(("other", "line"), OTHERS)
def test_a_difference_names_the_field_and_changes_the_hash(other, line):
    assert vector(A, B).differences(other) == [line]
    assert vector(A, B).sha256 != other.sha256


def test_prose_does_not_matter():
    other = vector(replace(A, text="other words"), B)
    assert other.sha256 == vector(A, B).sha256
    assert vector(A, B).differences(other) == []


def test_a_schema_that_was_changed_is_refused():
    described = vector(A, B).as_json()
    described["fields"][0]["high"] = 2.0
    with pytest.raises(RunError, match="mine: sha256 is .* restore the file"):
        ObservationSchema.from_json(described)
    del described["fields"]
    with pytest.raises(RunError, match="'fields' is missing"):
        ObservationSchema.from_json(described)


def test_fields_that_do_not_fit_are_refused_all_at_once():
    with pytest.raises(ScenarioError) as error:
        ObservationSchema("mine", (A, A, replace(B, low=3)), rows=2)
    assert [line.partition(": ")[2] for line in error.value.problems] == [
        "'a' occurs twice",
        "b has shape (1,), the image has 2 rows",
        "b lies between 3 and 1",
    ]


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_has_a_name(name):
    encoder = make_encoder(name, INFO, SlottedTracker(Slotted()))
    assert encoder.schema.name == name
    for part in encoder.schema.fields:
        assert np.isfinite([part.low, part.high]).all()  # a Gymnasium box has bounds


MISTAKES = [
    # name, arguments, what is said
    ("deeprm-imge", {}, "did you mean 'deeprm-image'"),
    ("queue-table", {"slot": 3}, "no argument 'slot'; did you mean 'slots'"),
    ("queue-table", {"xyz": 3}, "no argument 'xyz'; known: [^i]*slots"),  # without info
    ("queue-table", {"slots": 0}, "slots is 0; it must be a whole number, at least 1"),
    ("queue-table", {"time_scale_s": -1}, "time_scale_s is -1; it must be a finite number"),
    ("resource-time", {"horizon": 2.5}, "horizon is 2.5; it must be a whole number"),
    ("fitness-pairs", {"info": None}, "info is given by simkit"),
    ("queue-table+resource-time", {"slots": 3}, "'slots', which is not a part"),
    ("queue-table+queue-table", {}, "'queue-table.tasks' occurs twice"),
    ("deeprm-compact", {}, "shows numbered slots, which only slotted time has; take queue-table"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), MISTAKES)
def test_mistakes_are_explained(name, arguments, text):
    with pytest.raises((ScenarioError, PluginError), match=text):
        make_encoder(name, INFO, arguments=arguments)


def test_encoders_of_another_cluster_are_refused():
    other = SystemInfo(("cpu",), ("pool",), np.array([[10.0]]), ())
    for name in ("queue-table", "fitness-pairs", "resource-time"):
        with pytest.raises(
            ScenarioError, match="shows the resources cpu, mem, the cluster has cpu"
        ):
            make_encoder(name, INFO).reset(other)
