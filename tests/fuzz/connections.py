"""One connection that sends raw bytes and reads the answer."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl

from .wire import Answer


class Hang(Exception):
    """The server did not answer in time."""


class Connection:
    """Connects again if the server has closed the connection after an answer."""

    def __init__(
        self,
        port: int,
        *,
        patience_seconds: float,
        tls: ssl.SSLContext | None = None,
        token: str = "",
    ) -> None:
        self._port = port
        self._patience = patience_seconds
        self._tls = tls
        self._more = f"\r\nAuthorization: Bearer {token}\r\n".encode() if token else b"\r\n"
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def exchange(self, method: str, sent: bytes) -> Answer:
        """Send a request and read its answer; of a watch only the beginning.

        Raises Hang if there is no answer, ConnectionError if the server does not listen.
        """
        try:
            return self._exchange(method, sent)
        except TimeoutError as error:
            self.close()
            raise Hang(f"no answer for {self._patience:.0f} s") from error
        except (ConnectionError, http.client.HTTPException) as error:
            self.close()
            return Answer(0, body=repr(error).encode())

    def _exchange(self, method: str, sent: bytes) -> Answer:
        connected = self._connected()
        with contextlib.suppress(ConnectionError):  # refused in the middle of a body: an answer
            connected.sendall(sent.replace(b"\r\n", self._more, 1))
        response = http.client.HTTPResponse(connected, method=method)
        response.begin()
        if response.chunked and method != "HEAD":
            self.close()
            return Answer(response.status, is_stream=True)
        body = response.read()
        if response.will_close:
            self.close()
        return Answer(response.status, body=body)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            made = socket.create_connection(("127.0.0.1", self._port))
            self._socket = (
                self._tls.wrap_socket(made, server_hostname="127.0.0.1") if self._tls else made
            )
            self._socket.settimeout(self._patience)
        return self._socket
