"""Datasets of decisions: recorded, mixed, and written in the forms of other libraries."""
