"""The reference of the scenario, from its models: each key with type, unit, default, meaning.

Power has a separate page.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from simkit import rules, sections
from simkit import scenario as top
from simkit.power import facts
from simkit.power.signal_trace import Gaps
from simkit.scenario import cluster, policy, power, references, signals, value
from simkit.scenario import machine_power as machine
from simkit.scenario import workload as logs
from simkit.scenario.references import Family, Kind
from simkit.text import attribute_docstrings
from simkit.traces.power import TableSignal

Part = tuple[str, str, type[BaseModel], type[BaseModel] | None]
"""(heading, dotted place, model, the model whose keys have been told before)."""


def _workloads() -> Iterator[Part]:
    """Yield every kind of workload that is installed, formats of traces first, and its sections."""
    for name, kind in _ranked(logs.WORKLOADS, logs.TraceFormat, logs.WorkloadModel):
        yield f"workload: type {name}", "workload", kind, logs.WorkloadSource
        for key, field in kind.model_fields.items():
            inner = field.annotation
            own = key not in logs.WorkloadSource.model_fields
            if own and isinstance(inner, type) and issubclass(inner, BaseModel):
                yield f"workload.{key}: of type {name}", f"workload.{key}", inner, None


def _signals(*, recorded_ones: bool) -> Iterator[Part]:
    """Yield the kinds of signals that are installed."""
    bases = (TableSignal, signals.RecordedSignal, signals.SignalSource)
    for name, kind in _ranked(signals.SIGNALS, *bases):
        if issubclass(kind, signals.RecordedSignal) is recorded_ones:
            base = next(base for base in bases if issubclass(kind, base))
            yield f"signal: type {name}", "any signal", kind, base


def _ranked(family: Family[Any], *bases: type[Kind]) -> list[tuple[str, type[Kind]]]:
    """Return name and class of the kinds of a family; those of the first base come first."""

    def rank(kind: type[Kind]) -> int:
        return next((n for n, base in enumerate(bases) if issubclass(kind, base)), len(bases))

    return sorted(family.classes().items(), key=lambda found: rank(found[1]))


SECTIONS: tuple[Part, ...] = (
    ("The file", "", top.Scenario, None),
    ("workload", "workload", logs.WorkloadSource, None),
    ("workload.window", "workload.window", logs.Window, None),
    ("workload.resample", "workload.resample", logs.Resample, None),
    ("workload.target_load", "workload.target_load", logs.TargetLoad, None),
    *_workloads(),
    ("value", "value", value.Value, None),
    ("value.qos: type two-classes", "value.qos", value.TwoClasses, None),
    ("value.qos: type fixed", "value.qos", value.FixedQuality, None),
    ("value.qos: type column", "value.qos", value.TraceQuality, None),
    ("value.deadlines: type none", "value.deadlines", value.NoDeadlines, None),
    ("value.deadlines: type qos", "value.deadlines", value.QualityDeadlines, None),
    ("value.deadlines: type slack", "value.deadlines", value.SlackDeadlines, None),
    ("value.deadlines: type column", "value.deadlines", value.TraceDeadlines, None),
    ("value.gpu", "value.gpu", value.Gpus, None),
    ("cluster", "cluster", cluster.ClusterSection, None),
    ("cluster.machines", "cluster.machines.N", cluster.MachineGroup, None),
    ("cluster.trace", "cluster.trace", cluster.MachineTrace, None),
    ("cluster.trace.softerror", "cluster.trace.softerror, .harderror", cluster.Fault, None),
    ("cluster.containers", "cluster.containers", cluster.ContainerTrace, None),
    ("cluster.failures", "cluster.failures", cluster.RandomFailures, None),
    ("cluster.maintenance", "cluster.maintenance.N", cluster.MaintenanceSection, None),
    ("cluster.partitions", "cluster.partitions.N", cluster.PartitionSection, None),
    ("policy: composed", "policy", policy.ComposedPolicy, None),
    ("policy: by fitness", "policy", policy.FittedPolicy, None),
    ("policy: a custom policy file", "policy", policy.FilePolicy, None),
    ("policy: of an installed package", "policy", policy.NamedPolicy, None),
    ("policy: a trained agent", "policy", policy.AgentPolicy, None),
    ("policy: a model of another library", "policy", policy.ModelPolicy, None),
    ("policy: a lookahead", "policy", policy.LookaheadPolicy, None),
    ("policy: recorded starts", "policy", policy.RecordedPolicy, None),
    ("policy.recorded", "policy.recorded", policy.RecordedRule, None),
    ("policy: one after another", "policy", policy.SwitchedPolicy, None),
    ("policy.switch", "policy.switch", policy.PolicyChange, None),
    ("processes", "processes", top.ProcessSection, None),
    ("admission", "admission", rules.AdmissionRule, None),
    ("scheduling", "scheduling", rules.Scheduling, None),
    ("limits", "limits", rules.Limits, None),
    ("metrics", "metrics", top.Metrics, None),
    ("learn", "learn", top.Learn, None),
)
"""What a scenario says, but for power."""

POWER: tuple[Part, ...] = (
    ("power", "power", power.Power, None),
    ("power.machines: one straight line", "power.machines", machine.LinearMachine, None),
    ("power.machines: a table", "power.machines", machine.TableMachine, machine.MachineFacts),
    (
        "power.machines: by resource",
        "power.machines",
        machine.ResourceMachine,
        machine.MachineFacts,
    ),
    ("power.machines: by group", "power.machines", machine.GroupedMachines, None),
    ("power.sources", "power.sources.NAME", power.SourceSection, None),
    ("power.align", "power.align", signals.Align, None),
    ("power.grid", "power.grid", power.GridSection, None),
    ("power.battery", "power.battery", facts.BatteryFacts, None),
    ("power.pue", "power.pue", machine.PueCurve, None),
    ("power.supply", "power.supply", facts.Supply, None),
    ("power.supply.checkpoints", "power.supply.checkpoints", facts.Checkpoints, None),
    ("power.forecast", "power.forecast", power.ForecastBase, None),
    (
        "power.forecast: type persistence",
        "power.forecast",
        power.PersistenceSection,
        power.ForecastBase,
    ),
    ("power.forecast: type noisy", "power.forecast", power.NoisySection, power.ForecastBase),
    ("power.forecast: type given", "power.forecast", power.GivenSection, power.ForecastBase),
    *_signals(recorded_ones=False),
    ("signal: from a table", "any signal", TableSignal, None),
    ("signal: gaps", "any signal's gaps", Gaps, None),
    *_signals(recorded_ones=True),
)
"""What `power` says."""

WORDS: tuple[tuple[Any, str], ...] = (
    (sections.Instant, "duration or date"),
    (sections.Jobs, 'whole number or `"first..last"`'),
    (sections.CountRange, "`[least, most]`, whole numbers ≥ 1"),
    (sections.DurationRange, "`[shortest, longest]`, durations > 0"),
    (sections.PositiveRange, "`[least, most]`, numbers > 0"),
    (sections.QualityRange, "`[least, most]`, numbers > 0 and ≤ 1"),
    (value.Qualities, "number, name or section"),
    (value.Deadlines, "name or section"),
    (signals.Signal, "number or signal"),
    (signals.AmountSignal, "number or signal"),
    (signals.DayPattern, "times of day with values"),
    (machine.Points, "numbers with values"),
    (machine.PueCurve, "number or section"),
    (signals.Align, "name or section"),
    (Gaps, "name or section"),
    (machine.Machines, "section"),
    (machine.Machine, "section"),
    (power.Forecast, "section"),
    (sections.Zone, "time zone"),
    (references.File, "path"),
    (references.FileOrFolder, "path of a file or folder"),
    (policy.PolicyFile, "`file.py:Class`"),
    (policy.PolicyName, "name or `module:attribute`"),
    (references.ReaderName, "name, `module:attribute` or `file.py:attribute`"),
    (references.Arguments, "mapping"),
    (references.FiniteJson, "any value"),
    (logs.WorkloadSection, "section"),
    (top.Value, "section"),
    (top.Power, "section"),
    (top.PolicySection, "section"),
    (policy.PlainPolicy, "section"),
)
"""Types that have a name of their own."""
PLAIN = {int: "whole number", float: "number", str: "text", bool: "true or false"}


def scenario() -> str:
    """Return a section of Markdown for each section of a scenario, but for power."""
    return "\n\n".join(_section(*part) for part in SECTIONS)


def power() -> str:
    """Return a section of Markdown for each section of a scenario's `power`."""
    return "\n\n".join(_section(*part) for part in POWER)


def _section(heading: str, place: str, model: type[BaseModel], base: type[BaseModel] | None) -> str:
    told = base.model_fields.keys() - {"type"} if base else set()
    if base is not None and issubclass(base, Kind):
        told |= {"type"}  # the heading says it
    rows = [row for key, row in _rows(model) if key not in told]
    where = f" Place: `{place}`." if place and place != heading else ""
    doc = (model.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    table = ["| key | type | unit | default | meaning |", "|---|---|---|---|---|", *rows]
    return "\n\n".join([f"### {heading}", f"{doc}{where}", "\n".join(table)])


def ready() -> str:
    """Return a table of the scenarios that come with simkit."""
    from simkit.scenario.bundled import scenario_names, scenario_path, scenario_summary

    rows = [f"| `{name}` | {scenario_summary(scenario_path(name))} |" for name in scenario_names()]
    return "\n".join(["| scenario | what it is |", "|---|---|", *rows])


def _rows(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    hints = get_type_hints(model, include_extras=True)
    about = attribute_docstrings(model)
    for key, info in model.model_fields.items():
        unit = sections.mark_of(info, sections.Unit)
        text = " ".join(about.get(key, "").split()).replace("|", "\\|")
        kind = type_words(hints[key])
        default = "its defaults" if kind == "section" and not info.is_required() else _default(info)
        cells = (f"`{key}`", kind, unit.symbol if unit else "", default, text)
        yield key, f"| {' | '.join(cells)} |"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        value = getattr(value, "type", value.model_dump())
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def type_words(hint: Any) -> str:
    """Return the words for a type as a scenario's author knows it."""
    for known, words in WORDS:
        if hint == known:
            return words
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(parts)
    if origin in (Union, types.UnionType):
        inner = [type_words(part) for part in parts if part is not type(None)]
        return " or ".join(list(dict.fromkeys(inner)) + ["null"] * (type(None) in parts))
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in parts)
    if origin is tuple:
        return f"list of: {type_words(parts[0])}"
    if origin is dict:
        return f"mapping of text to {type_words(parts[1])}"
    if isinstance(hint, type) and issubclass(hint, references.PluginChoice):
        return "name, or `{type: name, …}`"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return "section"
    return PLAIN.get(hint, str(hint))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _annotated(parts: tuple[Any, ...]) -> str:
    """Return the words of the bare type, a duration if it is marked so, and its bounds."""
    duration = any(isinstance(part, sections.Unit) for part in parts)
    words = "duration" if duration else type_words(parts[0])
    bounds = [
        f"{sign} {_number(getattr(rule, name))}"
        for part in parts
        for rule in getattr(part, "metadata", ())
        for name, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
        if getattr(rule, name, None) not in (None, sections.LARGEST_AMOUNT)
    ]
    return " ".join([words, " and ".join(bounds)]).strip()
