"""A pool of processors whose next job a scorer picks: simulation for learning, features, agent."""
