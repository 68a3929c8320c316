"""From loops to loops: what joins, shares memory, goes in pieces; `pipeline` has the tables."""
