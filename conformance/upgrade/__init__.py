"""Changes by an upgrade of kube-scheduler: decisions on pods, and settings that stop working."""
