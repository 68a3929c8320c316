"""From ops to loops: a rule for each structural primitive, by family."""
