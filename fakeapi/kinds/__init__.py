"""The kinds that are served: their table, and rules of single kinds."""
