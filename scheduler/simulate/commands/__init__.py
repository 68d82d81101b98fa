"""The sub-commands about a cluster, one module each."""
