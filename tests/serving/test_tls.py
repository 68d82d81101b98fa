"""Certificates by host, and files and curves that cannot be used."""

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from scheduler.serving.options import (
    AuthenticationOptions,
    NamedCertKey,
    RequestHeaderOptions,
    ServingError,
)
from scheduler.serving.tls import generate_self_signed
from tests.serving.test_serve import TLS, _certificate_for, _options, _served


async def test_a_certificate_without_names_is_for_the_hosts_in_it(tmp_path: Path) -> None:
    pair = generate_self_signed("127.0.0.1", now=0)
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    server_pem, named_pem = str(TLS / "server.pem"), str(TLS / "named.pem")
    options = _options(
        tls_cert_file=server_pem,
        tls_private_key_file=server_pem,
        tls_sni_cert_keys=(
            NamedCertKey(*map(str, files)),
            NamedCertKey(named_pem, named_pem),
        ),
    )
    own = x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string()
    async with _served(options) as server:
        assert await _certificate_for(server.url, "localhost") == own
        assert await _certificate_for(server.url, "kubernetes.default") == "CN=named"
        assert await _certificate_for(server.url, "other.example") == "CN=server"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"tls_sni_cert_keys": (NamedCertKey("/nope", "/nope"),)},
            "failed to load SNI cert and key: open /nope: no such file or directory",
        ),
        (
            {"tls_curve_preferences": (30,)},
            "curve preference 30 is not supported by the current Go version",
        ),
        ({"tls_curve_preferences": (29, 29)}, "duplicate curve preference 29"),
        (
            {"tls_curve_preferences": (65536,)},
            "curve preference 65536 is out of range (must be 1-65535)",
        ),
        (
            {"tls_cert_file": "/dev/null", "tls_private_key_file": "/dev/null"},
            'missing content for serving cert "serving-cert::/dev/null::/dev/null"',
        ),
        (
            {
                "authentication": AuthenticationOptions(
                    request_header=RequestHeaderOptions(client_ca_file="/nope")
                )
            },
            "unable to create request header authentication config: open /nope: no such file or "
            "directory",
        ),
    ],
)
async def test_files_and_curves_are_checked_before_serving(
    options: dict[str, Any], error: str
) -> None:
    with pytest.raises(ServingError) as raised:
        async with _served(_options(**options)):
            pass
    assert str(raised.value) == error
