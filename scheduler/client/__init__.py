"""HTTP to the API server: knows objects, and nothing of scheduling."""
