"""`python -m conformance.replay`: the command on its own."""

from __future__ import annotations

from .cli import replay

replay.main(prog_name="kubesched-conformance replay", help_option_names=["-h", "--help"])
