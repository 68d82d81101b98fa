"""`python -m scheduler.explain` is `kubesched-explain`."""

from scheduler.explain.cli import main

main(prog_name="kubesched-explain")
