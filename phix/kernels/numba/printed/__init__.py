"""Loop programs as Numba source that a person can read, and that runs in place of LLVM."""
