"""The server's own certificate: the one it is given, or one made on the spot.

Without a file and without a directory, a certificate for `localhost` lives in memory and is gone
with the process; with a directory, it is kept there and used again. A certificate made here is
followed by the authority that signed it, so that the `.crt` file also serves a client as its
authority. Source: apiserver `options/serving.go` (`MaybeDefaultWithSelfSignedCerts`), client-go
`util/cert/cert.go`; keys are of the curve P-256, where upstream takes RSA.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler.serving.errors import ServingError

if TYPE_CHECKING:
    from scheduler.serving.options import ServingOptions

_log: Final = logging.getLogger("kubesched")

_HOST: Final = "localhost"
_LOOPBACK: Final = "127.0.0.1"
#: The file names in `--cert-dir` begin with it.
_PAIR_NAME: Final = "kube-scheduler"
_MAX_AGE: Final = datetime.timedelta(days=365)
#: Clocks differ a little.
_LEEWAY: Final = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class CertKey:
    """A certificate chain and its key, both in PEM."""

    certificate: bytes
    key: bytes


def serving_certificate(options: ServingOptions, *, now: float) -> CertKey:
    """What to serve with: read, or made and perhaps written. Raises ServingError."""
    cert_file, key_file = options.tls_cert_file, options.tls_private_key_file
    if cert_file or key_file:
        if not (cert_file and key_file):
            raise ServingError("missing filename for serving cert")
        return _read_pair(Path(cert_file), Path(key_file))
    if not options.cert_dir:
        made = generate_self_signed(options.bind_address, now=now)
        _log.info("Generated self-signed cert in-memory")
        return made
    directory = Path(options.cert_dir)
    cert_path, key_path = directory / f"{_PAIR_NAME}.crt", directory / f"{_PAIR_NAME}.key"
    readable = [os.access(path, os.R_OK) for path in (cert_path, key_path)]
    if all(readable):
        return _read_pair(cert_path, key_path)
    if any(readable):
        missing = cert_path if readable[1] else key_path
        raise ServingError(
            f"error creating self-signed certificates: error reading {missing}, certificate and "
            "key must be supplied as a pair"
        )
    return _written(generate_self_signed(options.bind_address, now=now), cert_path, key_path)


def read_file(path: Path) -> bytes:
    """The bytes of a file. Raises ServingError as Go would complain."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ServingError(_complaint("open", path, error)) from error


def generate_self_signed(bind_address: str, *, now: float) -> CertKey:
    """A certificate for `localhost`, the loopback address and the address served on."""
    start = datetime.datetime.fromtimestamp(int(now), datetime.UTC)
    addresses = [ipaddress.ip_address(_LOOPBACK)]
    bound = ipaddress.ip_address(bind_address)
    if not bound.is_unspecified and bound not in addresses:
        addresses.append(bound)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = _name(f"{_HOST}-ca@{int(now)}")
    authority = (
        _builder(ca_name, ca_name, ca_key, start)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names = [x509.DNSName(_HOST), *(x509.IPAddress(address) for address in addresses)]
    certificate = (
        _builder(_name(f"{_HOST}@{int(now)}"), ca_name, key, start)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return CertKey(
        certificate.public_bytes(pem) + authority.public_bytes(pem),
        key.private_bytes(
            pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ),
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
) -> x509.CertificateBuilder:
    public_key = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _LEEWAY)
        .not_valid_after(start - _LEEWAY + _MAX_AGE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _read_pair(cert_path: Path, key_path: Path) -> CertKey:
    pair = CertKey(read_file(cert_path), read_file(key_path))
    if not (pair.certificate and pair.key):
        raise ServingError(
            f'missing content for serving cert "serving-cert::{cert_path}::{key_path}"'
        )
    return pair


def _written(made: CertKey, cert_path: Path, key_path: Path) -> CertKey:
    try:
        cert_path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        cert_path.write_bytes(made.certificate)
        # Nobody else may read the key, not even for the moment before a chmod.
        descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made.key)
    except OSError as error:
        path = Path(error.filename or cert_path)
        what = "mkdir" if path == cert_path.parent else "open"
        raise ServingError(
            f"error creating self-signed certificates: {_complaint(what, path, error)}"
        ) from error
    _log.info("Generated self-signed cert (%s, %s)", cert_path, key_path)
    return made


def _complaint(what: str, path: Path, error: OSError) -> str:
    return f"{what} {path}: {(error.strerror or str(error)).lower()}"
