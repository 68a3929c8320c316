"""The tables of tests/drawn_attributes.py: how all attributes of an op are drawn, by family."""
