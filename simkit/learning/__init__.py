"""What agents learn from: observations, rewards, actions and episodes, in NumPy."""
