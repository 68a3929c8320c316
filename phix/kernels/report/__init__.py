"""What became of a graph, for people: kernels, costs, and why loops stayed apart."""
