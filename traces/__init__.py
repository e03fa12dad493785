"""Readers of traces and models of workloads, a folder each; installed as `simkit.traces`.

A format is a class derived from `simkit.scenario.workload.TraceFormat`, such as `swf.SwfLog`. An
entry point in the group ``simkit.readers`` (pyproject.toml) is all that names it; a new folder is
also listed there under ``packages``. The how-to "Add a trace format" shows one in another package.
"""
