"""Learners, which train agents, and the agents that they train."""
