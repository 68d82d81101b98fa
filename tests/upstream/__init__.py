"""Upstream's own test tables, as data, run against our plugins."""
