"""The scenario file: reads a scenario from YAML, reports every problem with its line, writes it.

    s.yaml:3: workload.proccessors: unknown key; did you mean 'processors'?
    s.yaml:9: policy.backfill: 'eazy' is not known as a backfilling rule; did you mean 'easy'?

Relative paths in a scenario start from its folder, and ``${NAME}`` in a path is the environment
variable. `yaml_lines` knows the line of each key, `simkit.sections` says what is wrong.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from simkit import plugins
from simkit.errors import PluginError, ScenarioError
from simkit.scenario import SWEEP_REFUSAL, Scenario
from simkit.scenario.bundled import find_scenario
from simkit.scenario.overrides import (
    cut_at_scalar,
    dotted,
    set_value,
    split_key,
    starts_with,
    without_listed,
)
from simkit.scenario.references import PATHS_ALONE, Context, PluginName, check_file
from simkit.scenario.yaml_lines import LARGEST_FILE, Values, from_python, parse_yaml
from simkit.sections import MOST, KeyPath, Problem, Unit, mark_of, problems_of, shown
from simkit.text import shortened
from simkit.units import format_duration

if TYPE_CHECKING:
    from simkit.power.signal_trace import PowerTrace


@dataclass(frozen=True)
class ScenarioText:
    """A scenario that was read already, such as from standard input."""

    text: bytes
    """YAML; its relative paths start from the working folder."""
    label: str
    """What stands for the file in messages: ``<stdin>``."""

    def __str__(self) -> str:
        return self.label


Source = str | os.PathLike[str] | ScenarioText | Mapping[str, Any] | Scenario
"""A file, the name of a bundled scenario, its text, a mapping as in a file, or a `Scenario`."""


def load_scenario(
    source: Source,
    *,
    overrides: Mapping[str, object] | None = None,
    single: bool = False,
    allow_code: bool = True,
) -> Scenario:
    """Read and check a scenario.

    Args:
        source: path of a YAML file, the name of a bundled scenario, a text that was read already,
            a mapping of the same form (the relative paths of both start from the working
            directory), or a `Scenario`.
        overrides: dotted path → value, laid over the source: ``{"policy.order": "sjf"}``; its
            relative paths start from where those of the source do.
        single: refuse a scenario with a `sweep`, which stands for several runs.
        allow_code: False refuses a scenario that names code, ``my_policy.py:Mine`` or
            ``package.module:attribute``. No code is run here, but everything that goes on with the
            scenario runs it.

    Returns:
        The scenario after defaults, its paths absolute. The plug-ins it names are known, but not
        imported; `check_names` does that. `simkit.experiment.sweep.expand_sweep` checks a sweep.

    Raises ScenarioError with all problems, each with file, line and dotted path.
    """
    document = Document.read(source, overrides, allow_code=allow_code)
    scenario = document.scenario()
    if single and scenario.sweep:
        raise ScenarioError(document.error_lines([Problem(("sweep",), SWEEP_REFUSAL)]))
    return scenario


def check_names(scenario: Scenario) -> list[str]:
    """Import every plug-in that the scenario names; return ``dotted.path: problem`` lines."""
    problems = []
    for path, plugin, name in _plugin_names(scenario, ()):
        try:
            plugins.find(plugin.group, name, kind=plugin.kind)
        except PluginError as error:
            problems.append(f"{dotted(path)}: {error}")
    return problems


def locate_problems(
    problems: Iterable[str], source: Source, overrides: Mapping[str, object] | None = None
) -> list[str]:
    """Return problems that were found after loading, with file and line as `load_scenario` does.

    Args:
        problems: ``dotted.path: text`` each; a text without a key of the scenario gets no line.
        source: what was loaded.
        overrides: what was laid over it.
    """
    document = Document.read(source, overrides)
    located, others, data = [], [], document.laid_over({}, [])
    for problem in problems:
        key, _, text = problem.partition(": ")
        path = without_listed(split_key(key), data)
        if text and path[0] in Scenario.model_fields:
            found = Problem(path, text, document.swept_line(path))
            located.append(found if found.line else document.caused(found))
        else:
            others.append(f"{document.label}: {problem}" if document.label else problem)
    return [*document.error_lines(located), *others]


@contextmanager
def problems_located(
    source: Source, overrides: Mapping[str, object] | None = None
) -> Iterator[None]:
    """Give file and line to a ScenarioError that is raised inside; see `locate_problems`."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError(locate_problems(error.problems, source, overrides)) from error


@dataclass
class Document:
    """A scenario as written: validates it, and says on which line it is wrong."""

    label: str
    """The file as the user named it; empty for a mapping."""
    base: Path
    """Folder that relative paths start from."""
    values: Values
    """What the source says."""
    overrides: dict[KeyPath, Any] = field(default_factory=dict)
    """Path → value laid over it."""
    check_name: Callable[[str, str, str | None], None] = field(default_factory=plugins.name_checker)
    allow_code: bool = True
    """Whether the scenario may name code."""
    _of_one_run: bool = False

    @classmethod
    def read(
        cls,
        source: Source,
        overrides: Mapping[str, object] | None = None,
        *,
        allow_code: bool = True,
    ) -> Document:
        """Read a file or a mapping; raises ScenarioError for a file that is not YAML."""
        laid_over = from_python(dict(overrides or {}))
        if isinstance(source, Scenario):
            source = source.model_dump(mode="json")
        if isinstance(source, Mapping):
            document = cls("", Path.cwd(), from_python(source))
        elif isinstance(source, ScenarioText):
            document = cls(source.label, Path.cwd(), parse_yaml(source.text, source.label))
        elif not isinstance(source, str | os.PathLike):
            raise ScenarioError(
                "a scenario is a YAML file, the name of a bundled one, a mapping or a Scenario, "
                f"not {shown(source)}"
            )
        else:
            path = find_scenario(os.fspath(source))
            label = str(source) if path == Path(source).expanduser() else str(path)
            document = cls(label, path.parent.absolute(), _read_file(path, label))
        document.allow_code = allow_code
        document.overrides = {split_key(path): value for path, value in laid_over.data.items()}
        for problem in laid_over.problems:
            key, *below = problem.path
            place = (*split_key(str(key)), *below)
            document.values.problems.append(Problem(place, problem.text))
        return document

    def scenario(self) -> Scenario:
        """Return the scenario with overrides and defaults, or raise ScenarioError."""
        problems = list(self.values.problems)
        data = self.laid_over({}, problems)
        scenario, found = self.validate(data)
        known = {problem.path for problem in problems if problem.line is None}
        problems += self._with_causes(problem for problem in found if problem.path not in known)
        if scenario is None or problems:
            raise ScenarioError(self.error_lines(problems))
        return scenario

    def laid_over(self, assignment: Mapping[KeyPath, Any], problems: list[Problem]) -> Any:
        """Return the data with an assignment, then the overrides, put in; add what fails."""
        data = deepcopy(self.values.data)
        if not isinstance(data, dict):
            return data
        for path, value in [*assignment.items(), *self.overrides.items()]:
            if self._of_one_run and path[0] == "sweep":
                continue
            try:
                set_value(data, path, deepcopy(value))
            except ValueError as error:
                problems.append(Problem(path, str(error)))
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(self.label).stem).strip("-.")
        return data if "name" in data or not stem else {"name": stem} | data

    def forget_sweep(self) -> None:
        """Leave what is swept out of the data: each run has one value, and would copy all."""
        if isinstance(self.values.data, dict):
            self.values.data = {k: v for k, v in self.values.data.items() if k != "sweep"}
        self._of_one_run = True

    def validate(self, data: Any) -> tuple[Scenario | None, list[Problem]]:
        """Return the scenario, or what is wrong with the data."""
        context = Context(self.base, self.check_name, self.allow_code)
        try:
            return Scenario.model_validate(data, context=context), []
        except ValidationError as error:
            found = problems_of(error, Scenario)
            return None, [_hinted(p._replace(path=cut_at_scalar(p.path, data))) for p in found]

    def error_lines(self, problems: Iterable[Problem]) -> list[str]:
        """Return ``file:line: dotted.path: text`` of each problem, in order of the file's lines.

        Problems of overrides have no line and come last. Where the path does not say which override
        it is, its own key stands before: ``override policy.fitness: policy.order: …``.
        """
        found = []
        for problem in problems:
            place, line = "override", None
            if problem.cause:
                place = f"override {dotted(problem.cause)}"
            elif not self._is_overridden(problem.path):
                line = problem.line or self.values.line(problem.path)
                place = f"{self.label}:{line}" if self.label else ""
            parts = (place, dotted(problem.path), problem.text)
            found.append((line is None, line or 0, ": ".join(part for part in parts if part)))
        found.sort(key=lambda entry: entry[:2])
        lines = list(dict.fromkeys(shortened(text) for *_, text in found))
        more = ": ".join(filter(None, (self.label, "there are more problems; correct these first")))
        return lines if len(lines) < MOST else [*lines[:MOST], more]

    def swept_line(self, path: KeyPath) -> int | None:
        """Return the line of the sweep's key that sets the path; None if none does."""
        swept = self.values.data.get("sweep") if isinstance(self.values.data, dict) else None
        for key in swept or ():
            if starts_with(path, split_key(key)):
                return self.values.line(("sweep", key))
        return None

    def caused(self, problem: Problem) -> Problem:
        """Return a problem found after loading, with the override below its path, if any.

        An override at another path is no cause: what the source says may be wrong without it.
        """
        below = [laid for laid in self.overrides if starts_with(laid, problem.path)]
        if self._is_overridden(problem.path) or not below:
            return problem
        for laid in below:
            if isinstance(value := self.overrides[laid], str) and value and value in problem.text:
                return problem._replace(path=laid)  # it names the override's file: one place tells
        return problem._replace(cause=below[0])

    def _with_causes(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Yield problems with the nearest override, if the source alone does not have them."""
        own: set[tuple[KeyPath, str]] | None = None
        for problem in problems:
            near = [laid for laid in self.overrides if laid[:1] == problem.path[:1]]
            if not near or self._is_overridden(problem.path):
                yield problem
                continue
            if own is None:
                own = {found[:2] for found in self.validate(deepcopy(self.values.data))[1]}
            if problem[:2] in own:
                yield problem
                continue
            nearest = max(near, key=lambda laid: _shared_keys(laid, problem.path))
            *section, key = nearest
            text = problem.text
            if section and text.startswith("does not go with"):  # keys of two forms are mixed
                text += f"; to replace them, set {dotted(tuple(section))}={{{key}: …}}"
            yield problem._replace(text=text, cause=nearest)

    def _is_overridden(self, path: KeyPath) -> bool:
        """Return whether an override is at or above the path, or alone made what holds it."""
        above = (path[:depth] for depth in range(1, len(path) + 1))
        absent = next((head for head in above if head not in self.values.lines), ())
        return any(
            starts_with(path, laid) or (absent and starts_with(laid, absent))
            for laid in self.overrides
        )


def _shared_keys(one: KeyPath, other: KeyPath) -> int:
    """Return how many keys two paths have in common, from the top."""
    return sum(starts_with(one, other[:depth]) for depth in range(1, len(other) + 1))


def _read_file(path: Path, label: str) -> Values:
    try:
        check_file(path.absolute())
        with path.open("rb") as file:
            return parse_yaml(file.read(LARGEST_FILE + 1), label)
    except ValueError as error:
        raise ScenarioError(f"{label}: {error}") from error
    except OSError as error:
        raise ScenarioError(f"{label}: cannot be read: {error.strerror}") from error


def _hinted(problem: Problem) -> Problem:
    """Return the problem, with a remark if its value has a variable that was not expanded."""
    if "${" not in problem.text or "environment variable" in problem.text:
        return problem
    return problem._replace(text=f"{problem.text} ({PATHS_ALONE})")


def _plugin_names(model: BaseModel, path: KeyPath) -> Iterator[tuple[KeyPath, PluginName, str]]:
    """Yield (path, mark, name) of every plug-in that a model names."""
    for key, info in type(model).model_fields.items():
        value = getattr(model, key)
        plugin = mark_of(info, PluginName)
        if isinstance(value, BaseModel):
            yield from _plugin_names(value, (*path, key))
        elif plugin and isinstance(value, str):
            yield (*path, key), plugin, value


_LONG_S = 60.0
"""Longer durations are also written as days and hours."""


def scenario_to_yaml(scenario: Scenario) -> str:
    """Return YAML that `load_scenario` reads back to an equal scenario."""
    data = _section(scenario, scenario.model_dump(mode="json"))
    if not scenario.sweep:
        del data["sweep"]
    yaml, text = YAML(), StringIO()
    yaml.width = 4096  # no folding of long paths
    yaml.representer.add_representer(type(None), _represent_null)
    yaml.dump(data, text)
    return text.getvalue()


def _section(model: BaseModel, data: dict[str, Any]) -> CommentedMap:
    """Return the dumped data of a model as a mapping with comments."""
    section = CommentedMap()
    for key, value in data.items():
        section[key] = _value(getattr(model, key), value)
        info = type(model).model_fields.get(key)
        unit = mark_of(info, Unit) if info else None
        if unit and isinstance(value, float):
            long = f" = {format_duration(value)}" if abs(value) >= _LONG_S else ""
            section.yaml_add_eol_comment(f"{unit.symbol}{long}", key)
    return section


def _value(value: Any, data: Any) -> Any:
    if isinstance(value, BaseModel) and isinstance(data, dict):
        return _section(value, data)
    if isinstance(data, list) and any(isinstance(part, BaseModel) for part in value):
        return [_value(part, row) for part, row in zip(value, data, strict=True)]
    return data


def _represent_null(representer: Any, _: None) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:null", "null")


def read_signal_file(keys: Mapping[str, Any]) -> PowerTrace:
    """Read the trace of a recorded signal without a run.

    Args:
        keys: as in a scenario, with `type`; relative paths start from the working directory.

    Raises ScenarioError with all problems of the keys, TraceError for the file, SimkitError if
    pvlib or windpowerlib is needed and missing. Messages name the keys.
    """
    from simkit.scenario.signals import SIGNALS, RecordedSignal, SignalPlace

    kinds = SIGNALS.classes().items()
    recorded = [name for name, kind in kinds if issubclass(kind, RecordedSignal)]
    if (name := str(keys.get("type"))) not in recorded:
        known = ", ".join(sorted(recorded))
        raise ScenarioError(f"type: {name} is not read from a file; known: {known}")
    data = {"signal": dict(keys)}
    try:
        signal = SignalPlace.model_validate(
            data, context=Context(Path.cwd(), plugins.name_checker())
        ).signal
    except ValidationError as error:
        problems = [
            (cut_at_scalar(problem.path, data), problem.text)
            for problem in problems_of(error, SignalPlace)
        ]
        # each path begins with the name of the only field
        lines = [": ".join([*filter(None, [dotted(path[1:])]), text]) for path, text in problems]
        raise ScenarioError(dict.fromkeys(lines)) from error
    assert isinstance(signal, RecordedSignal)
    return signal.trace()
