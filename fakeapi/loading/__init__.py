"""Load manifests and dumps before or while the server runs."""
