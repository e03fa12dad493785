"""Parts of actor-critic learners: critics, what actors are trained by, and a limit on costs."""
