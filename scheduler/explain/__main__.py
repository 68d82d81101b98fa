"""`python -m scheduler.explain` is `kubesched-explain`."""

from scheduler.entry import kubesched_explain

kubesched_explain()
