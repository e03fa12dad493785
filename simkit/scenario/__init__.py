"""A scenario: the full configuration of a run, as strict models; one class a section.

The text under each field is its documentation: it becomes the description in the JSON Schema that
editors read. `simkit.scenario.yaml_document` reads a scenario from YAML.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core.core_schema import CoreSchema, ModelSchema

from simkit.errors import ScenarioError
from simkit.rules import Engine, Rules
from simkit.scenario.cluster import ClusterSection
from simkit.scenario.policy import (
    USUAL_ESTIMATES,
    EstimatorChoice,
    PolicySection,
    compat_period_s,
)
from simkit.scenario.references import (
    ON_DEMAND,
    Arguments,
    Family,
    FiniteJson,
    OnDemand,
    PluginName,
)
from simkit.scenario.workload import WORKLOADS, WorkloadSection
from simkit.sections import (
    BrokenRulesError,
    Count,
    Duration,
    Many,
    PositiveDuration,
    Section,
    schema_of_both,
)
from simkit.text import attribute_docstrings

if TYPE_CHECKING:
    from simkit.scenario.power import Power
    from simkit.scenario.value import Value
else:

    def _power() -> type[Section]:
        from simkit.scenario.power import Power

        return Power

    def _value() -> type[Section]:
        from simkit.scenario.value import Value

        return Value

    Power = Annotated[Any, OnDemand(_power)]
    Value = Annotated[Any, OnDemand(_value)]


def _reference(name: str) -> str:
    if ":" not in name:
        raise ValueError(f"{name!r} names no class in a file; write my_process.py:MyProcess")
    return name


ProcessFile = Annotated[str, AfterValidator(_reference), PluginName("simkit.processes")]


class ProcessSection(Section):
    """A process of the user, which may take machines away and give them back."""

    path: ProcessFile
    """The file and the class or generator function in it, my_process.py:MyProcess, relative to the
    scenario file; or package.module:MyProcess."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for it."""


LearnerName = Annotated[str, PluginName("simkit.learners")]


class Learn(Section):
    """How `simkit train` trains an agent; runs of the scenario ignore it."""

    learner: LearnerName | None = None
    """Name of a learner: an entry point, package.module:function or file.py:function. null: the
    usual one for the workload."""
    iterations: Count | None = None
    """Iterations of the training; null: the learner's default."""
    arguments: Arguments = Field(default_factory=dict)
    """Arguments of the learner, which checks them itself."""
    held_out_every: Count = 10
    """Iterations between evaluations on the held-out job sets; one comes before the first."""
    criterion: str | None = None
    """The held-out metric by which agents are compared; lower must be better. null: that of the
    learner."""
    keep: Literal["last", "best"] = "last"
    """Which agent is written: that of the last iteration, or the one with the lowest held-out
    criterion. Its result on these job sets is biased: evaluate it on others."""
    patience: Count | None = None
    """Stop after this many evaluations in a row without a lower criterion; null: never."""

    @model_validator(mode="after")
    def _says_iterations_once(self) -> Self:
        if self.iterations is not None and "iterations" in self.arguments:
            text = "is given twice, here and as learn.iterations; leave one of them out"
            raise BrokenRulesError([(("arguments", "iterations"), text)])
        return self

    @property
    def all_arguments(self) -> dict[str, object]:
        """The learner's arguments, the number of iterations among them."""
        given = {} if self.iterations is None else {"iterations": self.iterations}
        return {**self.arguments, **given}


LONGEST_NAME = 200
"""Characters of a run's name: it is part of the names of files, which file systems limit to 255."""


class Metrics(Section):
    """Settings of the metrics."""

    listed: ClassVar[str] = "custom"

    tau: PositiveDuration = 10.0
    """Bound of the bounded slowdown: shorter jobs count as this long."""
    warmup: Annotated[Duration, Field(ge=0)] = 0.0
    """Jobs submitted within this time of the first are left out."""
    cooldown: Annotated[Duration, Field(ge=0)] = 0.0
    """Jobs submitted within this time of the last are left out."""
    custom: Many[Annotated[str, PluginName("simkit.metrics")]] = ()
    """Metrics of the user, functions of a run's tables: [my_metrics.py:tail_wait], or the names of
    installed ones. `metrics: [my_metrics.py:tail_wait]` is short for it."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {cls.listed: value} if isinstance(value, (list, tuple)) else value

    @model_serializer(mode="wrap")
    def _without_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the keys; `custom` only if it names a metric."""
        found: dict[str, Any] = handler(self)
        if not found.get("custom"):
            found.pop("custom", None)
        return found

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        names = {"type": "array", "items": {"type": "string"}}
        return schema_of_both(cls, names, schema, handler)


class _Simulated(Section):
    """What is simulated: the keys of a scenario before the rules of the simulation."""

    name: str = "scenario"
    """Name of the run: letters, digits, dots, underscores, hyphens. Default: the file's name."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every random number of the run; 0 is a seed like any other."""
    workload: WorkloadSection
    """Which jobs arrive."""
    value: Value | None = None
    """What jobs are worth, their quality of service, their deadlines; absent: nothing."""
    cluster: ClusterSection = Field(default_factory=ClusterSection)
    """The machines; absent: one pool of the size in the log's header."""
    power: Power | None = None
    """Sources, battery, grid, what machines draw; absent: power is not modelled."""
    policy: PolicySection = Field({}, validate_default=True)
    """Decides what starts when and where."""
    estimates: EstimatorChoice = Field(USUAL_ESTIMATES, validate_default=True)
    """Run times that the policy sees: requested, actual, user-mean, or {type: perturbed, …};
    with `correction`, what becomes of those that a job outlives."""
    processes: Many[ProcessSection] = ()
    """SimPy processes of the user, [{path: my_process.py:MyProcess, args: {…}}]; they run next to
    the engine's own, and may take machines away and give them back."""


class Scenario(Rules, _Simulated):
    """The full configuration of a run of simkit."""

    noun = "scenario"

    engine: Engine = "auto"
    """What replays the run, with the same result: SimPy, or machine code for pools of rigid jobs
    (needs numba). auto: the compiled engine where it covers the run, from 20,000 jobs on."""
    metrics: Metrics = Field(default_factory=Metrics)
    """How metrics are computed."""
    learn: Learn | None = None
    """What `simkit train` trains on this scenario; absent: nothing."""
    sweep: dict[str, Many[FiniteJson]] = Field(default_factory=dict)
    """Dotted key → list of values: a run for each combination. Only `simkit sweep` accepts it."""

    @field_validator("name")
    @classmethod
    def _is_a_file_name(cls, name: str) -> str:
        if not name or not all(c.isascii() and (c.isalnum() or c in "._-") for c in name):
            raise ValueError(f"must be letters, digits, '.', '_' and '-' only, not {name!r}")
        if len(name) > LONGEST_NAME:
            raise ValueError(f"has {len(name):,} characters; at most {LONGEST_NAME} are allowed")
        if not name.strip("."):
            raise ValueError(f"must not consist of dots only, not {name!r}")
        return name

    @model_validator(mode="after")
    def _has_the_period_of_the_other_simulator(self) -> Self:
        compat = getattr(self.policy, "compat", None)
        period_s = None if compat is None else compat_period_s(compat)
        if period_s not in (None, self.scheduling.every):
            period = f"{period_s:g}s"
            text = f"{compat} decides every {period}; add `scheduling: {{every: {period}}}`"
            raise BrokenRulesError([(("policy", "compat"), text)])
        return self

    @field_validator("sweep")
    @classmethod
    def _is_valid_sweep(cls, sweep: dict[str, tuple[JsonValue, ...]]) -> Any:
        problems = [
            ((path,), text)
            for path, values in sweep.items()
            if (text := _sweep_problem(path, values))
        ]
        if problems:
            raise BrokenRulesError(problems)
        return sweep


SWEEP_REFUSAL = "stands for several runs; start them with `simkit sweep`, or leave the key out"


def _sweep_problem(path: str, values: Sequence[JsonValue]) -> str:
    """Return what is wrong with one key of a sweep; empty if it is valid."""
    if path.split(".")[0] in ("sweep", "name") or not all(path.split(".")):
        return "cannot be swept; write a dotted key such as policy.backfill"
    if not values:
        return "has no values; give a list such as [0, 1, 2]"
    found = Counter(map(_canonical, values))
    repeated = next((text for text, times in found.items() if times > 1), "")
    return f"has the value {repeated} twice; leave one out" if repeated else ""


def refuse_sweep(scenario: Scenario) -> None:
    """Raise ScenarioError if the scenario has a `sweep`, which stands for several runs."""
    if scenario.sweep:
        raise ScenarioError(f"sweep: {SWEEP_REFUSAL}")


def scenario_hash(scenario: Scenario) -> str:
    """Return the SHA-256, in hexadecimal, of the scenario's canonical JSON after defaults.

    Files count by their absolute paths, not by their content.
    """
    return sha256(_canonical(scenario.model_dump(mode="json")).encode()).hexdigest()


def without_custom_metrics(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario without the metrics of the user: code that changes nothing of the run."""
    metrics = scenario.get("metrics")
    if not isinstance(metrics, Mapping):
        return dict(scenario)
    return {**scenario, "metrics": {k: v for k, v in metrics.items() if k != "custom"}}


def portable_form(scenario: Scenario, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the scenario as it enters a run's digest: equal on every machine and in every folder.

    Keys at their default are left out, so that a key that is added later changes no digest, and so
    are the name, which says nothing about the run, the limits, which a whole run never met, the
    engine, which changes no result, and nor do the user's metrics.
    Where a text is the path of an input, its file stands as ``sha256:…``; a folder as the SHA-256
    of a line ``relative/path sha256`` for each input below it, by path; ``file.py:attribute`` as
    ``sha256:…:attribute``. The hashes of inputs that no text names are listed under ``inputs``.

    Args:
        scenario: with absolute paths.
        inputs: absolute path of each file that the run read → its SHA-256 in hexadecimal.
    """
    named = set[str]()

    def by_content(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: by_content(part) for key, part in value.items()}
        if isinstance(value, list):
            return [by_content(part) for part in value]
        return _content_of(value, inputs, named) if isinstance(value, str) else value

    left_out: dict[str, Any] = {
        "name": True, "limits": True, "engine": True, "metrics": {"custom"}
    }  # fmt: skip
    form: dict[str, Any] = by_content(
        scenario.model_dump(mode="json", exclude=left_out, exclude_defaults=True)
    )
    if not form.get("metrics", True):
        del form["metrics"]  # it had the user's alone
    others = sorted(digest for path, digest in inputs.items() if path not in named)
    return form | ({"inputs": others} if others else {})


def _content_of(text: str, inputs: Mapping[str, str], named: set[str]) -> str:
    """Return what stands for a text in `portable_form`; add the inputs that it names to `named`."""
    place, colon, attribute = text.rpartition(":")
    if text not in inputs and place in inputs:
        named.add(place)
        return f"sha256:{inputs[place]}{colon}{attribute}"
    if text in inputs:
        named.add(text)
        return f"sha256:{inputs[text]}"
    folder = PurePath(text)
    below = sorted(path for path in inputs if folder in PurePath(path).parents)
    if not below:
        return text
    named.update(below)
    lines = (f"{PurePath(p).relative_to(folder).as_posix()} {inputs[p]}\n" for p in below)
    return f"sha256:{sha256(''.join(lines).encode()).hexdigest()}"


class _Documented(GenerateJsonSchema):
    """A schema whose properties say what the docstrings of the fields say."""

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        made = super().model_schema(schema)
        properties = made.get("properties", {})
        for name, text in attribute_docstrings(schema["cls"]).items():
            if name in properties:
                properties[name].setdefault("description", text)
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False for a section on demand, whose class has the title."""
        on_demand = ON_DEMAND in (schema.get("metadata") or ())
        return not on_demand and super().field_title_should_be_set(schema)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file, for editors."""
    from simkit.scenario.signals import SIGNALS

    families: tuple[Family[Any], ...] = (WORKLOADS, SIGNALS)
    models: list[type[Section]] = [Scenario]
    for family in families:
        models += [family.base, *family.classes().values()]
    refs, schema = models_json_schema(
        [(model, "validation") for model in models], schema_generator=_Documented
    )
    parts = schema["$defs"]
    names = {model: refs[model, "validation"]["$ref"].rpartition("/")[2] for model in models}
    for family in families:
        kinds = {name: names[kind] for name, kind in family.classes().items()}
        for name, part in kinds.items():
            own = parts[part]
            own["properties"]["type"] = {"const": name, "description": own.get("description", "")}
        mapping = {name: f"#/$defs/{part}" for name, part in kinds.items()}
        parts[names[family.base]] = {
            "discriminator": {"propertyName": "type", "mapping": mapping},
            "oneOf": [{"$ref": ref} for ref in mapping.values()],
        }
    scenario = parts.pop("Scenario")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": parts, **scenario}


def _canonical(value: Any) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
