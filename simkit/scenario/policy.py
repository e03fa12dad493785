"""The scenario's `policy`: composed rules, a fitness, a custom class, an agent, a lookahead, ….

A policy has no `type`: its keys tell its form.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

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
from simkit.scenario.bundled import agent_label, agent_names
from simkit.scenario.references import AgentFolder, Arguments, File, PluginChoice, PluginName
from simkit.sections import BrokenRulesError, Instant, Many, Section, check_order

_GROUP = "simkit.policies"


def _label(name: str, arguments: Mapping[str, Any], *more: str | None) -> str:
    """Return ``multifactor(age=2)+easy`` of a name, its arguments and more names."""
    given = ",".join(f"{key}={value}" for key, value in arguments.items())
    return "+".join([f"{name}({given})" if given else name, *filter(None, more)])


class PolicyForm(Section):
    """A form of the section `policy`."""

    telling: ClassVar[str]
    """The key that gives the form away, or decides what kind of policy it is."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Short name of the policy for folders and tables: ``fcfs+easy``, ``tetris``."""

    @property
    def chosen(self) -> str:
        """The telling key and its value, for messages: ``policy.backfill: easy``."""
        value = getattr(self, self.telling)
        name = value.type if isinstance(value, PluginChoice) else value
        name = agent_label(name) if self.telling == "agent" else name
        return f"policy.{self.telling}" + (f": {name}" if isinstance(name, str) else "")


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


USUAL_ESTIMATES: Final = "requested"
"""The default of a scenario's estimates."""


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


class ComposedPolicy(PolicyForm):
    """A policy composed of an order, a backfilling rule and a placement rule."""

    telling = "backfill"

    order: OrderChoice = Field(ORDER, validate_default=True)
    """The order in which waiting tasks are tried: a name, or {type: name, and its arguments}."""
    backfill: BackfillChoice = Field(BACKFILL, validate_default=True)
    """What may start before the queue's head while that waits: none, easy, conservative, …."""
    placement: PlacementChoice = Field(PLACEMENT, validate_default=True)
    """Which machines a task goes to."""

    @property
    def label(self) -> str:
        others = ((self.backfill, BACKFILL), (self.placement, PLACEMENT))
        parts = (_label(rule.type, rule.args) for rule, plain in others if rule.type != plain)
        return _label(self.order.type, self.order.args, *parts)


class FittedPolicy(PolicyForm):
    """A policy by fitness: the highest score is placed next; a task that fits nowhere waits."""

    telling = "fitness"

    fitness: FitnessChoice
    """What scores machines for a task, or pairs of a machine and a task: first-fit, tetris, …."""
    order: OrderChoice = Field(ORDER, validate_default=True)
    """The order in which tasks are taken, and which of equal pairs comes first."""
    compat: OtherSimulator | None = None
    """Takes on the time rules and tie-breaks of another simulator; needs its period."""

    @property
    def label(self) -> str:
        order = _label(self.order.type, self.order.args) if self.order.type != ORDER else None
        return _label(self.fitness.type, self.fitness.args, order, self.compat)


class FilePolicy(PolicyForm):
    """A custom policy in a file."""

    telling = "path"

    path: PolicyFile
    """The file and the class in it, my_policy.py:MyPolicy; relative to the scenario file."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for the class."""

    @property
    def label(self) -> str:
        return _label(self.path.rpartition(":")[2], self.args)


class NamedPolicy(PolicyForm):
    """A policy of an installed package."""

    telling = "name"

    name: PolicyName
    """Name of an entry point, or package.module:attribute."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for it."""

    @property
    def label(self) -> str:
        return _label(self.name.rpartition(":")[2], self.args)


class AgentPolicy(PolicyForm):
    """A trained agent."""

    telling = "agent"

    agent: AgentFolder
    """What `simkit train` wrote, or the name of a bundled agent, such as deeprm-70."""
    args: Arguments = Field(default_factory=dict)
    """Keyword arguments for it, such as {choose: greedy}."""
    compat: OtherSimulator | None = None
    """Takes on the time rules of another simulator; for agents of machine–task pairs."""

    @property
    def label(self) -> str:
        return _label(agent_label(self.agent), self.args, self.compat)


class ModelPolicy(PolicyForm):
    """A model that another library trained in `SchedulingEnv`. It is code: loading it runs code."""

    telling = "model"

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

    @property
    def label(self) -> str:
        return _label(Path(self.model).stem, self.args)


class RecordedRule(Section):
    """How the recorded starts of a log are replayed."""

    unknown: Literal["reject", "fit"] = "reject"
    """What becomes of a job whose start the log does not tell: it is rejected; or it starts as soon
    as it fits, after what is due."""


class RecordedPolicy(PolicyForm):
    """No policy, but what really happened: every job starts when the log says that it did.

    A job that does not fit then starts as soon as it does.
    """

    telling = "recorded"

    recorded: Annotated[RecordedRule, BeforeValidator(lambda value: value or {})]
    """How the starts are replayed; {}: by the defaults."""

    @property
    def label(self) -> str:
        return "recorded" if self.recorded.unknown == "reject" else "recorded(unknown=fit)"


def _tag(form: type[PolicyForm]) -> str:
    """Return the keys of a form, which stand for it in messages: ``{path, args}``."""
    return f"{{{', '.join(form.model_fields)}}}"


def _form(value: object) -> str:
    """Return the tag of a policy's form, by its keys; without a telling key it is composed."""
    if isinstance(value, PolicyForm):
        return _tag(type(value))
    keys = value if isinstance(value, dict) else ()
    return _tag(next((form for form in _TOLD_APART if form.telling in keys), ComposedPolicy))


_Plain = (
    Annotated[ComposedPolicy, Tag(_tag(ComposedPolicy))]
    | Annotated[FittedPolicy, Tag(_tag(FittedPolicy))]
    | Annotated[FilePolicy, Tag(_tag(FilePolicy))]
    | Annotated[NamedPolicy, Tag(_tag(NamedPolicy))]
    | Annotated[AgentPolicy, Tag(_tag(AgentPolicy))]
    | Annotated[ModelPolicy, Tag(_tag(ModelPolicy))]
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


class LookaheadPolicy(PolicyForm):
    """Several policies: whenever tasks arrive, each is simulated ahead, and the best one acts."""

    telling = "lookahead"

    lookahead: Many[PlainPolicy]
    """The policies to choose from, [{fitness: tetris}, {order: sjf, backfill: easy}]; the first
    acts until another one is better."""
    objective: Literal["makespan", "turnaround", "slowdown"] = "makespan"
    """What the best one minimises: the last end, the mean turnaround or the mean bounded slowdown
    of all jobs that have not ended, by their estimates."""

    @property
    def label(self) -> str:
        """``lookahead(fcfs+easy,tetris)``, with the objective unless that is the makespan."""
        parts = [one.label for one in self.lookahead]
        if self.objective != "makespan":
            parts.append(f"objective={self.objective}")
        return f"lookahead({','.join(parts)})"

    @field_validator("lookahead", mode="before")
    @classmethod
    def _is_not_nested(cls, policies: object) -> object:
        rows = enumerate(policies if isinstance(policies, (list, tuple)) else ())
        refused = {
            _tag(LookaheadPolicy): "looks ahead itself; list its policies in its place",
            _tag(
                SwitchedPolicy
            ): "switches policies, which cannot be played ahead; list these in its place",
            _tag(RecordedPolicy): "is the past of a log, which cannot be played ahead; leave it "
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
    | Annotated[LookaheadPolicy, Tag(_tag(LookaheadPolicy))]
    | Annotated[RecordedPolicy, Tag(_tag(RecordedPolicy))],
    Discriminator(_form),
]


def _no_switch(value: object) -> object:
    """Write a policy out; refuse one that switches itself, and another simulator's time rules."""
    if isinstance(value, SwitchedPolicy) or (isinstance(value, dict) and "switch" in value):
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


class SwitchedPolicy(PolicyForm):
    """Several policies, one after the other."""

    telling = "switch"

    start: PhasePolicy
    """What decides until the first change."""
    switch: Many[PolicyChange]
    """The changes, [{at: 30d, to: sjf+easy}], the earliest first."""

    @property
    def phases(self) -> list[tuple[str, PhasePolicy]]:
        """(dotted key, policy) of each policy, in order."""
        later = [(f"policy.switch.{row}.to", each.to) for row, each in enumerate(self.switch)]
        return [("policy.start", self.start), *later]

    @property
    def label(self) -> str:
        """``fcfs,30d:sjf+easy``."""
        changes = (f",{_instant(each.at)}:{each.to.label}" for each in self.switch)
        return self.start.label + "".join(changes)

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


def _instant(at: float | datetime) -> str:
    """Return ``30d`` or a date, without what folders' names must not have."""
    if isinstance(at, datetime):
        return at.strftime("%Y-%m-%dT%H%M%SZ")
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if at and at % length == 0:
            return f"{at / length:.0f}{unit}"
    return f"{at:.15g}s"


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
    | Annotated[LookaheadPolicy, Tag(_tag(LookaheadPolicy))]
    | Annotated[RecordedPolicy, Tag(_tag(RecordedPolicy))]
    | Annotated[SwitchedPolicy, Tag(_tag(SwitchedPolicy))],
    Discriminator(_form),
]
PolicySection = Annotated[
    _Any,
    BeforeValidator(_written_out, json_schema_input_type=str | _Any),
    AfterValidator(_without_idle_changes),
]
"""Every form of a policy, told apart by its keys, or a text; see `section_of`."""


_TOLD_APART: tuple[type[PolicyForm], ...] = (
    SwitchedPolicy, LookaheadPolicy, FilePolicy, NamedPolicy, AgentPolicy, ModelPolicy,
    FittedPolicy, RecordedPolicy,
)  # fmt: skip
"""The forms with a telling key; the first whose key is there is meant."""


def policies_in(section: Section) -> tuple[Section, ...]:
    """Return the policies that a section names: itself, its phases, its candidates."""
    if isinstance(section, SwitchedPolicy):
        return tuple(one for _, part in section.phases for one in policies_in(part))
    return section.lookahead if isinstance(section, LookaheadPolicy) else (section,)


def compat_period_s(compat: str) -> float | None:
    """Return the only time between the decisions of another simulator, in s.

    None: any will do, or its code is not at hand yet: what names code is checked when it is made.
    """
    if compat not in plugins.names(_GROUP, "compat"):
        return None
    period_s: float | None = getattr(plugins.find(_GROUP, compat, kind="compat"), "period_s", None)
    return period_s
