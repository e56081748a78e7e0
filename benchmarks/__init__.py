"""Time the solvers against what a user could install instead: `python -m benchmarks`."""
