"""Authentication of requests: by client certificate, by bearer token, else anonymous.

Source: apiserver pkg/authentication/{request/{x509,bearertoken,anonymous},token/tokenfile} of
v0.36.3, in the order of kube-apiserver: certificates, then tokens, then anonymous.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Final

from fakeapi.access.users import ANONYMOUS, SecurityError, User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

#: The default audience of tokens.
AUDIENCE: Final = "https://kubernetes.default.svc.cluster.local"
_INVALID_TOKEN: Final = "invalid bearer token"
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_UID_OID: Final = "1.3.6.1.4.1.57683.2"
_CERTIFICATES_KEPT: Final = 256


@dataclasses.dataclass(frozen=True, slots=True)
class TokenAnswer:
    """The user of a token; without a user, `error` is the reason."""

    user: User | None
    audiences: tuple[str, ...] = ()
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class AccountToken:
    """The user and the audiences of a valid service account token."""

    user: User
    audiences: tuple[str, ...]


class Authenticator:
    """The ways of authentication that one server has."""

    def __init__(
        self,
        tokens: Mapping[str, User] | None = None,
        *,
        certificates: bool = False,
        anonymous: bool = False,
    ) -> None:
        """Set up with users by their tokens; `certificates` are taken as the handshake took them.

        `anonymous` lets those in who show nothing.
        """
        self._tokens = dict(tokens or {})
        self._certificates = certificates
        self._anonymous = anonymous
        #: Verifies tokens of service accounts, once an issuer exists.
        self.account_of: Callable[[str], AccountToken | None] | None = None

    def user_of(self, authorization: str, certificate: bytes | None) -> User | None:
        """The user behind an Authorization header and a verified certificate in DER, or None."""
        if self._certificates and certificate:
            user = user_of_certificate(certificate)
            if user is not None:
                return user.authenticated()
        token = _bearer_token(authorization)
        if token:
            return self._user_of_token(token)
        return ANONYMOUS if self._anonymous else None

    def review(self, token: str, audiences: Iterable[str]) -> TokenAnswer:
        """Return the user of a token for one of these audiences, by default for this server."""
        wanted = tuple(audiences) or (AUDIENCE,)
        user, meant = self._known(token)
        common = tuple(audience for audience in wanted if audience in meant)
        if user is None or not common:
            return TokenAnswer(None, error=_INVALID_TOKEN)
        return TokenAnswer(user, common)

    def _user_of_token(self, token: str) -> User | None:
        user, audiences = self._known(token)
        return user if AUDIENCE in audiences else None

    def _known(self, token: str) -> tuple[User | None, tuple[str, ...]]:
        """Return the user and the audiences of a token."""
        user = self._tokens.get(token)
        if user is not None:
            return user.authenticated(), (AUDIENCE,)
        account = self.account_of(token) if self.account_of is not None else None
        return (None, ()) if account is None else (account.user.authenticated(), account.audiences)


def _bearer_token(authorization: str) -> str:
    parts = authorization.strip().split(" ", 2)
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return ""
    return parts[1]


@functools.lru_cache(maxsize=_CERTIFICATES_KEPT)
def user_of_certificate(certificate: bytes) -> User | None:
    """Return the user of a certificate in DER: CN, and the Os as groups; None without a CN."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(certificate).subject
    names = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names or not names[-1]:
        return None
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    uids = subject.get_attributes_for_oid(x509.ObjectIdentifier(_UID_OID))
    digest = hashlib.sha256(certificate).hexdigest()
    return User(
        names[-1],  # as in Go, the last one counts
        tuple(str(group.value) for group in groups),
        str(uids[0].value) if len(uids) == 1 else "",
        ((CREDENTIAL_ID, (f"X509SHA256={digest}",)),),
    )


def read_token_file(path: Path) -> dict[str, User]:
    """Return the users of a file in kube-apiserver's format: token,user,uid,"group1,group2".

    Raises SecurityError.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            records = list(csv.reader(file, strict=True))
    except OSError as error:
        raise SecurityError(f"--token-auth-file: {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        text = f"byte {error.start} is not UTF-8 text"
        raise SecurityError(f"--token-auth-file: {path}: {text}") from error
    except csv.Error as error:
        raise SecurityError(f"--token-auth-file: {path}: {error}") from error
    users = {}
    for record in filter(None, records):
        if len(record) < 3:
            raise SecurityError(
                f"--token-auth-file: {path}: token file must have at least 3 columns "
                f"(token, user name, user uid), found {len(record)}"
            )
        token, name, uid = record[:3]
        if token:  # upstream passes over empty ones, too
            groups = tuple(record[3].split(",")) if len(record) > 3 else ()
            users[token] = User(name, groups, uid)
    return users
