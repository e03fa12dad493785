"""Lock-step replicas of a ready pool: streams of jobs, hours with and without power, games."""
