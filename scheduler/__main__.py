"""`python -m scheduler` is `kubesched`."""

from scheduler.cli import main

main()
