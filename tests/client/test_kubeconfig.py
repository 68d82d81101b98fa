"""From kubeconfig files to connections, without a server or a plugin."""

import base64
import sys
from pathlib import Path
from typing import Any

# Costs a third of a second: better here than in the first test that needs it.
import kubernetes.config.kube_config  # noqa: F401
import pytest
import yaml
from cryptography import x509

from scheduler.client import Connection, KubeconfigError
from scheduler.client.credentials import Credentials
from scheduler.client.kubeconfig import connect, connection_from_kubeconfig, connection_in_cluster
from scheduler.testing import VirtualClock
from tests.client import tls_directory
from tests.client.objects import InstantClock

CLOCK = InstantClock()
TLS = tls_directory()


def config(
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    **more: object,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **(context or {})}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://host:8080", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def written(path: Path, document: object) -> Path:
    path.write_text(
        document if isinstance(document, str) else yaml.safe_dump(document), encoding="utf-8"
    )
    return path


def loaded(tmp_path: Path, document: object, **options: Any) -> Connection:
    path = written(tmp_path / "config", document)
    return connection_from_kubeconfig([path], clock=CLOCK, **options)


async def header(credentials: Credentials) -> str | None:
    return await credentials.authorization()


async def test_a_context_names_server_user_and_namespace(tmp_path: Path) -> None:
    connection = loaded(tmp_path, config({"token": "t"}, context={"namespace": "mine"}))

    assert connection.base_url == "http://host:8080"
    assert connection.namespace == "mine"
    assert await header(connection.credentials) == "Bearer t"
    assert connection.tls is None


def test_a_mere_url_is_read_without_the_official_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.config.kube_config", None)
    assert loaded(tmp_path, config()).base_url == "http://host:8080"
    with pytest.raises(KubeconfigError, match="kube_config"):
        loaded(tmp_path, config({"token": "t"}))


async def test_without_a_user_there_are_no_credentials(tmp_path: Path) -> None:
    connection = loaded(tmp_path, config(context={"user": ""}))

    assert await header(connection.credentials) is None
    assert connection.namespace == "default"


async def test_user_name_and_password_are_basic_auth(tmp_path: Path) -> None:
    connection = loaded(tmp_path, config({"username": "u", "password": "p:w"}))

    assert await header(connection.credentials) == ("Basic " + base64.b64encode(b"u:p:w").decode())


async def test_a_token_file_wins_over_a_token_and_is_relative_to_the_kubeconfig(
    tmp_path: Path,
) -> None:
    written(tmp_path / "token", "from-file\n")
    connection = loaded(tmp_path, config({"token": "t", "tokenFile": "token"}))

    assert await header(connection.credentials) == "Bearer from-file"


async def test_a_user_may_act_as_another(tmp_path: Path) -> None:
    user = {
        "act-as": "jane",
        "act-as-uid": "7",
        "act-as-groups": ["a", "b"],
        "act-as-user-extra": {"acme.com/project": ["x"]},
    }

    assert loaded(tmp_path, config(user)).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-acme.com%2Fproject", "x"),
    )


def test_cluster_options_reach_the_connection(tmp_path: Path) -> None:
    cluster = {
        "server": "https://host:6443/",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "kubernetes.default",
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
    }
    connection = loaded(tmp_path, config(cluster=cluster))

    assert connection.base_url == "https://host:6443"
    assert connection.tls is not None
    assert not connection.tls.context.check_hostname
    assert connection.server_hostname == "kubernetes.default"
    assert connection.proxy == "http://proxy:3128"
    assert not connection.compression


def test_the_master_flag_replaces_the_address_and_nothing_else(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config({"token": "t"}))
    connection = connect(clock=CLOCK, kubeconfig=str(path), master="http://other:1", environ={})

    assert connection.base_url == "http://other:1"
    assert connection.credentials.header == "Bearer t"  # type: ignore[attr-defined]


def test_of_several_files_the_first_counts_entry_by_entry(tmp_path: Path) -> None:
    """kubectl merges like this; the first file that names a current context decides it."""
    first = written(
        tmp_path / "first",
        {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": "http://first"}}],
        },
    )
    second = written(tmp_path / "second", config(context={"namespace": "second"}))
    third = written(tmp_path / "third", {"current-context": "elsewhere"})
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}::{second}:{third}"}
    connection = connect(clock=CLOCK, environ=environ)

    assert (connection.base_url, connection.namespace) == ("http://first", "second")


def test_the_home_directory_is_the_last_resort(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube" / "config", config())

    assert connect(clock=CLOCK, environ={"HOME": str(tmp_path)}).base_url == "http://host:8080"


def test_a_bare_master_needs_no_file(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    assert connect(clock=CLOCK, master="127.0.0.1:1", environ=environ).base_url == (
        "http://127.0.0.1:1"
    )


def test_no_configuration_at_all_is_an_error_that_lists_the_sources(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as caught:
        connect(clock=CLOCK, environ={"HOME": str(tmp_path)})

    assert str(caught.value) == (
        "no API server: expected --kubeconfig, --master, KUBECONFIG, a file ~/.kube/config, "
        "or to run in a cluster"
    )


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("a: [", "{path}: not a readable kubeconfig: "),
        ("just a text", "{path}: expected a mapping with clusters, contexts and users"),
        ("", "{path}: expected a mapping with clusters, contexts and users"),
        ({"clusters": []}, "{path}: expected a current-context"),
        (config(contexts=[]), "{path}: there is no context named 'c'"),
        (config(clusters=None), "{path}: there is no cluster named 'k'"),
        (config(users=[]), "{path}: there is no user named 'u'"),
        (config(users={"u": {}}), "{path}: users: expected a list"),
        (
            config(clusters=[{"name": "k", "cluster": "http://host"}]),
            "{path}: cluster 'k': expected a mapping",
        ),
        (config(cluster={"server": ""}), "{path}: cluster: expected a server"),
        (
            config(cluster={"server": "ldap://host"}),
            "{path}: cluster.server: expected a URL such as https://host:6443, got 'ldap://host'",
        ),
        (
            config(cluster={"proxy-url": "socks5://proxy"}),
            "{path}: cluster.proxy-url: expected an http or https URL, got 'socks5://proxy'",
        ),
        (
            config(cluster={"certificate-authority-data": "?", "server": "https://host"}),
            "{path}: cluster 'k': certificate-authority-data: expected base64: ",
        ),
        (
            config({"client-key-data": "abc"}),
            "{path}: user 'u': client-key-data: expected base64: ",
        ),
        (
            config(cluster={"certificate-authority": "missing.pem", "server": "https://host"}),
            "{path}: File does not exist: {directory}/missing.pem",
        ),
        (
            config(
                cluster={
                    "certificate-authority-data": base64.b64encode(b"no certificate").decode(),
                    "server": "https://host",
                }
            ),
            "{path}: certificate-authority: ",
        ),
        (
            config(
                cluster={
                    "certificate-authority": "x",
                    "insecure-skip-tls-verify": True,
                    "server": "https://host",
                }
            ),
            "{path}: cluster: insecure-skip-tls-verify and a certificate authority exclude each "
            "other",
        ),
        (
            config({"auth-provider": {"name": "gcp"}}),
            "{path}: user 'u': expected auth-provider to be oidc, got 'gcp'; use an exec plugin",
        ),
        (config({"tokenFile": "missing"}), "{directory}/missing: the token cannot be read: "),
        (config({"exec": "plugin"}), "{path}: user 'u': exec: expected a mapping"),
        (
            config({"exec": {"command": "x"}}),
            "{path}: user 'u': exec: exec: malformed request. missing key 'apiVersion'",
        ),
    ],
)
def test_a_broken_kubeconfig_is_one_line_with_the_place(
    tmp_path: Path, document: object, complaint: str
) -> None:
    with pytest.raises(KubeconfigError) as caught:
        loaded(tmp_path, document)

    expected = complaint.format(path=tmp_path / "config", directory=tmp_path)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    with pytest.raises(KubeconfigError, match=f"^{path}: not a readable kubeconfig: .*No such"):
        connect(clock=CLOCK, kubeconfig=str(path), environ={})


async def test_an_oidc_token_that_is_fresh_is_used(tmp_path: Path) -> None:
    far_future = base64.urlsafe_b64encode(b'{"exp":4102444800}').decode().rstrip("=")
    token = f"e30.{far_future}.sig"
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
    connection = loaded(tmp_path, config(user))

    assert await header(connection.credentials) == f"Bearer {token}"


# --- in a cluster ---

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_text(
        (tls_directory() / "ca.pem").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "token").write_text("pod-token\n", encoding="utf-8")
    (tmp_path / "namespace").write_text("kube-system", encoding="utf-8")
    return tmp_path


async def test_a_pod_connects_by_its_service_account(service_account: Path) -> None:
    connection = connect(clock=CLOCK, environ=IN_CLUSTER, service_account=service_account)

    assert connection.base_url == "https://10.0.0.1:443"
    assert connection.namespace == "kube-system"
    assert connection.tls is not None
    assert await header(connection.credentials) == "Bearer pod-token"


async def test_a_service_accounts_token_is_read_again(service_account: Path) -> None:
    clock = InstantClock()
    connection = connection_in_cluster(
        clock=clock, environ=IN_CLUSTER, service_account=service_account
    )
    (service_account / "token").write_text("rotated", encoding="utf-8")
    clock.time += 61

    assert await header(connection.credentials) == "Bearer rotated"


def test_an_ipv6_service_is_put_in_brackets(service_account: Path) -> None:
    environ = {**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    connection = connect(clock=CLOCK, environ=environ, service_account=service_account)

    assert connection.base_url == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_service_account_without_its_files_is_an_error(
    service_account: Path, missing: str
) -> None:
    (service_account / missing).unlink()
    with pytest.raises(KubeconfigError, match=f"^in cluster: {service_account}: .*not exist"):
        connect(clock=CLOCK, environ=IN_CLUSTER, service_account=service_account)


def test_a_kubeconfig_helps_where_the_service_account_does_not(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config())
    environ = {**IN_CLUSTER, "KUBECONFIG": str(path)}
    connection = connect(clock=CLOCK, environ=environ, service_account=tmp_path / "none")

    assert connection.base_url == "http://host:8080"


def test_a_client_certificate_that_has_expired_is_named_with_its_date(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    user = {"client-certificate": str(TLS / "client.pem"), "client-key": str(TLS / "client.key")}
    path = written(tmp_path / "config", config(user, {"server": "https://host:6443"}))
    end = x509.load_pem_x509_certificate((TLS / "client.pem").read_bytes()).not_valid_after_utc
    connection_from_kubeconfig([path], clock=VirtualClock(end.timestamp() - 1))
    assert caplog.messages == []
    connection_from_kubeconfig([path], clock=VirtualClock(end.timestamp()))
    date = end.strftime("%Y-%m-%d %H:%M UTC")
    assert caplog.messages == [f"the client certificate of user 'u' in {path} expired on {date}"]
