"""Histories: what has happened to a cluster, as a file of timed writes, and its producers."""
