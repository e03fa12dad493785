"""The scenario's `policy`: composed rules, a fitness, a custom class, an agent, a lookahead, ….

A policy has no `type`: its keys tell its form.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_serializer,
)

from simkit import plugins
from simkit.errors import did_you_mean
from simkit.scenario.bundled import agent_names
from simkit.scenario.references import AgentFolder, Arguments, File, PluginChoice, PluginName
from simkit.sections import BrokenRulesError, Instant, Many, Section, check_order

_GROUP = "simkit.policies"


class OrderChoice(PluginChoice):
    """The order in which waiting tasks are tried."""

    type: Annotated[str, PluginName(_GROUP, "order")]


class BackfillChoice(PluginChoice):
    """What may start before the queue's head while that waits."""

    type: Annotated[str, PluginName(_GROUP, "backfill")]


class PlacementChoice(PluginChoice):
    """A rule that picks machines."""

    type: Annotated[str, PluginName(_GROUP, "placement")]


class FitnessChoice(PluginChoice):
    """What scores machines for a task, or pairs of the two."""

    type: Annotated[str, PluginName(_GROUP, "fitness")]


class EstimatorChoice(PluginChoice):
    """Where the policy's run-time estimates come from, and how they are corrected."""

    type: Annotated[str, PluginName("simkit.predictors")]
    correction: Literal["none", "tsafrir", "request"] = "none"
    """What a running task's estimate becomes once the task has outlived it: tsafrir adds 1, 5, 15,
    30 min, 1, 2, 5, 10, 20, 50, 100 h, one after the other, up to the request; request goes to the
    request at once; none: nothing."""

    @model_serializer(mode="plain")
    def _shortest_form(self) -> str | dict[str, Any]:
        given = {} if self.correction == "none" else {"correction": self.correction}
        return {"type": self.type, **self.args, **given} if self.args or given else self.type


def _file_reference(name: str) -> str:
    if not name.rpartition(":")[0].endswith(".py"):
        raise ValueError(f"{name!r} names no class in a file; write my_policy.py:MyPolicy")
    return name


def _class_reference(name: str) -> str:
    if ":" not in name:
        raise ValueError(
            f"{name!r} names no class; write package.module:Class, such as sb3_contrib:MaskablePPO"
        )
    return name


ModelClass = Annotated[str, AfterValidator(_class_reference), PluginName(_GROUP)]
PolicyName = Annotated[str, PluginName(_GROUP, "policy")]
PolicyFile = Annotated[str, AfterValidator(_file_reference), PluginName(_GROUP, "policy")]
OtherSimulator = Annotated[str, PluginName(_GROUP, "compat")]


ORDER, BACKFILL, PLACEMENT = "fcfs", "none", "first-fit"
"""What the parts of a policy are where a scenario does not name them."""


class ComposedPolicy(Section):
    """A policy composed of an order, a backfilling rule and a placement rule."""

    order: OrderChoice = Field(ORDER, validate_default=True)
    """The order in which waiting tasks are tried: a name, or {type: name, and its arguments}."""
    backfill: BackfillChoice = Field(BACKFILL, validate_default=True)
    """What may start before the queue's head while that waits: none, easy, conservative, …."""
    placement: PlacementChoice = Field(PLACEMENT, validate_default=True)
    """Which machines a task goes to."""


class FittedPolicy(Section):
    """A policy by fitness: the highest score is placed next; a task that fits nowhere waits."""

    fitness: FitnessChoice
    """What scores machines for a task, or pairs of a machine and a task: first-fit, tetris, …."""
    order: OrderChoice = Field(ORDER, validate_default=True)
    """The order in which tasks are taken, and which of equal pairs comes first."""
    compat: OtherSimulator | None = None
    """Takes on the time rules and tie-breaks of another simulator; needs its period."""


class FilePolicy(Section):
    """A custom policy in a file."""

    path: PolicyFile
    """The file and the class in it, my_policy.py:MyPolicy; relative to the scenario file."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the class."""


class NamedPolicy(Section):
    """A policy of an installed package."""

    name: PolicyName
    """Name of an entry point, or package.module:attribute."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for it."""


class AgentPolicy(Section):
    """A trained agent."""

    agent: AgentFolder
    """What `simkit train` wrote, or the name of a bundled agent, such as deeprm-70."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for it, such as {choose: greedy}."""
    compat: OtherSimulator | None = None
    """Takes on the time rules of another simulator; for agents of machine–task pairs."""


class ModelPolicy(Section):
    """A model that another library trained in `SchedulingEnv`. It is code: loading it runs code."""

    model: File
    """The file that the library saved, such as trained.zip; relative to the scenario file."""
    algorithm: ModelClass
    """The class that saved it: stable_baselines3:PPO, sb3_contrib:MaskablePPO, my_model.py:Mine."""
    args: Arguments = Field(default_factory=dict)
    """The arguments of the environment: observation, observation_arguments, slots, horizon,
    max_length, backlog_shown, memory, unit."""
    statistics: File | None = None
    """The file of the VecNormalize that it was trained behind, such as vecnormalize.pkl; its
    observations are normalised by it. Reading it runs code as well."""


class RecordedRule(Section):
    """How the recorded starts of a log are replayed."""

    unknown: Literal["reject", "fit"] = "reject"
    """What becomes of a job whose start the log does not tell: it is rejected; or it starts as soon
    as it fits, after what is due."""


class RecordedPolicy(Section):
    """No policy, but what really happened: every job starts when the log says that it did.

    A job that does not fit then starts as soon as it does.
    """

    recorded: Annotated[RecordedRule, BeforeValidator(lambda value: value or {})]
    """How the starts are replayed; {}: by the defaults."""


LOOKAHEAD = "{lookahead, objective}"
SWITCH = "{start, switch}"
_FORMS: dict[type[Section], str] = {
    ComposedPolicy: "{order, backfill, placement}",
    FittedPolicy: "{fitness, order, compat}",
    FilePolicy: "{path, args}",
    NamedPolicy: "{name, args}",
    AgentPolicy: "{agent, args, compat}",
    ModelPolicy: "{model, algorithm, args, statistics}",
    RecordedPolicy: "{recorded}",
}
"""Model → its keys, which stand for the form in messages; `LOOKAHEAD` and `SWITCH` are others."""
_MODELS: dict[str, type[Section]] = {
    "path": FilePolicy, "name": NamedPolicy, "agent": AgentPolicy, "model": ModelPolicy,
    "fitness": FittedPolicy, "recorded": RecordedPolicy,
}  # fmt: skip
"""Key that gives a form away → its model."""


def _form(value: object) -> str | None:
    """Return the form of a policy by its keys; without a telling key it is composed."""
    if isinstance(value, SwitchedPolicy):
        return SWITCH
    if isinstance(value, Section):
        return _FORMS.get(type(value), LOOKAHEAD)
    keys = value if isinstance(value, dict) else ()
    if "switch" in keys:
        return SWITCH
    if "lookahead" in keys:
        return LOOKAHEAD
    return _FORMS[next((model for key, model in _MODELS.items() if key in keys), ComposedPolicy)]


_Plain = (
    Annotated[ComposedPolicy, Tag(_FORMS[ComposedPolicy])]
    | Annotated[FittedPolicy, Tag(_FORMS[FittedPolicy])]
    | Annotated[FilePolicy, Tag(_FORMS[FilePolicy])]
    | Annotated[NamedPolicy, Tag(_FORMS[NamedPolicy])]
    | Annotated[AgentPolicy, Tag(_FORMS[AgentPolicy])]
    | Annotated[ModelPolicy, Tag(_FORMS[ModelPolicy])]
)
_PARTS = ("order", "backfill", "placement")
_KINDS = {"name": "policy", "order": "order", "fitness": "fitness"}
"""Key of a policy's section → the kind of the plug-ins that stand there."""


def section_of(text: str) -> dict[str, Any]:
    """Return the section ``policy`` that a text stands for.

    Args:
        text: ``sjf`` (an order, a fitness or a policy), ``sjf+easy`` (order, backfilling and
            placement), ``my_policy.py:Mine``, ``package.module:Mine``, or ``recorded``.

    Raises ValueError, with what to write instead, for a name that is unknown or stands for two.
    """
    if ":" in text:
        return {"path" if plugins.split_reference(text)[0].endswith(".py") else "name": text}
    if "+" in text:
        words = [word.strip() for word in text.split("+")]
        if len(words) > len(_PARTS):
            raise ValueError(f"{text!r} has {len(words)} parts; write order+backfill+placement")
        return dict(zip(_PARTS, words, strict=False))
    if text == "recorded":
        return {"recorded": {}}
    known = {key: plugins.names(_GROUP, kind) for key, kind in _KINDS.items()}
    found = [key for key, names in known.items() if text in names]
    if len(found) == 1:
        return {found[0]: text}
    if found:
        forms = " or ".join(f"{{{key}: {text}}}" for key in found)
        raise ValueError(f"{text!r} is a name of several, write {forms}")
    if text in plugins.names(_GROUP, "backfill"):
        raise ValueError(f"{text!r} is a backfilling rule; write {{backfill: {text}}}")
    if text in agent_names():
        raise ValueError(f"{text!r} is an agent; write {{agent: {text}}}")
    every = {"recorded", *(name for names in known.values() for name in names)}
    raise ValueError(f"{text!r} is not a policy, order or fitness{did_you_mean(text, every)}")


def _written_out(value: object) -> object:
    return section_of(value) if isinstance(value, str) else value


def _of_text(value: object) -> object:
    """Return the section of ``recorded``; other texts stand for forms that may stand anywhere."""
    return section_of(value) if value == "recorded" else value


_Written = Annotated[_Plain, Discriminator(_form)]
PlainPolicy = Annotated[
    _Written, BeforeValidator(_written_out, json_schema_input_type=str | _Written)
]
"""Every form of a policy but a lookahead, told apart by its keys, or a text; see `section_of`."""


class LookaheadPolicy(Section):
    """Several policies: whenever tasks arrive, each is simulated ahead, and the best one acts."""

    lookahead: Many[PlainPolicy]
    """The policies to choose from, [{fitness: tetris}, {order: sjf, backfill: easy}]; the first
    acts until another one is better."""
    objective: Literal["makespan", "turnaround", "slowdown"] = "makespan"
    """What the best one minimises: the last end, the mean turnaround or the mean bounded slowdown
    of all jobs that have not ended, by their estimates."""

    @field_validator("lookahead", mode="before")
    @classmethod
    def _is_not_nested(cls, policies: object) -> object:
        rows = enumerate(policies if isinstance(policies, (list, tuple)) else ())
        refused = {
            LOOKAHEAD: "looks ahead itself; list its policies in its place",
            SWITCH: "switches policies, which cannot be played ahead; list these in its place",
            _FORMS[RecordedPolicy]: "is the past of a log, which cannot be played ahead; leave it "
            "out",
        }
        forms = ((row, _form(_of_text(policy))) for row, policy in rows)
        problems = [((row,), refused[form]) for row, form in forms if form in refused]
        if problems:
            raise BrokenRulesError(problems)
        return policies

    @field_validator("lookahead")
    @classmethod
    def _can_be_played(cls, policies: tuple[PlainPolicy, ...]) -> tuple[PlainPolicy, ...]:
        if not policies:
            raise ValueError(
                "has no policies; list those to choose from, such as [{fitness: tetris}, "
                "{order: sjf, backfill: easy}]"
            )
        problems = [
            ((row, "compat"), f"{policy.compat} cannot begin in the middle of a run; leave it out")
            for row, policy in enumerate(policies)
            if isinstance(policy, FittedPolicy | AgentPolicy) and policy.compat is not None
        ]
        if problems:
            raise BrokenRulesError(problems)
        return policies


_OfPhase = Annotated[
    _Plain
    | Annotated[LookaheadPolicy, Tag(LOOKAHEAD)]
    | Annotated[RecordedPolicy, Tag(_FORMS[RecordedPolicy])],
    Discriminator(_form),
]


def _no_switch(value: object) -> object:
    """Write a policy out; refuse one that switches itself, and another simulator's time rules."""
    if _form(value) == SWITCH:
        raise ValueError("switches itself; list its policies in `switch`, one after the other")
    if isinstance(value, dict) and value.get("compat") is not None:
        text = f"{value['compat']} cannot begin or end in the middle of a run; leave it out"
        raise BrokenRulesError([(("compat",), text)])
    return _written_out(value)


PhasePolicy = Annotated[
    _OfPhase, BeforeValidator(_no_switch, json_schema_input_type=str | _OfPhase)
]
"""Every form of a policy that decides from one instant to another."""


class PolicyChange(Section):
    """Another policy from an instant on."""

    at: Instant
    """From when on it decides: a duration after the first submission, or a date."""
    to: PhasePolicy
    """What decides then, in any form of a policy."""


class SwitchedPolicy(Section):
    """Several policies, one after the other."""

    start: PhasePolicy
    """What decides until the first change."""
    switch: Many[PolicyChange]
    """The changes, [{at: 30d, to: sjf+easy}], the earliest first."""

    @field_validator("switch")
    @classmethod
    def _one_after_the_other(cls, changes: tuple[PolicyChange, ...]) -> tuple[PolicyChange, ...]:
        if not changes:
            raise ValueError("has no changes; list them, such as [{at: 30d, to: sjf+easy}]")
        problems = []
        for row, (before, change) in enumerate(pairwise(changes), 1):
            try:
                check_order(before.at, change.at)
            except ValueError:
                problems.append(((row, "at"), "must be after that of the change before it"))
        if problems:
            raise BrokenRulesError(problems)
        return changes


def _without_idle_changes(section: Section) -> Section:
    """Leave out changes to the policy that decides already: they change no run, and no digest."""
    if not isinstance(section, SwitchedPolicy):
        return section
    before, kept = section.start, []
    for change in section.switch:
        if change.to != before:
            kept.append(change)
        before = change.to
    return section.model_copy(update={"switch": tuple(kept)}) if kept else section.start


_Any = Annotated[
    _Plain
    | Annotated[LookaheadPolicy, Tag(LOOKAHEAD)]
    | Annotated[RecordedPolicy, Tag(_FORMS[RecordedPolicy])]
    | Annotated[SwitchedPolicy, Tag(SWITCH)],
    Discriminator(_form),
]
PolicySection = Annotated[
    _Any,
    BeforeValidator(_written_out, json_schema_input_type=str | _Any),
    AfterValidator(_without_idle_changes),
]
"""Every form of a policy, told apart by its keys, or a text; see `section_of`."""


def policies_in(section: Section) -> tuple[Section, ...]:
    """Return the policies that a section names: itself, its phases, its candidates."""
    if isinstance(section, SwitchedPolicy):
        parts = (section.start, *(change.to for change in section.switch))
        return tuple(one for part in parts for one in policies_in(part))
    return section.lookahead if isinstance(section, LookaheadPolicy) else (section,)


def compat_period_s(compat: str) -> float | None:
    """Return the only time between the decisions of another simulator, in s.

    None: any will do, or its code is not at hand yet: what names code is checked when it is made.
    """
    if compat not in plugins.names(_GROUP, "compat"):
        return None
    period_s: float | None = getattr(plugins.find(_GROUP, compat, kind="compat"), "period_s", None)
    return period_s
