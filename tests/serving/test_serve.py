"""HTTPS from its options: certificates made, given and renewed; clients' certificates."""

import asyncio
import contextlib
import datetime
import json
import logging
import ssl
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.clock import SystemClock
from scheduler.config import DEFAULT_FEATURE_GATES, default_config
from scheduler.plugins import SCHEME
from scheduler.serving.http_server import SchedulerServer, create_listener
from scheduler.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    NamedCertKey,
    RequestHeaderOptions,
    ServingError,
    ServingOptions,
)
from scheduler.serving.serve import serve_securely
from scheduler.serving.tls import ServerTls, generate_self_signed
from scheduler.testing import VirtualClock
from tests.client import tls_directory
from tests.serving.review_server import Failure, ReviewServer
from tests.serving.served import Served

TLS = tls_directory()
LOOPBACK = {"bind_address": "127.0.0.1", "secure_port": None}


@contextlib.asynccontextmanager
async def _served(
    options: ServingOptions, clock: VirtualClock | None = None, scheduler: Served | None = None
) -> AsyncIterator[SchedulerServer]:
    async with serve_securely(
        options,
        default_config(SCHEME),
        scheduler or Served(),
        clock=clock or VirtualClock(),
        is_shutting_down=lambda: False,
        gates=DEFAULT_FEATURE_GATES,
        flags={},
    ) as server:
        yield server


def _options(
    *,
    authentication: AuthenticationOptions | None = None,
    authorization: AuthorizationOptions | None = None,
    **own: object,
) -> ServingOptions:
    parts = {
        "authentication": authentication or AuthenticationOptions(),
        "authorization": authorization or AuthorizationOptions(),
    }
    return ServingOptions(**{**LOOPBACK, **parts, **own})  # type: ignore[arg-type]


async def _get(url: str, context: ssl.SSLContext | bool = False) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, ssl=context) as response,
    ):
        return response.status, await response.text()


async def _certificate(url: str) -> x509.Certificate:
    """The certificate that is served."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(der)


async def test_without_a_certificate_one_is_made(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with _served(_options()) as server:
            assert await _get(f"{server.url}/healthz") == (200, "ok")
            served = await _certificate(server.url)
    assert f"Serving securely on {server.url.removeprefix('https://')}" in caplog.text
    assert "Generated self-signed cert in-memory" in caplog.text
    key = served.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


async def test_a_made_certificate_is_kept_in_its_directory(tmp_path: Path) -> None:
    options = _options(cert_dir=str(tmp_path / "deep" / "certs"))
    certificate = tmp_path / "deep" / "certs" / "kube-scheduler.crt"
    key = certificate.with_suffix(".key")
    async with _served(options) as server:
        first = await _certificate(server.url)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    async with _served(options) as server:
        assert await _certificate(server.url) == first
    certificate.unlink()
    complaint = f"error reading {certificate}, certificate and key must be supplied as a pair"
    with pytest.raises(ServingError, match=complaint):
        async with _served(options):
            pass


def test_a_made_certificate_names_the_address_it_is_served_on() -> None:
    chain = x509.load_pem_x509_certificates(generate_self_signed("192.0.2.1", now=1e9).certificate)
    chain[0].verify_directly_issued_by(chain[1])
    names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "192.0.2.1"]


async def test_the_client_verifies_a_made_certificate_by_its_file(tmp_path: Path) -> None:
    # The client reads the machine's clock, so the certificate must be made by it too.
    clock = VirtualClock(SystemClock().now())
    async with _served(_options(cert_dir=str(tmp_path)), clock) as server:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "kube-scheduler.crt"))
        assert await _get(f"{server.url}/livez", trusting) == (200, "ok")


async def test_a_given_certificate_is_served() -> None:
    pem = str(TLS / "server.pem")
    async with _served(_options(tls_cert_file=pem, tls_private_key_file=pem)) as server:
        trusting = ssl.create_default_context(cafile=str(TLS / "ca.pem"))
        trusting.verify_flags &= ~ssl.VERIFY_X509_STRICT
        assert await _get(f"{server.url}/healthz", trusting) == (200, "ok")


async def test_a_renewed_certificate_is_taken_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, file = VirtualClock(), tmp_path / "tls.pem"
    file.write_bytes((TLS / "server.pem").read_bytes())
    options = _options(tls_cert_file=str(file), tls_private_key_file=str(file))
    async with _served(options, clock) as server:
        first = await _certificate(server.url)
        file.write_text("half a certificate", encoding="utf-8")
        await clock.advance(60.0)
        assert await _certificate(server.url) == first
        assert "Renewing certificates failed" in caplog.messages
        file.write_bytes((TLS / "named.pem").read_bytes())
        await clock.advance(60.0)
        assert "named" in (await _certificate(server.url)).subject.rfc4514_string()


async def test_a_renewal_that_fails_in_any_way_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, file = VirtualClock(), tmp_path / "tls.pem"
    file.write_bytes((TLS / "server.pem").read_bytes())
    options = _options(tls_cert_file=str(file), tls_private_key_file=str(file))
    async with _served(options, clock) as server:
        file.write_bytes((TLS / "named.pem").read_bytes())
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full-disk"))
        await clock.advance(60.0)
        monkeypatch.undo()
        monkeypatch.setattr(ServerTls, "reload", _broken)
        await clock.advance(60.0)
        monkeypatch.undo()
        assert caplog.messages.count("Renewing certificates failed") == 2
        await clock.advance(60.0)
        assert "named" in (await _certificate(server.url)).subject.rfc4514_string()


def _broken(tls: ServerTls, *, now: float) -> None:
    raise RuntimeError("a bug")


def _client_context(certificate: str = "client.pem", key: str = "client.key") -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(TLS / certificate, TLS / key)
    return context


async def test_a_client_certificate_names_the_user(tmp_path: Path) -> None:
    async with ReviewServer() as reviews:
        reviews.access["client"] = {"allowed": True}
        kubeconfig = reviews.write_kubeconfig(tmp_path / "kubeconfig")
        options = _options(
            authentication=AuthenticationOptions(client_ca_file=str(TLS / "ca.pem")),
            authorization=AuthorizationOptions(kubeconfig=kubeconfig),
        )
        async with _served(options) as server:
            assert (await _get(f"{server.url}/debug/pods", _client_context()))[0] == 200
            assert (await _get(f"{server.url}/debug/pods"))[0] == 403
        spec = reviews.asked[0]["spec"]
    assert spec["user"] == "client"
    assert spec["groups"] == ["system:authenticated"]
    (credential,) = spec["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")


class Proxy:
    """An authority of its own, a proxy's certificate from it, and one through an intermediate."""

    def __init__(self, path: Path) -> None:
        self.path = path
        authority = self._write("front-proxy-ca", signer=None, files=("ca",))
        self._write("proxy", signer=authority, files=("proxy",))
        inner = self._write("inner-ca", signer=authority, files=("inner",))
        self._write("system:admin", signer=inner, files=("deep", "inner"))
        self.authority = str(path / "ca.pem")

    def _write(
        self,
        name: str,
        *,
        signer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None,
        files: tuple[str, ...],
    ) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
        """Write a certificate with its key, followed by those of the other files."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, signing_key = signer or (subject, key)
        start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(name.endswith("-ca"), None), critical=True)
            .sign(signing_key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        first, *others = files
        chain = [certificate.public_bytes(serialization.Encoding.PEM)]
        chain += [(self.path / f"{other}.crt").read_bytes() for other in others]
        (self.path / f"{first}.crt").write_bytes(chain[0])
        (self.path / f"{first}.pem").write_bytes(b"".join([*chain, secret]))
        return subject, key

    def context(self, file: str = "proxy") -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(self.path / f"{file}.pem")
        return context


KATE = {
    "X-Remote-User": "kate",
    "X-Remote-Group": "devs",
    "X-Remote-Uid": "7",
    "X-Remote-Extra-Example.com%2fScopes": "a",
}


async def _status(url: str, context: ssl.SSLContext, headers: dict[str, str]) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/debug/pods", ssl=context, headers=headers) as response,
    ):
        return response.status


async def test_a_proxy_names_the_user_in_headers(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path)
    async with ReviewServer() as reviews:
        reviews.access["kate"] = reviews.access["client"] = {"allowed": True}
        authentication = AuthenticationOptions(
            client_ca_file=str(TLS / "ca.pem"),
            request_header=RequestHeaderOptions(
                client_ca_file=proxy.authority, uid_headers=("x-remote-uid",)
            ),
        )
        kubeconfig = reviews.write_kubeconfig(tmp_path / "kubeconfig")
        options = _options(
            authentication=authentication,
            authorization=AuthorizationOptions(kubeconfig=kubeconfig),
        )
        async with _served(options) as server:
            assert await _status(server.url, proxy.context(), KATE) == 200
            # Its certificate alone is no user; a user's certificate gives headers no meaning.
            assert await _status(server.url, proxy.context(), {}) == 401
            assert await _status(server.url, _client_context(), KATE) == 200
            # Through an intermediate authority: of a user or of a proxy? It is neither.
            assert await _status(server.url, proxy.context("deep"), KATE) == 401
            assert await _status(server.url, proxy.context("deep"), {}) == 401
        kate, client = (review["spec"] for review in reviews.asked)
    assert (kate["user"], kate["uid"]) == ("kate", "7")
    assert kate["groups"] == ["devs", "system:authenticated"]
    assert kate["extra"] == {"example.com/scopes": ["a"]}
    assert client["user"] == "client"


async def test_the_cluster_publishes_the_authority_and_the_headers_of_proxies(
    tmp_path: Path,
) -> None:
    proxy, clock = Proxy(tmp_path), VirtualClock()
    lists = {"username-headers": ["X-Remote-User"], "allowed-names": ["proxy"]}
    settings = {f"requestheader-{name}": json.dumps(names) for name, names in lists.items()}
    authority = (tmp_path / "ca.pem").read_text(encoding="utf-8")
    async with ReviewServer() as reviews:
        reviews.access["kate"] = {"allowed": True}
        reviews.settings = {**settings, "requestheader-client-ca-file": authority}
        kubeconfig = reviews.write_kubeconfig(tmp_path / "kubeconfig")
        options = _options(
            authentication=AuthenticationOptions(kubeconfig=kubeconfig),
            authorization=AuthorizationOptions(kubeconfig=kubeconfig),
        )
        async with _served(options, clock) as server:
            assert await _status(server.url, proxy.context(), KATE) == 200
            settings["requestheader-allowed-names"] = '["another"]'
            reviews.settings = {**settings, "requestheader-client-ca-file": authority}
            await clock.advance(60.0)
            while await _status(server.url, proxy.context(), KATE) != 401:
                pass
        (review,) = (one["spec"] for one in reviews.asked if "user" in one["spec"])
    assert review["groups"] == ["system:authenticated"]


async def test_a_client_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    pair = generate_self_signed("127.0.0.1", now=1e9)
    (tmp_path / "ca.pem").write_bytes(pair.certificate)
    options = _options(
        authentication=AuthenticationOptions(client_ca_file=str(tmp_path / "ca.pem"))
    )
    async with _served(options) as server:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await _get(f"{server.url}/healthz", _client_context())
        assert await _get(f"{server.url}/healthz") == (200, "ok")


async def test_the_cluster_publishes_the_authority_of_its_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    async with ReviewServer() as reviews:
        reviews.access["client"] = {"allowed": True}
        kubeconfig = reviews.write_kubeconfig(tmp_path / "kubeconfig")
        options = _options(
            authentication=AuthenticationOptions(kubeconfig=kubeconfig),
            authorization=AuthorizationOptions(kubeconfig=kubeconfig),
        )
        async with _served(options, clock) as server:
            assert "Error looking up in-cluster authentication configuration: not yours" in (
                caplog.text
            )
            url = f"{server.url}/debug/pods"
            assert (await _get(url, _client_context()))[0] == 403
            reviews.settings = {"client-ca-file": (TLS / "ca.pem").read_text(encoding="utf-8")}
            await clock.advance(60.0)
            while (await _get(url, _client_context()))[0] != 200:
                pass


async def test_a_failing_look_up_need_not_be_tolerated(tmp_path: Path) -> None:
    async with ReviewServer() as reviews:
        kubeconfig = reviews.write_kubeconfig(tmp_path / "kubeconfig")
        options = _options(
            authentication=AuthenticationOptions(
                kubeconfig=kubeconfig, tolerate_lookup_failure=False
            )
        )
        text = "unable to load configmap based client CA file: "
        with pytest.raises(ServingError, match=f"^{text}not yours$"):
            async with _served(options):
                pass
        reviews.settings = {"client-ca-file": "nothing"}
        with pytest.raises(ServingError, match=f'^{text}error loading CA bundle for "client-ca::'):
            async with _served(options):
                pass
        reviews.settings = Failure(404, "NotFound", "gone")
        skipping = AuthenticationOptions(
            kubeconfig=kubeconfig, tolerate_lookup_failure=False, skip_lookup=True
        )
        async with _served(_options(authentication=skipping)) as server:
            assert (await _get(f"{server.url}/healthz"))[0] == 200


async def test_a_port_that_is_taken_is_an_error_at_the_start() -> None:
    with contextlib.closing(create_listener("127.0.0.1", None)) as taken:
        port = taken.getsockname()[1]
        where = f"127.0.0.1:{port}"
        text = (
            f"failed to create listener: failed to listen on {where}: listen tcp {where}: "
            "bind: address already in use; is another scheduler running? --secure-port 0 serves "
            "nothing"
        )
        with pytest.raises(ServingError) as raised:
            async with _served(_options(secure_port=port)):
                pass
        assert str(raised.value) == text


async def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(ServingError, match=r"bind: cannot assign requested address$"):
        async with _served(_options(bind_address="192.0.2.1")):
            pass


def test_every_address_is_of_both_families() -> None:
    with contextlib.closing(create_listener("0.0.0.0", None)) as listener:
        assert listener.getsockname()[0] in {"::", "0.0.0.0"}


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        ({"tls_min_version": "V"}, 'unknown tls version "V"'),
        ({"tls_cipher_suites": ("A", "B")}, "Cipher suite A not supported or doesn't exist"),
        (
            {"tls_cipher_suites": ("TLS_ECDHE_RSA_WITH_RC4_128_SHA",)},
            "--tls-cipher-suites: this machine's OpenSSL has none of "
            "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        ),
        ({"tls_cert_file": "/nope"}, "missing filename for serving cert"),
        (
            {"tls_cert_file": "/nope", "tls_private_key_file": "/nope"},
            "open /nope: no such file or directory",
        ),
        (
            {"cert_dir": "/proc/x"},
            "error creating self-signed certificates: mkdir /proc/x: no such file or directory",
        ),
        (
            {"authentication": AuthenticationOptions(client_ca_file="/nope")},
            "unable to load client CA provider: open /nope: no such file or directory",
        ),
        (
            {"authentication": AuthenticationOptions(client_ca_file="/etc/passwd")},
            'unable to load client CA provider: error loading CA bundle for '
            '"client-ca-bundle::/etc/passwd": data does not contain any valid RSA or ECDSA '
            "certificates",
        ),
        (
            {"authentication": AuthenticationOptions(kubeconfig="/nope")},
            "failed to get delegated authentication kubeconfig: /nope: not a readable kubeconfig: ",
        ),
        (
            {"authorization": AuthorizationOptions(kubeconfig="/nope")},
            "failed to get delegated authorization kubeconfig: /nope: not a readable kubeconfig: ",
        ),
        (
            {"authorization": AuthorizationOptions(always_allow_paths=("/a*b",))},
            'only trailing * allowed in "a*b"',
        ),
    ],
)  # fmt: skip
async def test_an_invalid_option_is_an_error_of_one_line(
    own: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ServingError) as raised:
        async with _served(_options(**own)):  # type: ignore[arg-type]
            pass
    assert str(raised.value).startswith(complaint)
    assert "\n" not in str(raised.value)


async def test_a_key_of_another_certificate_is_an_error() -> None:
    options = _options(
        tls_cert_file=str(TLS / "server.pem"), tls_private_key_file=str(TLS / "client.key")
    )
    with pytest.raises(ServingError, match=r"^tls: "):
        async with _served(options):
            pass


async def test_cipher_suites_and_versions_are_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pem = str(TLS / "server.pem")
    given = {"tls_cert_file": pem, "tls_private_key_file": pem}
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_RSA_WITH_AES_128_CBC_SHA")
    async with _served(_options(**given, tls_cipher_suites=suites)) as server:
        assert await _spoken(server.url, ssl.TLSVersion.TLSv1_2) == (
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        )
    assert "Use of insecure cipher 'TLS_RSA_WITH_AES_128_CBC_SHA' detected." in caplog.text
    async with _served(_options(**given, tls_min_version="VersionTLS13")) as server:
        assert (await _spoken(server.url, ssl.TLSVersion.TLSv1_3))[0] == "TLSv1.3"
        with pytest.raises(OSError):  # an SSLError, or the connection is just gone
            await _spoken(server.url, ssl.TLSVersion.TLSv1_2)
    async with _served(_options(**given, tls_cipher_suites=("TLS_AES_128_GCM_SHA256",))) as server:
        with pytest.raises(OSError):  # an SSLError, or the connection is just gone
            await _spoken(server.url, ssl.TLSVersion.TLSv1_2)


async def _spoken(url: str, version: ssl.TLSVersion) -> tuple[str, str]:
    """Version and cipher of a connection with a client that speaks this version alone."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    host, _, port = url.removeprefix("https://").rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    connection = writer.get_extra_info("ssl_object")
    spoken = connection.version(), connection.cipher()[0]
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
    return spoken


async def _certificate_for(url: str, name: str) -> str:
    """Return the subject of the certificate for a client that names a host."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=name)
    connection = writer.get_extra_info("ssl_object")
    certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True))
    writer.close()
    return certificate.subject.rfc4514_string()


async def test_a_certificate_is_chosen_by_the_host_that_the_client_names() -> None:
    server_pem, named_pem = str(TLS / "server.pem"), str(TLS / "named.pem")
    options = _options(
        tls_cert_file=server_pem,
        tls_private_key_file=server_pem,
        tls_sni_cert_keys=(NamedCertKey(named_pem, named_pem, ("*.example.com", "exact.org")),),
    )
    async with _served(options) as server:
        default = await _certificate_for(server.url, "localhost")
        assert "named" not in default
        for name in ("a.example.com", "exact.org", "EXACT.org"):
            assert "named" in await _certificate_for(server.url, name)
        for name in ("example.com", "a.b.example.com", "other.org"):
            assert await _certificate_for(server.url, name) == default


async def test_a_serving_certificate_that_expires_is_named_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = generate_self_signed("127.0.0.1", now=0)
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    options = _options(tls_cert_file=str(files[0]), tls_private_key_file=str(files[1]))
    end = x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc.timestamp()
    clock, scheduler = VirtualClock(end - 7 * 86400 - 86400), Served()
    async with _served(options, clock, scheduler):
        assert list(scheduler.metrics.serving_certificate_expiration.read()) == [((), end)]
        for days, total, text in ((0.5, 0, ""), (0.6, 1, "expires soon"), (7.1, 8, "has expired")):
            await clock.advance(days * 86400)
            found = [message for message in caplog.messages if "certificate" in message]
            assert len(found) == total
            assert [message.endswith(text) for message in found[-1:]] == [True] * bool(total)
