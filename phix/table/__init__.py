"""The op table of ``yaml/``: read, checked, made into ops, and written out as ``phix/ops.py``."""
