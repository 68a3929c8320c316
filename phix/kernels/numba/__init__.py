"""Numba beside phix: its functions as kernels of ops, and programs of phix inside its code."""
