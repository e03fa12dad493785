"""simkit.learners."""
