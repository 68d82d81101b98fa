"""Who may do what on a server that is asked to care: TLS, authentication, RBAC, limits."""
