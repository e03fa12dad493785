"""Rewards: what each is paid for, by subject; `simkit.learning.reward` has them by name."""
