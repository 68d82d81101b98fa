"""The part of jq that selectors and delays of Stages are written in.

    query = compiled('.status.conditions.[] | select(.type == "Ready") | .status')
    query(node)  # a list of results

Paths, pipes, operators, variables, `if`, `try`, constructed lists and objects, interpolated
strings, and the functions in `functions.py`. What is not here (`def`, `reduce`, `foreach`,
assignment, formats) is refused by name when it is compiled. Source: gojq v0.12.20, which KWOK uses.
"""

from __future__ import annotations

from fakeapi.actors.jq.evaluation import JqError
from fakeapi.actors.jq.parser import JqSyntaxError, Query, compiled

__all__ = ["JqError", "JqSyntaxError", "Query", "compiled"]
