"""Every plugin's rule again: for one pod and one node, slow and obvious.

Written from the Go source, sharing nothing with the plugins but the structs of `scheduler.api`.
"""
