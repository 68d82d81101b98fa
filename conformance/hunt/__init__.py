"""Search for lost wake-ups and broken promises: one reason, one remedy, a copy as control.

reasons/*.yaml  the table: each reason to wait, and the steps that take it away
table.py        reads the table, and makes the choices of a sketch
world.py        a sketch, a remedy and variations -> World: a case with the moments to look at
placements.py   puzzles, which have no waiter but a known answer
lane.py         runs world after world on one server and scheduler -> Seen
search.py       many lanes in worker processes, until the budget is over
confirm.py      a find as a case of its own: run anew on the target, shrunk, written
"""
