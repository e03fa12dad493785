"""The commands that show what happened in runs: plot, report, explain."""
