"""Programs that send random requests to a server and check its answers."""
