"""Burst classes for agents: waiting tasks laid out by how long they are expected to run."""
