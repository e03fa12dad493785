"""What a learner plays: the fastest games that are equal to the engine, for any scenario.

Job sets of DeepRM, Sofia and SchedQRM and the ready pools of RARE are played in lock-step, by
thousands; every other scenario, and one with a view of its own, is played as simulations side by
side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from simkit.agent.actions import SlotMask, Starts
from simkit.agent.burst_classes import PATIENCE
from simkit.agent.observe_slots import SLOT_ENCODERS
from simkit.errors import PluginError, ScenarioError
from simkit.gym.agent_view import AgentView
from simkit.learners.common.arguments import Extent, Positive, unsuited
from simkit.learners.games.job_sets import (
    BurstClasses,
    ClassRules,
    LayoutName,
    LockstepSource,
    NumberedSlots,
)
from simkit.learners.games.ready_pool import HORIZON, ReadySource
from simkit.learners.games.ready_sizes import SourceOfSizes
from simkit.learners.games.simulations import SimulatedSource
from simkit.learners.lockstep import Objective
from simkit.learners.lockstep.job_sources import (
    ClassJobs,
    JobSource,
    SlotJobs,
    refuse_loads_without_sets,
    refuse_without_jobs,
)
from simkit.learners.lockstep.pool_in_steps import is_pool_in_steps
from simkit.learners.lockstep.ready_pool.accounts import Cost
from simkit.learners.lockstep.ready_pool.streams import is_ready_pool
from simkit.scenario import Scenario
from simkit.sections import BrokenRulesError, Count, Many, PositiveDuration, Section
from simkit.traces.models import RareModel
from simkit.traces.models.deeprm import DeepRMModel, SchedQRMModel, SofiaModel

__all__ = ["EndlessArguments", "GamesArguments", "games_of", "usual_numbers", "usual_view"]

SLOTS: Final = 64
"""Usual number of waiting tasks to choose from."""
HOURS: Final = 24
"""Most steps of a forecast that are shown."""


class GamesArguments(Section):
    """Which games are played; a part of the arguments of learners."""

    # job sets in lock-step
    loads: Many[Positive] = ()
    """Offered loads to mix, equally many jobs of each; none: that of the workload."""
    objective: Objective = "slowdown"
    """What is minimised: the slowdown or the completion time of the jobs."""
    layout: LayoutName | None = None
    """Numbered slots, or a slot for each length of a job (`classes`); null: that of the workload's
    paper."""
    starts: Starts = "now"
    """Tasks may start now or wait, or (`ahead`) each gets its earliest place at once."""
    mask: Literal["none", "possible"] | None = None
    """Numbered slots: tasks get their earliest place and a step may always pass, where only tasks
    that fit may be chosen (`possible`), or any slot (`none`), and then a step passes if nothing can
    be placed; null: as `starts` says."""
    patience: Annotated[int, Field(ge=0)] = PATIENCE
    """With `layout: classes` and `starts: now`, the most steps in a row in which nothing runs
    although a task fits."""
    horizon: Extent | None = None
    """Steps ahead in which tasks can be placed; null: 20, or 60 for Sofia's jobs."""
    memory: Extent = 10
    """Numbered slots: largest count of steps since the last arrival that is seen."""
    backlog_shown: Extent | None = None
    """Numbered slots: tasks of the backlog that are seen, further ones are hidden; null: all, at
    most 60."""
    last_step: Count | None = None
    """Numbered slots: log the mean load, and the load and the reward of this step; null: do not."""
    # simulations
    observation: str | None = None
    """What is seen: an encoder's name, or several joined by `+`; null: the waiting tasks as a set,
    and the power of a site that forecasts it. Numbered slots in lock-step know `slot-set`,
    `deeprm-image`, `deeprm-compact`, `sofia-shares` and `sofia-compact`."""
    actions: Literal["start", "next-head", "pick", "slots", "classes", "ready-pool"] | None = None
    """What an action means; null: `next-head`, or `ready-pool` for admission to slots."""
    step: PositiveDuration | None = None
    """With `actions: classes`, the run time that a class stands for; null: `scheduling.step`."""
    slots: Count | None = None
    """Waiting tasks to choose from; null: 64, or `admission.slots`."""
    reward: str | None = None
    """What is paid; null: `value` where jobs have a value, else `bounded-slowdown`."""
    jobs: Count | None = None
    """Jobs of a slice; null: 256, or fewer of a short log or of jobs with many instances. A
    `workload.window.jobs` of up to 256 jobs is a slice itself, and the others are windows of the
    whole log that are as long; a longer one is the part of the log that is used."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of a recorded workload, its end, that is held out."""
    # ready pools in lock-step
    hours: Count = 168
    """Steps of a game."""
    max_start: Annotated[int, Field(ge=0, lt=HORIZON)] = 0
    """The last step ahead in which a job may start; 0: only now."""
    reject: bool = False
    """Whether the agent may reject jobs."""
    cost: Cost = "waiting"
    """Mean cost per step to report, and perhaps to limit: waiting jobs, jobs past their quality of
    service, or money or kg of CO₂ for energy."""
    # all
    held_out_sets: Count = 100
    """Slices on which the agent is evaluated; the same for all trainings, never trained on."""
    max_decisions: Count = 3000
    """Largest number of decisions in an episode; jobs still open then count as unfinished."""


EPISODES: Final = ("job_sets", "rollouts", "max_decisions")
"""Arguments that are for episodes alone."""


class EndlessArguments(GamesArguments):
    """Which games are played, by a learner that knows games without an end as well."""

    games: Count | None = None
    """Games of a ready pool without an end, played side by side; null: episodes."""
    decisions: Count = 48
    """Decisions of each game and iteration."""

    of_episodes: ClassVar[tuple[str, ...]] = EPISODES
    """Arguments that are for episodes alone."""
    of_endless: ClassVar[tuple[str, ...]] = ("decisions",)
    """Arguments that are for games without an end."""

    @model_validator(mode="after")
    def _one_way_to_play(self) -> Self:
        given, endless = self.model_fields_set, self.games is not None
        text = (
            "is for episodes, but games asks for games without an end; leave it out" if endless
            else "is for games without an end; give games, or leave it out"
        )  # fmt: skip
        wrong = [key for key in (self.of_episodes if endless else self.of_endless) if key in given]
        if wrong:
            raise BrokenRulesError([((key,), text) for key in wrong])
        return self


SIMULATED: Final = ("observation", "actions", "step", "slots", "reward", "jobs", "held_out")
"""Arguments of simulations."""
NUMBERED: Final = ("mask", "horizon", "memory", "backlog_shown", "last_step")
"""Arguments of numbered slots; burst classes have the first two as well."""
CLASSES: Final = ("reading", "shaping", "network")
"""Arguments of burst classes, which a learner may have of its own."""
LOCKSTEP: Final = ("loads", "objective", "layout", "starts", "patience", *NUMBERED, *CLASSES)
"""Arguments of job sets in lock-step."""
READY: Final = ("hours", "max_start", "reject", "cost")
"""Arguments of ready pools in lock-step."""
Way = Literal["job sets in lock-step", "ready pools in lock-step", "simulations"]
WAYS: Final[Mapping[Way, tuple[str, ...]]] = {
    "job sets in lock-step": LOCKSTEP, "ready pools in lock-step": READY, "simulations": SIMULATED,
}  # fmt: skip
"""Way to play → the arguments that are for it alone."""


def games_of(
    scenario: Scenario,
    chosen: GamesArguments,
    learner: str,
    job_sets: int,
    classes: ClassRules | None = None,
    *,
    discount: float = 1.0,
    units: Sequence[int] = (),
) -> LockstepSource | ReadySource | SimulatedSource:
    """Return the source of the games of a scenario.

    Args:
        scenario: any.
        chosen: which games.
        learner: its name, for messages.
        job_sets: slices of an iteration.
        classes: how burst classes are seen and paid for, by a learner that takes them wherever it
            can; None: the usual ones, for SchedQRM's workload or where they are asked for.
        discount: factor per step by which the value of a ready pool's jobs is discounted.
        units: sizes of the ready pool in games without an end; none: the scenario's own.

    Raises ScenarioError, all problems at once, for arguments that do not suit the scenario.
    """
    given = chosen.model_dump(include=chosen.model_fields_set)
    way = _way_to_play(scenario, given, anywhere=classes is not None)
    _refuse_other_ways(scenario, given, way)
    if way == "job sets in lock-step":
        return _lockstep(scenario, chosen, learner, job_sets, classes)
    if way == "ready pools in lock-step":
        rules: dict[str, Any] = {name: getattr(chosen, name) for name in READY}
        rules |= {"most_decisions": chosen.max_decisions, "discount": discount}
        try:
            return (
                SourceOfSizes(scenario, units, **rules) if units else ReadySource(scenario, **rules)
            )
        except ScenarioError as error:
            if given.get("games") is None or any(map(_is_of_argument, error.problems)):
                raise
            known = "games without an end of a ready pool"
            remedy = "leave it out"
            raise unsuited("learn.arguments.games:", known, error.problems, remedy) from error
    view = usual_view(scenario, chosen)
    reward = chosen.reward or ("bounded-slowdown" if scenario.value is None else "value")
    try:
        source = SimulatedSource.of(
            scenario, view, reward, jobs=chosen.jobs, held_out=chosen.held_out,
            most_decisions=chosen.max_decisions,
        )  # fmt: skip
    except ScenarioError as error:
        raise ScenarioError([_by_own_keys(text) for text in error.problems]) from error
    try:
        source.begin_one()
    except PluginError as error:
        raise ScenarioError(f"learn.arguments: {error}") from error
    except ScenarioError as error:
        raise ScenarioError([_of_view(text) for text in error.problems]) from error
    return source


def _way_to_play(scenario: Scenario, given: Mapping[str, Any], *, anywhere: bool) -> Way:
    """Return the way to play with some arguments; for `anywhere` see `usual_layout`.

    What lock-step does not cover is simulated, unless an argument asks for lock-step.
    """
    asked = [key for key in SIMULATED if given.get(key) is not None]
    if given.get("games") is not None:
        return "ready pools in lock-step"
    if isinstance(scenario.workload, DeepRMModel | SofiaModel | SchedQRMModel):
        layout = given.get("layout") or usual_layout(scenario, anywhere=anywhere)
        ours_to_refuse = layout == "slots" or given.get("layout") is not None
        seen = ours_to_refuse and given.get("observation") in SLOT_ENCODERS
        known = not asked or (asked == ["observation"] and seen)
        ours = WAYS["job sets in lock-step"]
        covered = any(key in given for key in ours) or is_pool_in_steps(scenario, layout)
        return "job sets in lock-step" if known and covered else "simulations"
    if isinstance(scenario.workload, RareModel) and not asked and is_ready_pool(scenario):
        return "ready pools in lock-step"
    return "simulations"


def _refuse_other_ways(scenario: Scenario, given: Mapping[str, Any], way: Way) -> None:
    """Raise ScenarioError, all problems at once, for arguments of another way to play."""
    asked = ["games"] if given.get("games") is not None else [
        key for key in SIMULATED if given.get(key) is not None
    ]  # fmt: skip
    why = f"a workload of type {scenario.workload.type} is played as"
    if asked and way != "job sets in lock-step":
        why = f"{' and '.join(asked)} asks for"
    allowed = {"observation"} if way == "job sets in lock-step" else set[str]()
    if wrong := [
        f"learn.arguments.{key}: is for {other}, but {why} {way}; leave it out"
        for other, keys in WAYS.items()
        for key in keys
        if other != way and key not in allowed and given.get(key) is not None
    ]:
        raise ScenarioError(wrong)


def _is_of_argument(problem: str) -> bool:
    return problem.startswith("learn.arguments.")


def _of_view(problem: str) -> str:
    """Return a problem of what an agent sees and does in a learner's words."""
    own = problem.removeprefix("action_arguments.")  # its `step` is the learner's
    return f"learn.arguments{'.' if own != problem else ': '}{own}"


def _by_own_keys(problem: str) -> str:
    """Return a problem with the windows of an environment's episodes in a learner's words."""
    own = problem.replace("episode: ", "learn.arguments.jobs: ", 1)
    own = own.replace("episode.held_out: ", "learn.arguments.held_out: ", 1)
    return own.replace("fewer jobs, another held_out, or from: all", "fewer jobs, or a larger part")


def usual_numbers(
    scenario: Scenario,
    simulated: Mapping[str, Any],
    given: Mapping[str, Any],
    slots: Mapping[str, Any] | None = None,
    endless: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Return a learner's defaults for the games that it plays where they differ from its own.

    Args:
        scenario: any.
        simulated: for simulations, and for episodes of a ready pool.
        given: `learn.arguments`.
        slots: for numbered slots, by a learner that lays jobs out in classes wherever it can.
        endless: for games without an end, by a learner that knows them; with `games`, it prefers
            them on a ready pool.
    """
    way = _way_to_play(scenario, given, anywhere=slots is not None)
    if endless is not None and way == "ready pools in lock-step":
        asked = given.get("games") is not None
        usually = "games" in endless and not {"games", *EPISODES}.intersection(given)
        return endless if asked or usually else simulated
    if way != "job sets in lock-step":
        return simulated
    layout = given.get("layout") or usual_layout(scenario, anywhere=True)
    return slots if slots is not None and layout == "slots" else {}


def usual_layout(scenario: Scenario, *, anywhere: bool) -> LayoutName:
    """Return how jobs of a pool in steps are laid out, where nothing else is asked for.

    Args:
        scenario: of a workload in lock-step.
        anywhere: whether classes are preferred wherever no slots are numbered; else they are for
            SchedQRM's workload alone.
    """
    free = anywhere and scenario.admission.slots is None
    return "classes" if free or isinstance(scenario.workload, SchedQRMModel) else "slots"


def usual_view(scenario: Scenario, chosen: GamesArguments) -> AgentView:
    """Return what an agent sees and does in a scenario, where nothing else is asked for."""
    actions, observation = chosen.actions, chosen.observation
    forecast = None if scenario.power is None else scenario.power.forecast
    if scenario.scheduling.step is not None and scenario.admission.slots is not None:
        actions = actions or "ready-pool"
    elif scenario.scheduling.step is None:
        actions = actions or "next-head"
    if observation is None and actions in ("start", "next-head", "pick"):
        observation = "queue-set" if forecast is None else "queue-set+power-forecast"
    arguments = None
    if observation == "queue-set+power-forecast" and forecast is not None:
        steps = int(forecast.horizon // forecast.step)
        arguments = {"power-forecast": {"steps": min(steps, HOURS)}}
    own_slots = actions in ("slots", "classes", "ready-pool")
    slots = chosen.slots or (None if own_slots else scenario.admission.slots or SLOTS)
    return AgentView(
        observation=observation, observation_arguments=arguments, actions=actions, slots=slots,
        action_arguments=None if chosen.step is None else {"step": chosen.step},
    )  # fmt: skip


def _lockstep(
    scenario: Scenario,
    chosen: GamesArguments,
    learner: str,
    job_sets: int,
    classes: ClassRules | None,
) -> LockstepSource:
    """Return job sets in lock-step; raises ScenarioError for a pool that is none in steps."""
    layout = chosen.layout or usual_layout(scenario, anywhere=classes is not None)
    _refuse_other_layouts(chosen, layout, classes)
    who = f"the learner {learner}"
    jobs: JobSource
    if layout == "classes":
        rules = classes or ClassRules()
        jobs = ClassJobs(scenario, who, chosen.loads, horizon=rules.horizon)
        kind: Any = BurstClasses(jobs.model, chosen.starts, chosen.patience, rules)
    else:
        given = chosen.model_dump(include={"horizon", "mask"} & chosen.model_fields_set)
        jobs = SlotJobs(
            scenario, who, chosen.loads, horizon=given.get("horizon"), memory=chosen.memory,
            backlog_shown=chosen.backlog_shown,
        )  # fmt: skip
        mask: SlotMask = given.get("mask") or chosen.starts
        seen = chosen.observation or "slot-set"
        kind = NumberedSlots(jobs.model, mask, seen, chosen.last_step)
    refuse_without_jobs({"held_out_sets": jobs.held_out(chosen.held_out_sets)})
    refuse_loads_without_sets(job_sets, chosen.loads, jobs)
    return LockstepSource(jobs, kind, chosen.objective, chosen.max_decisions)


def _refuse_other_layouts(
    chosen: GamesArguments, layout: LayoutName, classes: ClassRules | None
) -> None:
    """Raise ScenarioError, all problems at once, for arguments of another layout."""
    given, wrong = chosen.model_fields_set, []
    if layout == "slots":
        wrong = [f"{key}: is for layout: classes; leave it out" for key in CLASSES if key in given]
    else:
        others = ("observation", *(NUMBERED if classes is None else NUMBERED[2:]))
        wrong = [f"{key}: is for layout: slots; leave it out" for key in others if key in given]
        if chosen.objective != "slowdown":
            wrong.append(
                f"objective: is {chosen.objective}, but layout: classes supports only slowdown"
            )
    if "patience" in given and (layout == "slots" or chosen.starts == "ahead"):
        wrong.append("patience: is for layout: classes with starts: now; leave it out")
    if wrong:
        raise ScenarioError([f"learn.arguments.{text}" for text in wrong])
