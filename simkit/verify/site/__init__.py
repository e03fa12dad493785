"""The site of a run, recomputed: its signals, what its machines draw, what its controller sets."""
