"""Agents of a ready pool: where their games come from, what they are, and how they act."""
