"""`python -m scheduler` is `kubesched`."""

from scheduler.entry import kubesched

kubesched()
