"""Scorers of jobs and of pairs of a machine and a task: agents, fast models, searches."""
