"""Agents that choose a burst class, of which the first waiting job is placed."""
