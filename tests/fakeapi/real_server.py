"""Starts a real kube-apiserver with an etcd of its own, to record its answers or to compare ours.

    python -m tests.fakeapi.real_server DIRECTORY [--port 16443]

DIRECTORY holds the binaries `kube-apiserver` (v1.36.3) and `etcd` (3.6). Both are Go programs that
`go build` makes from a module that requires `k8s.io/kubernetes v1.36.3` and repeats its `replace`
lines: `k8s.io/kubernetes/cmd/kube-apiserver` and `go.etcd.io/etcd/server/v3`. It prints the URL and
the token that others want on their command line, and runs until a signal ends it.

The server allows everything to the one who has the token. Of the admission plugins that are on by
default three are off: there is no controller to make the accounts of ServiceAccount, or to finish
what TaintNodesByCondition and StorageObjectInUseProtection begin.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN: Final = "recorder"
_OFF: Final = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")
_READY_SECONDS: Final = 90.0


@contextlib.contextmanager
def running(binaries: Path, port: int) -> Iterator[str]:
    """A server on that port of loopback, in a directory that goes with it; answers its URL.

    Raises TimeoutError if it does not become ready; the log is then in the error.
    """
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        client = f"http://127.0.0.1:{port + 1}"
        peer = f"http://127.0.0.1:{port + 2}"
        stack.enter_context(_process(_etcd(binaries, directory, client, peer), directory / "etcd"))
        log = directory / "apiserver"
        stack.enter_context(_process(_apiserver(binaries, directory, client, port), log))
        url = f"https://127.0.0.1:{port}"
        _wait(url, log)
        yield url


def context() -> ssl.SSLContext:
    """TLS to a server that made its certificate itself."""
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def _etcd(binaries: Path, directory: Path, client: str, peer: str) -> list[str]:
    return [
        str(binaries / "etcd"),
        f"--data-dir={directory}/data",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def _apiserver(binaries: Path, directory: Path, etcd: str, port: int) -> list[str]:
    (directory / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n", encoding="utf-8")
    key = directory / "key"
    make = ["openssl", "genrsa", "-out", str(key), "2048"]
    subprocess.run(make, check=True, capture_output=True)
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory}",
        f"--token-auth-file={directory}/tokens",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--authorization-mode=AlwaysAllow",
        f"--disable-admission-plugins={','.join(_OFF)}",
    ]


@contextlib.contextmanager
def _process(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as sink, subprocess.Popen(command, stdout=sink, stderr=sink) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(url: str, log: Path) -> None:
    asked = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    end = time.monotonic() + _READY_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(asked, timeout=5, context=context()).close()
            return
        time.sleep(0.3)
    raise TimeoutError(log.read_text(encoding="utf-8", errors="replace")[-3000:])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--port", type=int, default=16443)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt), running(options.directory, options.port) as url:
        print(url, TOKEN, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
