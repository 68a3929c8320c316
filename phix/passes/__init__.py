"""From graphs to graphs: one file a pass. None of them names an op."""
