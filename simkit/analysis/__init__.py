"""Analysis of finished runs: comparison, plots, export and bounds."""
