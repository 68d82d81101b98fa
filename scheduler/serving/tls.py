"""TLS of the port: its certificate, the clients' authorities, versions and cipher suites.

Without a file and without a directory, a self-signed certificate for `localhost` is made in memory
and lost with the process; with a directory, it is kept there and used again. The authority that
signed it follows in the `.crt` file, so that the file also serves clients as their authority. Keys
are of the curve P-256, where upstream takes RSA.

Names of versions and cipher suites are Go's, as in upstream's flags. Cipher suites of TLS 1.3
cannot be chosen, neither in Go nor here; naming one is no error and changes nothing.
Source: apiserver `options/serving.go` (`MaybeDefaultWithSelfSignedCerts`), client-go
`util/cert/cert.go`, component-base `cli/flag/ciphersuites_flag.go`, Go
`crypto/tls/cipher_suites.go`.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import logging
import math
import os
import ssl
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler.clock import rfc3339
from scheduler.serving.authentication import ClientTrust
from scheduler.serving.options import ServingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.serving.options import NamedCertKey, ServingOptions

_log: Final = logging.getLogger(__name__)

_HOST: Final = "localhost"
_LOOPBACK: Final = "127.0.0.1"
#: File names in `--cert-dir`, without their suffix.
_PAIR_NAME: Final = "kube-scheduler"
_MAX_AGE: Final = datetime.timedelta(days=365)
#: Certificates are valid this long before they are made, as clocks differ.
_LEEWAY: Final = datetime.timedelta(hours=1)

#: A certificate that ends within this time is named in the log, once in the second one.
_EXPIRY_NOTICE_SECONDS: Final = 7 * 86400.0
_WARNING_SECONDS: Final = 86400.0

TLS_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

#: OpenSSL's names by Go's, for `secure` and `insecure` suites; the latter are allowed with a
#: warning. Suites of TLS 1.3 are not chosen by name.
_CIPHER_SUITES: Final[Mapping[str, Mapping[str, str]]] = json.loads(
    Path(__file__).with_name("cipher_suites.json").read_bytes()
)

#: The numbers of the curves of Go 1.26: P-256, P-384, P-521, X25519, and those with ML-KEM.
_CURVES: Final = frozenset({23, 24, 25, 29, 4587, 4588, 4589})
_CURVE_MAX: Final = 65535


class ServerTls:
    """The TLS context of the server; the constructor raises ServingError.

    `reload` renews the certificate and the authorities of client certificates from their files.
    An authority stays trusted until the process ends: OpenSSL cannot remove one. `trust` separates
    the authorities of users and of proxies.
    """

    def __init__(self, options: ServingOptions, *, now: float) -> None:
        self._options: Final = options
        self._pair = serving_certificate(options, now=now)
        self.trust: Final = ClientTrust(headers=options.authentication.request_header)
        self.context: Final = _new_context(options)
        _load_pair(self.context, self._pair)
        self._by_name: Final[dict[str, ssl.SSLContext]] = {}
        self._own_name: Final = options.tls_cert_file or options.cert_dir or "generated"
        #: When the certificates end, in seconds since the epoch, by their files.
        self._ends: Final = {self._own_name: _end_of(self._pair)}
        self._warned_at = -math.inf
        for files in options.tls_sni_cert_keys:
            self._add_sni_certificate(files)
        if self._by_name:
            self.context.sni_callback = self._choose_certificate
        self._trust_files()

    def _add_sni_certificate(self, files: NamedCertKey) -> None:
        """Serve a certificate to clients that name one of its hosts. The first for a name wins."""
        try:
            pair = _read_pair(Path(files.cert_file), Path(files.key_file))
        except ServingError as error:
            raise ServingError(f"failed to load SNI cert and key: {error}") from error
        context = _new_context(self._options)
        _load_pair(context, pair)
        self._ends[files.cert_file] = _end_of(pair)
        for name in files.names or _names_of(pair):
            self._by_name.setdefault(name.lower(), context)

    def _choose_certificate(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
    ) -> None:
        """Choose the certificate by the host's exact name, else by a pattern for its domain."""
        host = (name or "").lower()
        context = self._by_name.get(host) or self._by_name.get(f"*.{host.partition('.')[2]}")
        if context is not None:
            connection.context = context

    def accept(
        self, bundle: bytes, authorities: dict[bytes, x509.Certificate], *, source: str
    ) -> None:
        """Accept client certificates signed by these authorities (PEM), and note them.

        A client certificate stays optional. Raises ServingError, with `source` in its message, if
        the bundle has no certificate.
        """
        try:
            certs = x509.load_pem_x509_certificates(bundle)
            new = {
                authority.public_bytes(serialization.Encoding.DER): authority for authority in certs
            }
            if new.keys() <= authorities.keys():
                return
            for context in (self.context, *self._by_name.values()):
                context.load_verify_locations(cadata=bundle.decode("ascii"))
                context.verify_mode = ssl.CERT_OPTIONAL
        except (ssl.SSLError, ValueError) as error:
            raise ServingError(
                f'error loading CA bundle for "{source}": data does not contain any valid RSA or '
                "ECDSA certificates"
            ) from error
        authorities.update(new)

    def reload(self, *, now: float) -> None:
        """Read the files again; log an error and keep the old content if that fails."""
        options = self._options
        try:
            if options.tls_cert_file:
                pair = serving_certificate(options, now=now)
                if pair != self._pair:
                    # First into another context: half a renewed pair must not be served.
                    _load_pair(_new_context(options), pair)
                    _load_pair(self.context, pair)
                    self._pair = pair
                    self._ends[self._own_name] = _end_of(pair)
            self._trust_files()
        except ServingError as error:
            _log.error("Renewing certificates failed", {"err": error})

    @property
    def expires_at(self) -> float:
        """The end of the first certificate to end, in seconds since the epoch."""
        return min(self._ends.values())

    def warn_of_expiry(self, *, now: float) -> None:
        """Log once a day which certificates have expired, or will within a week."""
        if now - self._warned_at < _WARNING_SECONDS:
            return
        for file, end in self._ends.items():
            if end - now < _EXPIRY_NOTICE_SECONDS:
                self._warned_at = now
                ends = "has expired" if end <= now else "expires soon"
                text = f"The serving certificate {ends}"
                _log.warning(text, {"file": file, "notAfter": rfc3339(end)})

    def _trust_files(self) -> None:
        authentication = self._options.authentication
        for path, authorities, name, problem in (
            (
                authentication.request_header.client_ca_file,
                self.trust.proxies,
                "request-header",
                "unable to create request header authentication config",
            ),
            (
                authentication.client_ca_file,
                self.trust.clients,
                "client-ca-bundle",
                "unable to load client CA provider",
            ),
        ):
            if not path:
                continue
            try:
                self.accept(_read_file(Path(path)), authorities, source=f"{name}::{path}")
            except ServingError as error:
                raise ServingError(f"{problem}: {error}") from error


def _new_context(options: ServingOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Authorities of clusters lack extensions that strict mode requires, and Go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    version = TLS_VERSIONS.get(options.tls_min_version or "VersionTLS12")
    if version is None:
        raise ServingError(f'unknown tls version "{options.tls_min_version}"')
    with warnings.catch_warnings():
        # Python warns of old versions; the flag asks for one explicitly.
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = version
    _check_curves(options.tls_curve_preferences)
    if options.tls_cipher_suites:
        _choose_ciphers(context, options.tls_cipher_suites)
    return context


def _check_curves(curves: tuple[int, ...]) -> None:
    """Check numbers of Go's curves. OpenSSL chooses among its own, whatever they are."""
    for index, curve in enumerate(curves):
        if not 1 <= curve <= _CURVE_MAX:
            raise ServingError(f"curve preference {curve} is out of range (must be 1-{_CURVE_MAX})")
        if curve in curves[:index]:
            raise ServingError(f"duplicate curve preference {curve}")
        if curve not in _CURVES:
            raise ServingError(
                f"curve preference {curve} is not supported by the current Go version"
            )


def _end_of(pair: CertKey) -> float:
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()


def _names_of(pair: CertKey) -> list[str]:
    """Return the hosts of a certificate: its alternative names, else its common name."""
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return [str(common[0].value)] if common else []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _choose_ciphers(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    insecure = _CIPHER_SUITES["insecure"]
    suites = {**_CIPHER_SUITES["secure"], **insecure}
    for name in names:
        if name not in suites:
            raise ServingError(f"Cipher suite {name} not supported or doesn't exist")
    for name in names:
        if name in insecure:
            _log.warning("Use of insecure cipher '%s' detected.", name)
    chosen = [suites[name] for name in names if suites[name]]
    try:
        # Only suites of TLS 1.3: TLS 1.2 has none left.
        if chosen:
            context.set_ciphers(":".join(chosen))
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    except ssl.SSLError as error:
        raise ServingError(
            f"--tls-cipher-suites: this machine's OpenSSL has none of {', '.join(names)}"
        ) from error


def _load_pair(context: ssl.SSLContext, pair: CertKey) -> None:
    """Load a certificate into a context, by temporary files: OpenSSL reads nothing else."""
    try:
        with tempfile.TemporaryDirectory(prefix="kubesched-") as folder:
            cert_path, key_path = Path(folder, "tls.crt"), Path(folder, "tls.key")
            cert_path.write_bytes(pair.certificate)
            with os.fdopen(os.open(key_path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(pair.key)
            # The empty password keeps OpenSSL from asking the terminal for one.
            context.load_cert_chain(cert_path, key_path, password=lambda: b"")
    except OSError as error:
        raise ServingError(f"tls: {_error_text(error)}") from error


def _error_text(error: OSError) -> str:
    return str(error.strerror or error).removeprefix("[SSL] ")


@dataclass(frozen=True)
class CertKey:
    """A certificate chain and its key, both PEM."""

    certificate: bytes
    key: bytes


def serving_certificate(options: ServingOptions, *, now: float) -> CertKey:
    """Return the certificate of the files, or make one. Raises ServingError."""
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
    return _write_pair(generate_self_signed(options.bind_address, now=now), cert_path, key_path)


def _read_file(path: Path) -> bytes:
    """Return the bytes of a file. Raises ServingError with Go's text."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ServingError(_go_error("open", path, error)) from error


def generate_self_signed(bind_address: str, *, now: float) -> CertKey:
    """Make a certificate for `localhost`, the loopback address and the bind address."""
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
    pair = CertKey(_read_file(cert_path), _read_file(key_path))
    if not (pair.certificate and pair.key):
        raise ServingError(
            f'missing content for serving cert "serving-cert::{cert_path}::{key_path}"'
        )
    return pair


def _write_pair(made: CertKey, cert_path: Path, key_path: Path) -> CertKey:
    try:
        cert_path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        cert_path.write_bytes(made.certificate)
        # Created with its final mode: others must not read the key before a chmod.
        descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made.key)
    except OSError as error:
        path = Path(error.filename or cert_path)
        operation = "mkdir" if path == cert_path.parent else "open"
        raise ServingError(
            f"error creating self-signed certificates: {_go_error(operation, path, error)}"
        ) from error
    _log.info("Generated self-signed cert (%s, %s)", cert_path, key_path)
    return made


def _go_error(operation: str, path: Path, error: OSError) -> str:
    return f"{operation} {path}: {(error.strerror or str(error)).lower()}"
