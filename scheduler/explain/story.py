"""Fetch a pod's story from a running scheduler's port."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from scheduler.client import (
    ClientError,
    Forbidden,
    NotFound,
    RestClient,
    Unauthorized,
    connection_to,
)
from scheduler.client.client_tls import ClientTls
from scheduler.client.connection import tls_context
from scheduler.client.credentials import StaticCredentials
from scheduler.reports.model import Story

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.client import Connection
    from scheduler.clock import Clock

_TIMEOUT_SECONDS: Final = 10.0
_DEFAULT_NAMESPACE: Final = "default"
#: Before the name of a pod group.
_GROUP_PREFIX: Final = "group/"
#: The TLS library's text for a certificate without a trusted issuer.
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"


class StoryError(Exception):
    """The story cannot be read. The text is one line with the reason and a remedy."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchedulerPort:
    """The address of a scheduler's own port, and the credentials for it."""

    url: str
    token: str = ""
    certificate_authority: str = ""
    verify: bool = True

    async def story(self, pod: str, *, clock: Clock) -> Story:
        """Return the story of a pod, `name` or `namespace/name`. Raises StoryError.

        `group/name` and `group/namespace/name` name a pod group.
        """
        is_group = pod.startswith(_GROUP_PREFIX)
        namespace, _, name = pod.removeprefix(_GROUP_PREFIX).rpartition("/")
        if not name or "/" in namespace:
            raise StoryError(
                "story: expected NAME or NAMESPACE/NAME, or group/ before it for a pod group, "
                f"got {pod!r}"
            )
        async with self._client(clock) as client:
            try:
                return await self._get(
                    client, namespace or _DEFAULT_NAMESPACE, name, is_group=is_group
                )
            except ClientError as error:
                raise StoryError(self._complaint(error)) from error

    async def stories(self, pods: Iterable[str], *, clock: Clock) -> dict[str, Story]:
        """Return the stories of pods, `namespace/name`, that have one. Raises StoryError."""
        found = {}
        async with self._client(clock) as client:
            for pod in pods:
                namespace, _, name = pod.partition("/")
                try:
                    found[pod] = await self._get(client, namespace, name)
                except NotFound:
                    continue
                except ClientError as error:
                    raise StoryError(self._complaint(error)) from error
        return found

    def _client(self, clock: Clock) -> RestClient:
        return RestClient(
            self._connection(),
            clock=clock,
            user_agent="kubesched-explain",
            timeout_seconds=_TIMEOUT_SECONDS,
        )

    async def _get(
        self, client: RestClient, namespace: str, name: str, *, is_group: bool = False
    ) -> Story:
        kind = "podgroups" if is_group else "pods"
        path = f"/debug/{kind}/{quote(namespace)}/{quote(name)}"
        body = await client.request("GET", path)
        try:
            return msgspec.json.decode(body, type=Story)
        except msgspec.DecodeError as error:
            raise StoryError(f"{self.url}{path}: not a pod's story: {error}") from error

    def _connection(self) -> Connection:
        connection = connection_to(self.url, environ=os.environ, source="--server")
        changes: dict[str, object] = {}
        if connection.tls is not None:
            file = self.certificate_authority
            try:
                tls = ClientTls(lambda: tls_context(ca_file=file or None, verify=self.verify))
            except OSError as error:
                words = error.strerror or str(error)
                raise StoryError(f"--certificate-authority: {file}: {words}") from error
            changes["tls"] = tls
        if self.token:
            changes["credentials"] = StaticCredentials(f"Bearer {self.token}")
        return dataclasses.replace(connection, **changes)  # type: ignore[arg-type]

    def _complaint(self, error: ClientError) -> str:
        text = f"{self.url}: {error}" if self.url not in str(error) else str(error)
        if isinstance(error, Unauthorized):
            return f"{text}: the scheduler does not accept this --token"
        if isinstance(error, Forbidden):
            return (
                f"{text}; give a --token that may get it, or open the path to all with kubesched "
                "--authorization-always-allow-paths"
            )
        if _UNTRUSTED in text:
            return f"{text}; see --certificate-authority and --insecure-skip-tls-verify"
        return text
