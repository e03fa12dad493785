"""Agents of a ready pool: the games that they train on, and how they are judged."""
