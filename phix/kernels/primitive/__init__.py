"""The kernel primitive language: scalar bodies, loop nests, and how graphs lower to them."""
