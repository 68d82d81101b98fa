"""`python -m scheduler.simulate` is `kubesched-simulate`."""

from scheduler.entry import kubesched_simulate

kubesched_simulate()
