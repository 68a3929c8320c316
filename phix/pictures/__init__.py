"""Graphs as pictures: boxes in layers, with what flows between them."""
