"""Who may do what on a server that is asked to care: TLS, users, roles and limits.

    FakeApiServer(security=Security(tls=True, authorization_mode="RBAC"))

Without it nothing is looked at, which costs nothing, and only this machine reaches the server.
"""

from __future__ import annotations

from fakeapi.access.errors import SecurityError
from fakeapi.access.users import User
from fakeapi.security.options import Security

__all__ = ["Security", "SecurityError", "User"]
