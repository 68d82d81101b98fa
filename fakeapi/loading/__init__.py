"""Loading of manifests and dumps before the server starts."""
