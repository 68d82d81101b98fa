"""Replay a history with a real scheduler process, and verify the result.

history.py -> driver.py (processes.py, held.py, recording.py)
                             |
                             v  a Run: lists and placements
             verify.py   allocation.py -> report.py, plot.py
                 |                            |
                 +----------> cli.py <--------+
"""
