"""Who asks: a name, groups, and what else the one who vouches for them has said.

Source: apiserver `pkg/authentication/user/user.go`, `authentication/group`, `request/x509/x509.go`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from scheduler.serving.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Whose members may do everything.
MASTERS: Final = "system:masters"
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"
_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_COMMON_NAME: Final = "2.5.4.3"
_ORGANIZATION: Final = "2.5.4.10"
#: Where a certificate may carry the user's uid.
_UID: Final = "1.3.6.1.4.1.57683.2"


@dataclass(frozen=True)
class User:
    """Somebody who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def authenticated(self) -> User:
        """The same, a member of `system:authenticated`."""
        known = {_AUTHENTICATED, _UNAUTHENTICATED}
        if self.name == ANONYMOUS.name or known.intersection(self.groups):
            return self
        return replace(self, groups=(*self.groups, _AUTHENTICATED))


#: Whoever brings no credentials.
ANONYMOUS: Final = User("system:anonymous", (_UNAUTHENTICATED,))


def user_of_certificate(der: bytes) -> User | None:
    """Whom a client certificate names; None for one without a common name.

    The handshake has verified it. Raises AuthenticationError for a uid that is none.
    """
    # Loading the library takes a while, and most clients bring a token.
    from cryptography import x509

    subject = x509.load_der_x509_certificate(der).subject
    names: dict[str, list[str]] = {}
    for attribute in subject:
        value = attribute.value
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        names.setdefault(attribute.oid.dotted_string, []).append(text)
    common_name = names.get(_COMMON_NAME, [""])[-1]
    if not common_name:
        return None
    uids = names.get(_UID, [])
    if len(uids) > 1:
        raise AuthenticationError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids == [""]:
        raise AuthenticationError("UID cannot be an empty string")
    fingerprint = hashlib.sha256(der).hexdigest()
    return User(
        common_name,
        tuple(names.get(_ORGANIZATION, [])),
        uids[0] if uids else "",
        {_CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)},
    )
