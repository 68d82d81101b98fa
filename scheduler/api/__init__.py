"""Kubernetes objects as the scheduler reads them, and the pure rules on them.

No I/O, no clock, no scheduler: values in, values out.
"""
