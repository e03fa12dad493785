"""Parts shared by learners: networks, distributions, returns, baselines, losses, rollouts."""
