"""The loop IR: its nodes and text, what builds, verifies and evaluates it."""
