"""Agents of a ready pool: the games they train on, their descriptions, and their policies."""
