"""Replay a history over HTTP with a scheduler process of any kind, and verify the result.

history.py -> driver.py (processes.py, held.py, recording.py, timed.py)
                             |
                             v  a Run: lists and placements
                         verify.py -> report.py -> cli.py
"""
