"""Kubernetes objects as far as the scheduler reads them, and pure functions over them.

Values in, values out: without I/O, clock or scheduler.
"""
