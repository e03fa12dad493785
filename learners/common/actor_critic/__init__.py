"""Parts of actor-critic learners: critics, losses of actors, and a limit on costs."""
