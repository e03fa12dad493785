"""Results: the tables of a run on disk or in memory, its digest and its metrics."""
