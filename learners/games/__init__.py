"""What learners play: job sets in lock-step, or any scenario as simulations."""
