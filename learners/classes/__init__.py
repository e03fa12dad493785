"""Agents that choose a burst class; its first waiting job is placed."""
