"""What an upgrade of kube-scheduler changes: decisions on pods, and settings that stop working."""
