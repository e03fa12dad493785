"""Models that predict run times from what is known of a job or program before it runs."""
