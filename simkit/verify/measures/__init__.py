"""What the metrics of a run must be, computed from its tables; `simkit.verify.metrics` compares."""
