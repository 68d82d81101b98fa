"""`python -m conformance` is `kubesched-conformance`."""

from __future__ import annotations

from .cli import main

main(prog_name="kubesched-conformance")
