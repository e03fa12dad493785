"""Pairs of a machine and a task: what a score sees of them, and how the best ones are found."""
