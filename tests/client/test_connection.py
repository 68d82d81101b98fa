"""Bare URLs and proxies."""

import pytest

from scheduler.client import KubeconfigError, connection_to
from scheduler.client.connection import proxy_from_environment


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://host:6443/", "https://host:6443"),
        ("https://host/k8s/clusters/c-1/", "https://host/k8s/clusters/c-1"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_a_bare_url_is_a_connection(url: str, expected: str) -> None:
    connection = connection_to(url)

    assert connection.base_url == expected
    assert (connection.tls is not None) == expected.startswith("https")


@pytest.mark.parametrize(
    "url", ["", "ftp://host", "http://", "http://host:port", "http://host?x=1", "http://u:p@host"]
)
def test_an_invalid_url_is_an_error_that_names_the_flag(url: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        connection_to(url)

    assert str(caught.value) == (f"--master: expected a URL such as https://host:6443, got {url!r}")


PROXIES = {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "plain:3128"}


@pytest.mark.parametrize(
    ("url", "no_proxy", "expected"),
    [
        ("https://api.example.com", "", "http://proxy:3128"),
        ("http://api.example.com", "", "http://plain:3128"),
        ("https://localhost:6443", "", None),
        ("https://127.0.0.1:6443", "", None),
        ("https://api.example.com", "*", None),
        ("https://api.example.com", "other.com, example.com", None),
        ("https://api.example.com", ".example.com", None),
        ("https://api.example.com", "*.example.com", None),
        ("https://example.com", ".example.com", "http://proxy:3128"),
        ("https://badexample.com", "example.com", "http://proxy:3128"),
        ("https://10.1.2.3:6443", "10.0.0.0/8", None),
        ("https://11.1.2.3:6443", "10.0.0.0/8", "http://proxy:3128"),
        ("https://10.1.2.3", "10.1.2.3", None),
        ("https://api.example.com:6443", "api.example.com:6443", None),
        ("https://api.example.com:6443", "api.example.com:443", "http://proxy:3128"),
    ],
)
def test_the_environment_names_a_proxy_and_hosts_without_proxy(
    url: str, no_proxy: str, expected: str | None
) -> None:
    assert proxy_from_environment(url, {**PROXIES, "NO_PROXY": no_proxy}) == expected


def test_without_an_environment_there_is_no_proxy() -> None:
    assert proxy_from_environment("https://api.example.com", {}) is None
    assert connection_to("https://api.example.com", environ=PROXIES).proxy == "http://proxy:3128"
