"""What learners share: networks, distributions, returns, baselines, objectives and rollouts."""
