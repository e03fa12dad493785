"""Reproductions of published results: studies, figures and pages."""
