"""Users from client certificates."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from scheduler.serving.authentication import AuthenticationError, user_from_certificate
from scheduler.serving.reviews import ANONYMOUS, User

COMMON_NAME, ORGANIZATION, UID = "2.5.4.3", "2.5.4.10", "1.3.6.1.4.1.57683.2"


def _der(*names: tuple[str, str]) -> bytes:
    key, day = ec.generate_private_key(ec.SECP256R1()), datetime.datetime(2026, 1, 1)
    attributes = [
        x509.NameAttribute(x509.ObjectIdentifier(oid), value, _validate=False)
        for oid, value in names
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.DER)


def test_organizations_are_groups() -> None:
    der = _der((ORGANIZATION, "a"), (COMMON_NAME, "kate"), (ORGANIZATION, "b"), (UID, "7"))
    user = user_from_certificate(der)
    assert user is not None
    assert (user.name, user.groups, user.uid) == ("kate", ("a", "b"), "7")
    assert list(user.extra) == ["authentication.kubernetes.io/credential-id"]


def test_a_certificate_without_a_common_name_has_no_user() -> None:
    assert user_from_certificate(_der((ORGANIZATION, "a"))) is None


@pytest.mark.parametrize(
    ("uids", "complaint"),
    [
        (("1", "2"), r"^expected 1 UID, but found multiple: \[1 2\]$"),
        (("",), "^UID cannot be an empty string$"),
    ],
)
def test_a_uid_is_one(uids: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(AuthenticationError, match=complaint):
        user_from_certificate(_der((COMMON_NAME, "kate"), *((UID, uid) for uid in uids)))


def test_the_group_of_authenticated_users_is_added_once() -> None:
    assert User("a").authenticated().groups == ("system:authenticated",)
    assert User("a").authenticated().authenticated().groups == ("system:authenticated",)
    assert ANONYMOUS.authenticated() is ANONYMOUS
