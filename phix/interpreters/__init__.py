"""One file an interpreter. None of them names an op."""
