"""Kernels: the loop language all engines share, and one folder an engine."""
