"""Command-line flags of kube-scheduler: their types and the options they set."""
