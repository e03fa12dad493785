"""Parts shared by learners: games, rollouts, returns, bundles, trainings."""
