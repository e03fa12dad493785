"""An experiment: `prepare` builds and checks what a scenario names, `carry_out` runs and writes it.

What `simkit run` does up to the first event: the command loads the scenario, `prepare` reads the
trace and builds machines, policy and site, `carry_out` opens the run folder and starts the
simulation (`simkit.engine.simulation`).

experiment = prepare(load_scenario("scenario.yaml"))
run = carry_out(experiment, output="runs/mine")
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from simkit import plugins
from simkit.compiled.scope import Chosen, choose, module_of
from simkit.engine.outages import ProcessLike
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.engine.submission import check_requests
from simkit.errors import LimitError, PolicyError, ScenarioError, SimkitError, warn_of
from simkit.experiment.interrupt import DeferredInterrupt, WallClock, WallTimeOver
from simkit.experiment.policy import (
    build_policy,
    build_predictor,
    cluster_problems,
    scenario_problems,
)
from simkit.experiment.warnings import (
    estimates_info,
    estimates_warnings,
    late_warnings,
    switches_warning,
    unasked_warnings,
    unit_warnings,
)
from simkit.experiment.workload import TraceMemory, read_trace
from simkit.machine_code import is_kept
from simkit.plugins import author_traceback, instantiate, lines_of_author
from simkit.policy import Policy
from simkit.policy.declared import FitRule, PoolRule, declared_metrics
from simkit.policy.estimates import Predictor
from simkit.progress import RunProgress
from simkit.records import TABLES
from simkit.results.all_metrics import build_metrics, failures, measure
from simkit.results.custom_metrics import CustomMetric
from simkit.results.metric import check_trimming
from simkit.results.run_folder import Run
from simkit.results.run_info import first_info, peak_memory_bytes
from simkit.results.run_writer import FailedRunError, MemoryWriter, RunWriter
from simkit.rules import Limits
from simkit.scenario import ProcessSection, Scenario, refuse_sweep
from simkit.scenario.cluster import ClusterSection
from simkit.scenario.policy import RecordedPolicy, policies_in
from simkit.sections import or_infinite
from simkit.units import format_duration
from simkit.workload import RowReport, Trace, Workload
from simkit.workload.cluster import Cluster, fill_whole_memory
from simkit.workload.recorded import Past
from simkit.workload.workload import Span

if TYPE_CHECKING:
    from simkit.power.site import Site
    from simkit.scenario.power import Power

Watch = Callable[[Simulation], None]
"""Is called after every decision, e.g. to show progress."""


@dataclass(frozen=True)
class Experiment:
    """Everything that a run needs, built and checked; nothing has been simulated yet."""

    scenario: Scenario
    trace: Trace
    cluster: Cluster
    policy: Policy
    predictor: Predictor
    build_processes: Callable[[], Sequence[ProcessLike]] = tuple
    """Returns the user's processes, which run next to the engine's; called for each simulation."""
    site: Site | None = None
    """Its site; None if power is not modelled."""
    wall_time_s: dict[str, float] = field(default_factory=dict)
    """Phase → seconds it took."""
    given: tuple[str, ...] = ()
    """Parts of the scenario that Python objects took the place of, so that its hash says nothing
    about them; see `run_info.identity`."""
    custom: tuple[CustomMetric, ...] = ()
    """The user's metrics."""
    past: Past | None = None
    """The recorded starts, if the policy replays them; it counts there what started later."""
    warnings: tuple[str, ...] = ()
    """What a reader of the results must know before the run."""
    engine: Chosen = field(default_factory=lambda: Chosen("simpy", ""))
    """What replays it."""


def prepare(
    scenario: Scenario,
    *,
    policy: Policy | None = None,
    workload: Workload | None = None,
    cluster: Cluster | None = None,
    processes: Sequence[ProcessLike] | None = None,
    metrics: Sequence[Callable[..., Any]] = (),
    memory: TraceMemory | None = None,
) -> Experiment:
    """Read the trace and build cluster, policy and predictor of a scenario.

    Args:
        scenario: without a sweep.
        policy: takes the place of the scenario's.
        workload: takes the place of the scenario's and its transforms.
        cluster: takes the place of the scenario's.
        processes: take the place of the scenario's; every simulation gets these objects.
        metrics: functions of the user, besides the metrics of the scenario.
        memory: keeps the log that is read, for the next experiments.

    Raises ScenarioError, PluginError, TraceError, PolicyError or RunError (settings of the metrics
    that leave nothing to measure); nothing has been written then.
    """
    refuse_sweep(scenario)
    check_before_reading(scenario)
    given = given_objects(policy=policy, workload=workload, cluster=cluster, processes=processes)
    past = _past_of(scenario) if policy is None else None
    chosen = build_policy(scenario, past) if policy is None else policy
    build = process_builder(scenario) if processes is None else partial(tuple, processes)
    predictor = build_predictor(scenario)
    custom = build_metrics(scenario, metrics)
    begin = perf_counter()
    if workload is None:
        resources = scenario.cluster.resources if cluster is None else cluster.resources
        trace = read_trace(
            scenario.workload, scenario.seed, scenario.value, memory, resources,
            scenario.limits.jobs, recorded=past is not None,
        )  # fmt: skip
    else:
        if scenario.value is not None and not len(workload.value):
            workload = scenario.value.build(workload, scenario.seed)
        trace = Trace(workload, RowReport(read=len(workload), accepted=len(workload)))
    if cluster is None:
        cluster = scenario.cluster.build(trace.workload)
    workload = cluster.with_limits(fill_whole_memory(trace.workload, cluster))
    trace = replace(trace, workload=workload)
    if past is not None:
        past.fill(workload)
    check_requests(trace.workload, cluster)
    _check_trimming(scenario, trace.workload)
    check_before_running(scenario, trace.workload, cluster, Span.of(trace.workload))
    site = None
    if scenario.power is not None:
        site = scenario.power.build(cluster, trace.workload, scenario.seed, scenario.limits.steps)
    problems = scenario_problems(chosen, scenario)
    problems += cluster_problems(
        chosen, cluster, scenario if policy is None else None, trace.workload
    )
    problems += _site_problems(chosen, site)
    if problems:
        raise ScenarioError(problems)
    warnings = (
        *estimates_warnings(scenario, trace, chosen),
        *unit_warnings(scenario, trace, cluster),
        *unasked_warnings(scenario, trace, cluster),
        *(() if site is None else site.warnings),
    )
    times = {"read": perf_counter() - begin}
    others = [] if site is None else ["power is modelled"]
    if scenario.processes or processes:
        others.append("processes of the user run")
    engine = choose(scenario.engine, chosen, trace.workload, cluster, scenario, predictor, others)
    return Experiment(
        scenario, trace, cluster, chosen, predictor, build, site, times, given, custom, past,
        warnings, engine,
    )  # fmt: skip


def _site_problems(policy: Policy, site: Site | None) -> list[str]:
    """Return what the policy, and the site's controller, need and the site lacks."""
    if site is None and not hasattr(policy, "check_site"):
        return []
    from simkit.power.site import controller_problems, policy_problems

    controllers = [] if site is None else controller_problems(site)
    return policy_problems(policy, site) + controllers


def _past_of(scenario: Scenario) -> Past | None:
    """Return what carries recorded starts to the policy; None if it does not replay any."""
    replayed = any(isinstance(one, RecordedPolicy) for one in policies_in(scenario.policy))
    return Past() if replayed else None


def given_objects(**parts: object) -> tuple[str, ...]:
    """Return the names of the parts that were given, which are not None."""
    return tuple(name for name, one in parts.items() if one is not None)


def carry_out(
    experiment: Experiment,
    output: str | PathLike[str] | None = None,
    *,
    watch: Watch | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Run:
    """Run an experiment and return its results.

    Args:
        experiment: from `prepare`; its policy, predictor and the scenario's processes start afresh.
        output: the run folder to write; None keeps the records in memory and writes nothing.
        watch: see `Watch`.
        force: also replace another run than one of the same scenario after defaults, or write to a
            folder that holds other files.
        quiet: leave it to the caller to tell ``run.info["warnings"]``; else each of them is given
            as a `SimkitWarning` after the run.

    Raises RunError if the folder cannot be used or written, PolicyError if the policy breaks a
    rule or fails, LimitError if a limit stops the run. After an error or an interruption the
    folder keeps the rows so far and says so; a finished run that was there stays, and the rows so
    far are in the folder ``unfinished`` of it.
    """
    info = first_info(
        experiment.scenario, experiment.trace, experiment.cluster, experiment.site,
        given=experiment.given,
    )  # fmt: skip
    info["estimates"] = estimates_info(
        experiment.scenario, experiment.trace.workload, experiment.policy
    )
    info["warnings"] = list(experiment.warnings)
    info["engine"] = {"name": experiment.engine.name, "why": experiment.engine.why}
    store = MemoryWriter(info) if output is None else RunWriter(Path(output), info, force=force)
    times = dict(experiment.wall_time_s)
    with _accounted_for(store):
        with _timed(times, "simulate"):
            simulation = _simulate(experiment, store, watch)
        times["simulate"] -= store.wall_time_s  # spent in between by the recorder
        store.close_tables()
        if experiment.site is not None:
            from simkit.results.energy_bills import energy_table

            with _timed(times, "bills"):
                store.write("energy", energy_table(store.results(), experiment.site.models))
                store.close_tables()
        times["write"] = store.wall_time_s
        with _timed(times, "metrics"):
            results = store.results()
            results.metrics = measure(
                results, experiment.scenario, experiment.custom, declared_metrics(experiment.policy)
            )
            results.info["decisions"] = simulation.decisions_made
            late = [
                *late_warnings(results, experiment.policy), *failures(results.metrics)
            ]  # fmt: skip
            if times_s := getattr(experiment.policy, "switch_times_s", ()):
                late += filter(None, [switches_warning(times_s, results)])
        by_simpy = isinstance(simulation, Simulation)
        if by_simpy and experiment.engine.rule is not None:
            results.info["engine"] = {"name": "simpy", "why": "every decision is watched"}
        last: dict[str, Any] = {
            "engine": results.info["engine"],
            "decisions": simulation.decisions_made,
            "warnings": [*info["warnings"], *late],
            "wall_time_s": {name: round(seconds, 6) for name, seconds in times.items()},
            "peak_memory_bytes": peak_memory_bytes(),
        }
        if experiment.past is not None:
            last["recorded"] = experiment.past.facts()
        if experiment.site is not None:
            last["power"] = _facts_of_power(experiment.site, simulation)
        run = store.complete(last, results.metrics)
        run.custom = experiment.custom
    if not quiet:
        warn_of(run.info["warnings"])
    return run


def replay(experiment: Experiment, tables: Collection[str]) -> Run:
    """Run an experiment in memory for some of a recorder's tables alone.

    There are no metrics, no digest and no hashes of the inputs.

    Raises PolicyError if the policy breaks a rule or fails.
    """
    trace, cluster = experiment.trace, experiment.cluster
    info = first_info(experiment.scenario, trace, cluster, experiment.site, hashed=False)
    store = MemoryWriter(info, digested=False)
    _simulate(experiment, store, None, tables)
    store.close_tables()
    return store.results()


def _facts_of_power(site: Site, simulation: Replayed) -> dict[str, float | str]:
    """Return the facts about a site and what each source generated in the run."""
    assert isinstance(simulation, Simulation)
    assert simulation.power is not None
    start_s, end_s = simulation.power.started_s, simulation.now
    generated = site.generation_kwh(start_s, end_s)
    return {
        **site.facts,
        **{f"sources.{name}.generation_kwh": kwh for name, kwh in generated.items()},
    }


def _check_trimming(scenario: Scenario, workload: Workload) -> None:
    """Raise RunError if the metrics would leave out all jobs."""
    if len(workload):
        first, last = float(workload.submit_time_s[0]), float(workload.submit_time_s[-1])
        settings = scenario.metrics
        check_trimming(first, last, settings.warmup, settings.cooldown)


def compiles_first(experiment: Experiment) -> list[str]:
    """Return a note if the run must wait for its engine to be compiled; empty if it need not."""
    rule = experiment.engine.rule
    if rule is None or is_kept(module_of(rule)):
        return []
    return ["the compiled engine is being made for this machine: some 10 s, once"]


class Replayed(Protocol):
    """What has replayed a run, at its end."""

    @property
    def decisions_made(self) -> int:
        """How many decisions were made."""

    @property
    def now(self) -> float:
        """The time on the trace's clock, in s."""


def _simulate(
    experiment: Experiment,
    store: MemoryWriter | RunWriter,
    watch: Watch | None,
    tables: Collection[str] = TABLES,
) -> Replayed:
    """Run the simulation, compiled if its engine is; only a progress bar may miss decisions."""
    workload, resources = experiment.trace.workload, experiment.cluster.resources
    rule = experiment.engine.rule
    if rule is not None and (watch is None or isinstance(watch, RunProgress)):
        recorder = Recorder(workload, resources, store, tables)
        done = _replay_compiled(experiment, rule, recorder)
        if done is not None:
            return done
        store.start_over()
    return _simulate_events(experiment, Recorder(workload, resources, store, tables), watch)


def _replay_compiled(
    experiment: Experiment, rule: PoolRule | FitRule, recorder: Recorder
) -> Replayed | None:
    """Run the compiled engine; if it stops early, its recorder still writes its rows.

    Returns None if SimPy must run after all; what was written is then worth nothing.
    """
    from simkit.compiled.bags import replay_bags_of  # takes a while, as does the other
    from simkit.compiled.replay import replay_pool

    scenario = experiment.scenario
    with DeferredInterrupt() as interrupt, WallClock(scenario.limits.wall_time) as clock:
        reached = -math.inf

        def after_part(now: float) -> None:
            nonlocal reached
            reached = now
            if interrupt.requested:
                raise KeyboardInterrupt
            if clock.over:
                raise WallTimeOver

        try:
            with blaming(experiment, lambda: "in the compiled engine"):
                replayed: Any = replay_bags_of if isinstance(rule, FitRule) else replay_pool
                done: Replayed | None = replayed(
                    experiment.policy, rule, experiment.trace.workload, experiment.cluster,
                    recorder, rules=scenario, predictor=experiment.predictor, seed=scenario.seed,
                    correction=scenario.estimates.correction, after_part=after_part,
                )  # fmt: skip
                return done
        except FailedRunError:
            raise
        except WallTimeOver as over:
            recorder.close()
            raise _out_of_time(over, experiment, reached) from None
        except BaseException:
            recorder.close()
            raise


def _simulate_events(experiment: Experiment, recorder: Recorder, watch: Watch | None) -> Simulation:
    """Run the simulation by SimPy; if it stops early, its recorder still writes its rows."""
    with blaming(experiment, lambda: "before the first job"):
        simulation = Simulation(
            experiment.trace.workload,
            experiment.cluster,
            recorder,
            rules=experiment.scenario,
            predictor=experiment.predictor,
            correction=experiment.scenario.estimates.correction,
            seed=experiment.scenario.seed,
            site=experiment.site,
            processes=experiment.build_processes(),
        )
    limit_s = experiment.scenario.limits.wall_time
    with DeferredInterrupt() as interrupt, WallClock(limit_s) as clock:

        def after_decision(_now: float) -> None:
            if interrupt.requested:
                raise KeyboardInterrupt
            if clock.over:
                raise WallTimeOver
            if watch is not None:
                watch(simulation)

        try:
            with blaming(experiment, lambda: f"at {simulation.now:g} s"):
                simulation.run(experiment.policy, experiment.scenario.seed, after_decision)
        except FailedRunError:
            raise
        except WallTimeOver as over:
            simulation.close()
            raise _out_of_time(over, experiment, simulation.now) from None
        except BaseException:
            simulation.close()
            raise
    return simulation


def _out_of_time(over: WallTimeOver, experiment: Experiment, now: float) -> LimitError:
    """Return the error of a simulation that took too long, with the line the policy was at."""
    limit_s = experiment.scenario.limits.wall_time
    assert limit_s is not None
    lines = lines_of_author(over, experiment.policy)
    text = (
        f"limits.wall_time: after {format_duration(limit_s)} of real time the simulation is at "
        f"{now:g} s; if the policy does not return from schedule, correct it, else raise "
        "limits.wall_time"
    )
    return LimitError("\n".join([text, *lines]))


@contextmanager
def blaming(experiment: Experiment, when: Callable[[], str]) -> Iterator[None]:
    """Turn an exception or exit that comes from the author of something that the run calls."""
    try:
        yield
    except (SimkitError, KeyboardInterrupt):
        raise
    except BaseException as error:
        authors: list[tuple[str, object]] = [("", experiment.policy)]
        authors.append(("the estimator ", experiment.predictor))
        if (site := experiment.site) is not None:
            from simkit.power.signal import parts_of

            authors.append(("the controller ", site.controller))
            signals = [part for whole in site.signals for part in parts_of(whole)]
            authors += [("the signal ", part) for part in reversed(signals)]  # the innermost first
        for role, owner in authors:
            what = f"{role}{type(owner).__name__} failed {when()}"
            if text := author_traceback(error, owner, what):
                raise PolicyError(text) from error
        if not isinstance(error, Exception):  # an exit must not end the run with its own code
            name = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise PolicyError(f"code that the run calls left it {when()} with {name}") from error
        raise


@contextmanager
def _accounted_for(store: MemoryWriter | RunWriter) -> Iterator[None]:
    """Mark a run that does not finish."""
    try:
        yield
    except FailedRunError:
        raise  # the folder says so already
    except LimitError as error:
        store.abandon("stopped", str(error), _last_words())
        raise
    except KeyboardInterrupt:
        store.abandon("interrupted", "interrupted by the user", _last_words())
        raise
    except BaseException as error:
        with suppress(OSError):
            store.abandon("failed", str(error) or type(error).__name__, _last_words())
        raise


def _last_words() -> dict[str, Any]:
    return {"peak_memory_bytes": peak_memory_bytes()}


@contextmanager
def _timed(times: dict[str, float], phase: str) -> Iterator[None]:
    begin = perf_counter()
    try:
        yield
    finally:
        times[phase] = perf_counter() - begin


def process_builder(scenario: Scenario) -> Callable[[], list[ProcessLike]]:
    """Return a function that builds fresh processes of the scenario, one set for each simulation.

    The function has been called once, as a check: PluginError is raised for a file or class that is
    not there, ScenarioError for arguments that it does not take and for what is not a process.
    """
    factories = []
    for number, section in enumerate(scenario.processes):
        made_by = plugins.find("simkit.processes", section.path)
        if inspect.isgeneratorfunction(made_by):
            made_by = _of_function(made_by)
        factories.append((f"processes.{number}: {section.path!r}", made_by, section.args))

    def build() -> list[ProcessLike]:
        # A process may change its arguments, such as a list of machines, so it gets copies.
        return [
            checked_process(instantiate(what, made_by, deepcopy(arguments)), what)
            for what, made_by, arguments in factories
        ]

    build()
    return build


def _of_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes a process of a generator function, whose first argument is the view."""

    def make(**arguments: Any) -> partial[Any]:
        return partial(function, **arguments)

    signature = inspect.signature(function)
    rest = list(signature.parameters.values())[1:]
    make.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    return make


def checked_process(process: Any, what: str = "processes") -> ProcessLike:
    """Return what was given if it is a process; a class is instantiated without arguments.

    Raises ScenarioError otherwise.
    """
    if isinstance(process, type):
        process = instantiate(f"{what}: {process.__name__!r}", process, {})
    function = process.func if isinstance(process, partial) else process
    if not inspect.isgeneratorfunction(function) and not callable(getattr(process, "run", None)):
        raise ScenarioError(
            f"{what}: {type(process).__name__} is not a process; it needs a method run(view) that "
            "yields events, such as view.timeout(60)"
        )
    checked: ProcessLike = process
    return checked


def recorded_processes(processes: Sequence[ProcessLike]) -> tuple[ProcessSection, ...]:
    """Return how run.json names processes that are Python objects."""
    names = []
    for process in processes:
        made = process.func if isinstance(process, partial) else process
        kind = made if inspect.isfunction(made) else type(made)
        names.append(f"{kind.__module__}:{kind.__qualname__}")
    return tuple(ProcessSection.model_construct(path=name, args={}) for name in names)


class Size(NamedTuple):
    """How many things a key makes, estimated before any of it is made.

    A count of 10⁸ or a period of a microsecond is quickly written, and takes gigabytes or days.
    """

    key: str
    """Dotted place of the key."""
    amount: float
    noun: str
    limit: str
    """The key of `limits` that it is compared with."""
    remedy: str = "use fewer"

    def problem(self, limits: Limits) -> str:
        """Return what is wrong, and the remedies; empty if the limit is kept."""
        most = or_infinite(getattr(limits, self.limit))
        if self.amount <= most:
            return ""
        return (
            f"{self.key}: makes {self.amount:,.0f} {self.noun}, and at most {most:,.0f} are "
            f"allowed; {self.remedy}, or raise limits.{self.limit}"
        )


def refuse_beyond(sizes: Iterable[Size], limits: Limits) -> None:
    """Raise ScenarioError for sizes above their limits, all at once."""
    if problems := [text for size in sizes if (text := size.problem(limits))]:
        raise ScenarioError(problems)


def check_before_reading(scenario: Scenario) -> None:
    """Refuse what the scenario alone makes too large: jobs of a model, machines, forecasts."""
    refuse_beyond(
        [*_of_workload(scenario), *_of_cluster(scenario.cluster), *_of_forecast(scenario.power)],
        scenario.limits,
    )


def _of_workload(scenario: Scenario) -> Iterator[Size]:
    for key, (count, noun) in scenario.workload.derived().items():
        yield Size(f"workload.{key}", count, noun, "jobs")


def _of_cluster(section: ClusterSection) -> Iterator[Size]:
    """Yield the machines, and the pairs of windows or partitions and machines that are kept."""
    groups = section.machines or ()
    total = sum(group.count for group in groups)
    largest = max(range(len(groups)), key=lambda row: groups[row].count, default=0)
    yield Size(f"cluster.machines.{largest}.count", total, "machines in all", "machines")
    of_group = {group.name: group.count for group in groups}
    for key, parts in (("maintenance", section.maintenance), ("partitions", section.partitions)):
        pairs = sum(
            sum(of_group.get(name, 1) for name in part.machines) if part.machines else total
            for part in parts
        )
        yield Size(f"cluster.{key}", pairs, f"pairs of {key} and machines", "steps")


def _of_forecast(section: Power | None) -> Iterator[Size]:
    if section is None or section.forecast is None:
        return
    forecast = section.forecast
    steps = math.ceil(forecast.horizon / forecast.step)
    longer = "use a longer step or a shorter horizon"
    yield Size("power.forecast.step", steps, "steps of each forecast", "steps", longer)
    if forecast.type == "noisy":
        from simkit.power.forecast import ERROR_STEP_S

        drawn = forecast.horizon / ERROR_STEP_S
        yield Size("power.forecast.horizon", drawn, "errors of each forecast", "steps", longer)


def check_before_running(
    scenario: Scenario, workload: Workload, cluster: Cluster, span: Span
) -> None:
    """Refuse bags of too many instances, and periods too short for the time that the jobs take.

    Args:
        scenario: with its cluster's keys.
        workload: its jobs.
        cluster: its machines.
        span: from the run's start until the last job can end at the earliest.
    """
    length_s = min(span.last_s - span.first_s, or_infinite(scenario.limits.simulated_time))
    if len(workload):
        sizes = [*_of_bags(workload), *_of_periods(scenario, cluster, length_s)]
        refuse_beyond(sizes, scenario.limits)


def _of_bags(workload: Workload) -> Iterator[Size]:
    """Yield the instances that start one by one; those of a gang are placed together."""
    instances = workload.instances[~workload.gang].sum(dtype=float)
    fewer = "use fewer or smaller tasks"
    yield Size("workload", instances, "instances of bags", "instances", fewer)


def _of_periods(scenario: Scenario, cluster: Cluster, length_s: float) -> Iterator[Size]:
    longer = "use a longer period"
    if (step := scenario.scheduling.step) is not None:
        yield Size("scheduling.step", length_s / step, "decisions", "steps", longer)
    if scenario.cluster.maintenance:
        changes = sum(
            2 * length_s / window.every_s for window in cluster.recurring if window.every_s
        )
        key = "cluster.maintenance"
        yield Size(key, changes, "changes of machines", "steps", longer)
    if cluster.failures is not None:
        cycle_s = cluster.failures.mtbf + cluster.failures.mttr
        machines = len(cluster.machine_names if cluster.failing is None else cluster.failing)
        changes = 2 * machines * length_s / cycle_s
        yield Size("cluster.failures", changes, "changes of machines", "steps", longer)
