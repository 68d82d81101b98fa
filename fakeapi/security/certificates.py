"""A certificate authority that lives in memory: for the server itself and for its clients.

Imported only when such certificates are wanted. Keys are of the curve P-256.
"""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_VALID_FOR: Final = datetime.timedelta(days=365)
#: Clocks differ a little.
_LEEWAY: Final = datetime.timedelta(hours=1)
_PEM: Final = serialization.Encoding.PEM


class CertificatePair(NamedTuple):
    """A certificate and its key, both in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates of one kind: of servers, or of clients."""

    def __init__(self, common_name: str, *, now: float) -> None:
        """Make the authority's own certificate, good for a year from `now` (epoch seconds)."""
        self._start = datetime.datetime.fromtimestamp(int(now), datetime.UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        #: The authority's certificate in PEM.
        self.certificate = certificate.public_bytes(_PEM)

    def server(self, hosts: Iterable[str]) -> CertificatePair:
        """Return a certificate for a server that is reached by these names and addresses."""
        names = list(dict.fromkeys(_general_name(host) for host in hosts))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubesched-fakeapi")])
        return self._issued(subject, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: Iterable[str] = ()) -> CertificatePair:
        """Return a certificate of a user in these groups. Raises ValueError.

        Names have at most 64 characters.
        """
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issued(x509.Name(parts), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issued(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        names: Sequence[x509.GeneralName] = (),
    ) -> CertificatePair:
        key = ec.generate_private_key(ec.SECP256R1())
        authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            self._builder(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(authority_id, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return CertificatePair(certificate.public_bytes(_PEM), private)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._start - _LEEWAY)
            .not_valid_after(self._start + _VALID_FOR)
            .add_extension(key_id, critical=False)
        )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
