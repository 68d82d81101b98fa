"""Decoding of requests: paths, parameters, selectors and bodies."""
