"""Runs every op of the table through the same checks, from the samples in its entry."""
