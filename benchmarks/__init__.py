"""Time the solvers against other packages: `python -m benchmarks`."""
