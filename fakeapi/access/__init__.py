"""Access to a server: authentication, and authorization of requests."""
