"""Layers as trees of tensors: dataclasses that are called. Imported on first use of ``phix.nn``."""
