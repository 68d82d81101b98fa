"""The same scenario through two schedulers, versions or configurations."""
