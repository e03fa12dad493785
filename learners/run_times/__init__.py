"""Models that predict how long a job or program will run, before it starts."""
