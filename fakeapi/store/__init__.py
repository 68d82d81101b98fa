"""The store: objects, logs of changes, watches, lists, selectors."""
