"""HTTP: connections, answers and content negotiation."""
