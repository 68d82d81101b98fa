"""kube-scheduler in Python: v1.36 behaviour, every node at once."""
