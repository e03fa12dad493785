"""simkit: trace-driven simulation of schedulers."""
