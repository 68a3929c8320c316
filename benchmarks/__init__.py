"""Measurements: ``python -m benchmarks`` (or ``make bench``) prints a table."""
