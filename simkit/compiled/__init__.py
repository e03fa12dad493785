"""Machine code for loops that Python is too slow for: whole replays of a pool, by numba."""
