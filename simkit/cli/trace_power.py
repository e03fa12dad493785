"""The command `simkit trace power`: inspect a file of power, weather, carbon or prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.options import AsJson

if TYPE_CHECKING:
    from simkit.workload import RowReport


def power(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="csv, gleamm, gleamm-sample, nsrdb, wind-toolkit, epw-solar, epw-wind, "
            "epw-temperature, generation, carbon, price, plugin, or a type that an installed "
            "package adds.",
            show_default=False,
        ),
    ],
    path: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The file, plain or .gz.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A key that this type of signal has in a scenario, such as --set unit=kW. May be "
            "given repeatedly.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a file of power, carbon or prices holds: unit, zone, step, span, gaps and size."""
    from simkit import plugins
    from simkit.cli.text import print_json, warn
    from simkit.scenario.overrides import parse_overrides
    from simkit.scenario.yaml_document import read_signal_file

    keys: dict[str, Any] = {"type": kind} | parse_overrides(settings or ())
    if path is not None:
        keys["path"] = str(path)
    trace = read_signal_file(keys)
    facts = plugins.find("simkit.tools", "trace.power")(trace)
    if as_json:
        print_json(facts)
    else:
        print_power(facts, trace.report)
        for warning in trace.warnings:
            warn(warning)


def print_power(facts: Mapping[str, Any], report: RowReport | None) -> None:
    """Print the facts of a trace and what was done to the rows of its file."""
    from simkit.cli.text import print_rows, say

    say("Signal", facts["name"])
    if report is not None:
        print_rows(report)
    for name, text in _lines(facts):
        say(name, text)


def _lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from simkit.text import counted
    from simkit.units import format_duration

    yield from (("Note", note) for note in facts["notes"])
    label = {"start": "starts", "end": "ends"}[facts["label"]]
    what = f"means of intervals, at their {label}" if facts["sampling"] == "mean" else "readings"
    yield "Values", f"{facts['values']:,} {what}, every {format_duration(facts['step_s'])}"
    yield "Zone", facts["time_zone"]
    yield "From", f"{facts['first']} to {facts['last']}, span {format_duration(facts['span_s'])}"
    for name in ("mean", "min", "max"):
        yield name.capitalize(), f"{_amount(facts[name])} {facts['unit']}"
    if facts["negative"]:
        yield "Below 0", counted(facts["negative"], "value")
    gaps = facts["gaps"]
    if not gaps["count"]:
        yield "Gaps", "none"
        return
    total, longest = (format_duration(gaps[key]) for key in ("total_s", "longest_s"))
    yield "Gaps", f"{counted(gaps['count'], 'gap')}, {total} in all, the longest {longest}"
    for gap in gaps["longest"]:
        yield "", f"from {gap['start']} for {format_duration(gap['length_s'])}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
