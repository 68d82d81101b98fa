from pathlib import Path


def tls_directory() -> Path:
    """Keys and certificates for tests only, good until 2119.

    `ca.pem` has signed `server.pem` (127.0.0.1 and kubernetes.default), `named.pem`
    (kubernetes.default alone) and `client.pem`.
    """
    return Path(__file__).parent / "tls"
