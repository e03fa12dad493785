"""What an agent sees and does: views, actions, encoders, observations and rewards, in NumPy."""
