"""The scalar language, and a body in it for each pointwise primitive."""
