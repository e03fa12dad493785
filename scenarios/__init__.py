"""simkit.scenarios."""
