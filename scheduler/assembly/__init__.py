"""Build a scheduler from its configuration, and connect its parts."""
