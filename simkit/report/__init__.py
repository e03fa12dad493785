"""The report: one HTML file that shows runs or a sweep, from disk and without a network."""
