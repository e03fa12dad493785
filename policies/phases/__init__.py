"""Policies of parts of a run: what a log records of the past, and one policy after the other."""
