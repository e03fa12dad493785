"""Tables of jobs and tasks, read again: what the run should have had."""
