"""The transformations as users call them: thin, fully documented."""
