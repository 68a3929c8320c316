"""One file an interpreter, one file a pass. None of them names an op."""
