"""The port's flags: upstream's names, defaults and complaints."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from scheduler.flags.serving import serving_flags
from scheduler.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ServingError,
    ServingOptions,
)

GOT: list[ServingOptions] = []


@click.command()
@click.option("--other", default="")
@serving_flags
def command(other: str, serving: ServingOptions) -> None:
    GOT.append(serving)
    click.echo(other)


def _options(*arguments: str) -> ServingOptions:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return GOT.pop()


def test_defaults_are_upstreams() -> None:
    options = _options()
    assert options == ServingOptions()
    assert (options.bind_address, options.secure_port) == ("0.0.0.0", 10259)
    assert options.authorization.always_allow_paths == ("/healthz", "/readyz", "/livez")
    assert options.enabled


def test_all_of_them_can_be_set() -> None:
    options = _options(
        "--bind-address=::1", "--secure-port=1234", "--cert-dir=d", "--tls-cert-file=c",
        "--tls-private-key-file=k", "--tls-min-version=VersionTLS13", "--tls-cipher-suites=A,B",
        "--client-ca-file=ca", "--authentication-kubeconfig=n", "--authentication-skip-lookup",
        "--authentication-tolerate-lookup-failure=false", "--other=x",
        "--authentication-token-webhook-cache-ttl=1m", "--authorization-kubeconfig=z",
        "--authorization-always-allow-paths=/a,/b*",
        "--authorization-webhook-cache-authorized-ttl=500ms",
        "--authorization-webhook-cache-unauthorized-ttl=0",
    )  # fmt: skip
    assert options == ServingOptions(
        bind_address="::1",
        secure_port=1234,
        cert_dir="d",
        tls_cert_file="c",
        tls_private_key_file="k",
        tls_min_version="VersionTLS13",
        tls_cipher_suites=("A", "B"),
        authentication=AuthenticationOptions(
            kubeconfig="n",
            client_ca_file="ca",
            skip_lookup=True,
            tolerate_lookup_failure=False,
            cache_seconds=60.0,
        ),
        authorization=AuthorizationOptions(
            kubeconfig="z",
            always_allow_paths=("/a", "/b*"),
            authorized_seconds=0.5,
            unauthorized_seconds=0.0,
        ),
    )


def test_a_yes_or_no_flag_stands_alone_before_others() -> None:
    options = _options("--authentication-skip-lookup", "--secure-port=0")
    assert options.authentication.skip_lookup
    assert not options.enabled


def test_no_path_need_be_open() -> None:
    assert _options("--authorization-always-allow-paths=").authorization.always_allow_paths == ()


def test_a_free_port_may_be_taken() -> None:
    options = _options("--secure-port=auto")
    assert options.secure_port is None
    assert options.enabled
    options.validate()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--secure-port=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("--bind-address=300.1.1.1", 'failed to parse IP: "300.1.1.1"'),
        ("--authentication-token-webhook-cache-ttl=x", 'time: invalid duration "x"'),
        ("--authentication-skip-lookup=perhaps", "'perhaps' is not a valid boolean"),
    ],
)
def test_invalid_flags_are_refused_with_a_reason(arguments: str, complaint: str) -> None:
    result = CliRunner().invoke(command, [arguments])
    assert result.exit_code == 2
    assert complaint in result.output


@pytest.mark.parametrize(
    ("port", "complaint"),
    [
        (
            65536,
            "--secure-port 65536 must be between 0 and 65535, inclusive. "
            "0 for turning off secure port",
        ),
        (
            -1,
            "--secure-port -1 must be between 0 and 65535, inclusive. "
            "0 for turning off secure port",
        ),
    ],
)
def test_a_port_is_a_port(port: int, complaint: str) -> None:
    with pytest.raises(ServingError) as raised:
        ServingOptions(secure_port=port).validate()
    assert str(raised.value) == complaint
