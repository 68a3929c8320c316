"""What everything stands on: dtypes, dims, metas, ops and their registry, graphs, dispatch."""
