"""Judges schedulers over HTTP: cases as data, a runner, and reports."""
