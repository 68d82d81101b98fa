"""The certificate authority of the API server is read again, at most every five minutes."""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.client.client_tls import ClientTls, Reload
from scheduler.client.connection import tls_context
from tests.client import tls_directory

CERTIFICATE = (tls_directory() / "ca.pem").read_bytes()
OTHER = (tls_directory() / "server.pem").read_bytes()


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    file = tmp_path / "ca.crt"
    file.write_bytes(CERTIFICATE)
    return file


@pytest.fixture
def tls(authority: Path) -> ClientTls:
    """One that has been used for the first time at 1000 s."""
    made = ClientTls(lambda: tls_context(ca_file=str(authority)), authority=authority)
    assert made.refresh(1000) is None
    return made


def subjects(context: ssl.SSLContext) -> list[object]:
    return [certificate["subject"] for certificate in context.get_ca_certs()]


@pytest.mark.parametrize(
    ("change", "reload", "messages"),
    [
        (
            lambda file: file.write_bytes(OTHER),
            Reload("success", "updated"),
            ["CA content changed, updating transport", "Transport updated for CA rotation"],
        ),
        (
            lambda file: file.write_bytes(CERTIFICATE),
            Reload("success", "unchanged"),
            ["CA file unchanged, skipping transport rotation"],
        ),
        (
            lambda file: file.write_bytes(b""),
            Reload("failure", "empty"),
            ["CA file empty, skipping transport rotation"],
        ),
        (
            lambda file: file.write_bytes(b"not a certificate"),
            Reload("failure", "ca_parse_error"),
            ["CA content changed, updating transport", "Failed to parse CA data from file"],
        ),
        (
            lambda file: file.unlink(),
            Reload("failure", "read_error"),
            ["Failed to read CA data from file"],
        ),
    ],
    ids=["other", "same", "empty", "no certificate", "gone"],
)
def test_only_good_content_that_is_new_is_trusted(
    authority: Path,
    tls: ClientTls,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path], object],
    reload: Reload,
    messages: list[str],
) -> None:
    before = tls.context
    change(authority)
    with caplog.at_level(logging.DEBUG):
        assert tls.refresh(1300) == reload
    assert [record.msg for record in caplog.records] == ["Checking CA file content", *messages]
    assert (tls.context is before) == (reload.reason != "updated")


def test_a_file_is_not_read_before_five_minutes_have_passed(
    authority: Path, tls: ClientTls
) -> None:
    before = subjects(tls.context)
    authority.write_bytes(OTHER)
    assert tls.refresh(1299.9) is None
    assert subjects(tls.context) == before
    assert tls.refresh(1300) == Reload("success", "updated")
    assert subjects(tls.context) != before
    assert tls.refresh(1599.9) is None
    assert tls.refresh(1600) == Reload("success", "unchanged")


def test_content_that_could_not_be_read_is_tried_again(authority: Path, tls: ClientTls) -> None:
    authority.unlink()
    assert tls.refresh(1300) == Reload("failure", "read_error")
    authority.write_bytes(OTHER)
    assert tls.refresh(1599.9) is None
    assert tls.refresh(1600) == Reload("success", "updated")
