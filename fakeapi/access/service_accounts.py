"""Tokens of service accounts: issued on request and verified.

A token is a JSON Web Token like those of kube-apiserver, but signed with a random key of this
server (HMAC), so it is valid on this server only. The token ends when it expires, or when its
account or the object that it is bound to is deleted.

Source: pkg/serviceaccount/claims.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from fakeapi.access.authentication import AUDIENCE, CREDENTIAL_ID, AccountToken
from fakeapi.access.users import User, service_account_groups, service_account_name
from fakeapi.types.objects import Json, integer, mapping, metadata_of, name_of, text, texts

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry
    from fakeapi.types.kind import ResourceKey

_ACCOUNTS: Final = ("", "serviceaccounts")
_PRIVATE: Final = "kubernetes.io"
_HEADER: Final[Json] = {"alg": "HS256", "typ": "JWT"}
#: The kinds that a token can be bound to.
BOUND: Final[dict[str, ResourceKey]] = {
    "Pod": ("", "pods"),
    "Node": ("", "nodes"),
    "Secret": ("", "secrets"),
}
_EXTRA: Final = "authentication.kubernetes.io/"


class TokenIssuer:
    """Issues and verifies the tokens of one server."""

    def __init__(self, state: Registry) -> None:
        self._state = state
        self._key = secrets.token_bytes(32)

    def issue(self, account: Json, audiences: list[str], seconds: int, bound: Json) -> str:
        """Return a token for a service account; `bound` is the claim about its bound object."""
        metadata, now = metadata_of(account), int(self._state.clock.now())
        namespace, name = text(metadata.get("namespace")), name_of(account)
        identity: Json = {"name": name, "uid": metadata.get("uid")}
        claims: Json = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": AUDIENCE,
            "jti": self._state.ids.uid(),
            _PRIVATE: {"namespace": namespace, "serviceaccount": identity, **bound},
            "nbf": now,
            "sub": service_account_name(namespace, name),
        }
        signed = f"{_encoded(_HEADER)}.{_encoded(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def __call__(self, token: str) -> AccountToken | None:
        """Return the user and the audiences of a token, None if it is not valid."""
        signed, _, signature = token.rpartition(".")
        if not token.isascii() or not hmac.compare_digest(
            signature.encode(), self._signature(signed).encode()
        ):
            return None
        claims = _decoded(signed.rpartition(".")[2])
        now = self._state.clock.now()
        if not integer(claims.get("nbf")) <= now < integer(claims.get("exp")):
            return None
        private = mapping(claims.get(_PRIVATE))
        namespace, account = text(private.get("namespace")), mapping(private.get("serviceaccount"))
        if not self._is_there(_ACCOUNTS, namespace, account):
            return None
        for kind, resource in BOUND.items():
            bound = private.get(kind.lower())
            if bound is not None and not self._is_there(resource, namespace, mapping(bound)):
                return None
        name = text(account.get("name"))
        user = User(
            service_account_name(namespace, name),
            service_account_groups(namespace),
            text(account.get("uid")),
            _extra(claims, private),
        )
        return AccountToken(user, tuple(texts(claims.get("aud"))))

    def _signature(self, signed: str) -> str:
        digest = hmac.new(self._key, signed.encode(errors="replace"), hashlib.sha256).digest()
        return _base64(digest)

    def _is_there(self, resource: ResourceKey, namespace: str, bound: Json) -> bool:
        where = "" if resource == BOUND["Node"] else namespace
        stored = self._state.store.get(resource, where, text(bound.get("name")))
        return stored is not None and metadata_of(stored.object).get("uid") == bound.get("uid")


def _extra(claims: Json, private: Json) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the `extra` fields of the user."""
    extra = {CREDENTIAL_ID: (f"JTI={text(claims.get('jti'))}",)}
    for part in ("node", "pod"):
        bound = private.get(part)
        if isinstance(bound, dict):
            extra[f"{_EXTRA}{part}-name"] = (text(bound.get("name")),)
            extra[f"{_EXTRA}{part}-uid"] = (text(bound.get("uid")),)
    return tuple(sorted(extra.items()))


def _encoded(part: Json) -> str:
    return _base64(msgspec.json.encode(part))


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(part: str) -> Json:
    """Decode a part of a token whose signature has been verified."""
    return mapping(msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
