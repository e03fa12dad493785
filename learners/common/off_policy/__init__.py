"""Off-policy agents: values, actors and critics, and the memory that is played and replayed."""
