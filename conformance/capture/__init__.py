"""From an incident to a case: capture a cluster, make it anonymous, and shrink it."""
