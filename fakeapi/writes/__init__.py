"""The write pipeline, the same for every kind: create, update, patch, delete."""
