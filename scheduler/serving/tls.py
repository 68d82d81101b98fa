"""The TLS side of the port: versions, cipher suites, certificates that can be renewed in place.

Names are Go's, as upstream's flags want them. Cipher suites of TLS 1.3 cannot be chosen, neither
in Go nor here; naming one is no mistake and changes nothing.
Source: component-base `cli/flag/ciphersuites_flag.go`, Go `crypto/tls/cipher_suites.go`.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scheduler.serving.certificates import read_file, serving_certificate
from scheduler.serving.errors import ServingError

if TYPE_CHECKING:
    from scheduler.serving.certificates import CertKey
    from scheduler.serving.options import ServingOptions

_log: Final = logging.getLogger("kubesched")

TLS_VERSIONS: Final = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

#: By Go's name OpenSSL's; those of TLS 1.3 have one name.
CIPHER_SUITES: Final = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}

#: Allowed, and warned about.
INSECURE_CIPHER_SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}


class ServerTls:
    """The context connections are accepted with, kept up to date; raises ServingError.

    What can change while the process runs is renewed by `reload`: the files of the certificate,
    and the authorities of client certificates. An authority once trusted stays so until the
    process ends, for OpenSSL cannot be told to forget one.
    """

    def __init__(self, options: ServingOptions, *, now: float) -> None:
        self._options: Final = options
        self._pair = serving_certificate(options, now=now)
        self._client_authorities: set[bytes] = set()
        self.context: Final = _new_context(options)
        _load_pair(self.context, self._pair)
        if path := options.authentication.client_ca_file:
            self._trust_client_ca_file(path)

    def trust_clients_of(self, bundle: bytes, *, source: str) -> None:
        """Accept client certificates that these authorities (PEM) have signed.

        A client may still come without one. Raises ServingError, naming `source`, for what is no
        certificate.
        """
        if bundle in self._client_authorities:
            return
        try:
            self.context.load_verify_locations(cadata=bundle.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise ServingError(
                f'error loading CA bundle for "{source}": data does not contain any valid RSA or '
                "ECDSA certificates"
            ) from error
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self._client_authorities.add(bundle)

    def reload(self, *, now: float) -> None:
        """Take up what has changed in the files; what cannot be read is logged, the old stays."""
        options = self._options
        try:
            if options.tls_cert_file:
                pair = serving_certificate(options, now=now)
                if pair != self._pair:
                    # First into a context nobody uses: half a renewed pair must not be served.
                    _load_pair(_new_context(options), pair)
                    _load_pair(self.context, pair)
                    self._pair = pair
            if path := options.authentication.client_ca_file:
                self._trust_client_ca_file(path)
        except ServingError as error:
            _log.error("renewing certificates: %s", error)

    def _trust_client_ca_file(self, path: str) -> None:
        try:
            bundle = read_file(Path(path))
            self.trust_clients_of(bundle, source=f"client-ca-bundle::{path}")
        except ServingError as error:
            raise ServingError(f"unable to load client CA provider: {error}") from error


def _new_context(options: ServingOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Authorities of clusters lack extensions that strict mode asks for, and Go does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    version = TLS_VERSIONS.get(options.tls_min_version or "VersionTLS12")
    if version is None:
        raise ServingError(f'unknown tls version "{options.tls_min_version}"')
    with warnings.catch_warnings():
        # Python warns of the old versions; whoever names one has asked for it.
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = version
    if options.tls_cipher_suites:
        _choose_ciphers(context, options.tls_cipher_suites)
    return context


def _choose_ciphers(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    known = CIPHER_SUITES | INSECURE_CIPHER_SUITES
    for name in names:
        if name not in known:
            raise ServingError(f"Cipher suite {name} not supported or doesn't exist")
    for name in names:
        if name in INSECURE_CIPHER_SUITES:
            _log.warning("Use of insecure cipher '%s' detected.", name)
    chosen = [known[name] for name in names if known[name]]
    try:
        # With suites of TLS 1.3 alone, nothing is left for TLS 1.2.
        if chosen:
            context.set_ciphers(":".join(chosen))
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    except ssl.SSLError as error:
        raise ServingError(
            f"--tls-cipher-suites: this machine's OpenSSL has none of {', '.join(names)}"
        ) from error


def _load_pair(context: ssl.SSLContext, pair: CertKey) -> None:
    """Give a context its certificate; OpenSSL reads files only, so there are some for a moment."""
    with tempfile.TemporaryDirectory(prefix="kubesched-") as folder:
        cert_path, key_path = Path(folder, "tls.crt"), Path(folder, "tls.key")
        cert_path.write_bytes(pair.certificate)
        with os.fdopen(os.open(key_path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(pair.key)
        try:
            # The empty password keeps OpenSSL from asking the terminal for one.
            context.load_cert_chain(cert_path, key_path, password=lambda: b"")
        except (ssl.SSLError, OSError) as error:
            raise ServingError(f"tls: {_words(error)}") from error


def _words(error: OSError) -> str:
    return str(error.strerror or error).removeprefix("[SSL] ")
