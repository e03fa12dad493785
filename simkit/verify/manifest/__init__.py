"""Checks of run.json: the scenario in its two forms, and the facts that tables and files repeat."""
