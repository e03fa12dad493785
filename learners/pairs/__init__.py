"""Scorers of pairs of a machine and a task, and a fast model of chunks of jobs to train them."""
