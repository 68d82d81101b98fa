"""Studies that compare policies on published traces."""
