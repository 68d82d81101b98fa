"""Who may do what on a server that is asked to care: TLS, users, roles and limits.

    FakeApiServer(security=Security(tls=True, authorization_mode="RBAC"))

Without it nothing is looked at, which costs nothing, and only this machine reaches the server.
"""

from __future__ import annotations

from .errors import SecurityError
from .options import Security
from .users import User

__all__ = ["Security", "SecurityError", "User"]
