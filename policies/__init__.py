"""simkit.policies."""
