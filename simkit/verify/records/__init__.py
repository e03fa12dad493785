"""Checks of the tables as records: their columns, the order of rows, timeline and events."""
