"""Agents of a green datacenter's ready pool: what they see, and what their actions mean."""
