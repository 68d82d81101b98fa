"""`python -m scheduler` is `kubesched`."""

from scheduler.cli import main

main(prog_name="kubesched")
