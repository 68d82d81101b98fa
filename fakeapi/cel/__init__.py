"""The Common Expression Language and regular expressions of clients, within limits.

patterns   regular expressions, matched by RE2
library    Kubernetes' functions
worker     the process that compiles and evaluates expressions
"""
