"""Security of a server: TLS, users, roles and request limits.

    FakeApiServer(security=Security(tls=True, authorization_mode="RBAC"))

Without `security` every request is allowed, at no cost, and the server listens on loopback only.
"""

from __future__ import annotations

from fakeapi.access.users import SecurityError, User
from fakeapi.security.options import Security

__all__ = ["Security", "SecurityError", "User"]
