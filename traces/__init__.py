"""simkit.traces."""
