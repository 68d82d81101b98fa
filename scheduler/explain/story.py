"""Fetch a pod's story from a running scheduler's port and print it as lines."""

from __future__ import annotations

import dataclasses
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from rich.console import Group
from rich.text import Text

from scheduler.client import ClientError, Forbidden, RestClient, Unauthorized, connection_to
from scheduler.client.connection import tls_context
from scheduler.client.credentials import StaticCredentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from scheduler.client import Connection
    from scheduler.clock import Clock

_TIMEOUT_SECONDS: Final = 10.0
_DEFAULT_NAMESPACE: Final = "default"
#: The TLS library's text for a certificate without a trusted issuer.
_UNTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"

_STYLES: Final = {
    "attempt": "bold",
    "bound": "bold green",
    "nominated": "magenta",
    "waiting": "yellow",
    "asked": "dim",
}


class StoryError(Exception):
    """The story cannot be read. The text is one line with the reason and a remedy."""


class Hint(msgspec.Struct, frozen=True):
    """A plugin's queueing hint for an event."""

    plugin: str = ""
    event: str = ""
    answer: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """A plugin's rejection of some nodes."""

    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    nodes: int = 0


class StoryEntry(msgspec.Struct, frozen=True):
    """One entry of a story. `time` is in seconds since the epoch."""

    time: float
    kind: str
    text: str
    hints: tuple[Hint, ...] = ()
    verdicts: tuple[Verdict, ...] = ()


class Story(msgspec.Struct, frozen=True):
    """The entries of a pod's story, oldest first. `dropped` counts entries no longer kept."""

    namespace: str
    name: str
    uid: str = ""
    dropped: int = 0
    entries: tuple[StoryEntry, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchedulerPort:
    """The address of a scheduler's own port, and the credentials for it."""

    url: str
    token: str = ""
    certificate_authority: str = ""
    verify: bool = True

    async def story(self, pod: str, *, clock: Clock) -> Story:
        """Return the story of a pod, `name` or `namespace/name`. Raises StoryError."""
        namespace, _, name = pod.rpartition("/")
        if not name or "/" in namespace:
            raise StoryError(f"--story: expected NAME or NAMESPACE/NAME, got {pod!r}")
        path = f"/debug/pods/{quote(namespace or _DEFAULT_NAMESPACE)}/{quote(name)}"
        client = RestClient(
            self._connection(),
            clock=clock,
            user_agent="kubesched-explain",
            timeout_seconds=_TIMEOUT_SECONDS,
        )
        async with client:
            try:
                body = await client.request("GET", path)
            except ClientError as error:
                raise StoryError(self._complaint(error)) from error
        try:
            return msgspec.json.decode(body, type=Story)
        except msgspec.DecodeError as error:
            raise StoryError(f"{self.url}{path}: not a pod's story: {error}") from error

    def _connection(self) -> Connection:
        connection = connection_to(self.url, environ=os.environ, source="--server")
        changes: dict[str, object] = {}
        if connection.ssl_context is not None:
            file = self.certificate_authority
            try:
                context = tls_context(ca_file=file or None, verify=self.verify)
            except OSError as error:
                words = error.strerror or str(error)
                raise StoryError(f"--certificate-authority: {file}: {words}") from error
            changes["ssl_context"] = context
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


def story_lines(story: Story) -> RenderableType:
    """Return one line per entry, with the plugins' verdicts and hints below it."""
    head = Text.assemble((f"{story.namespace}/{story.name}", "bold"))
    if story.uid:
        head.append(f"  {story.uid}", "dim")
    lines = [head]
    if story.dropped:
        lines.append(Text(f"({story.dropped} older entries are forgotten)", "dim"))
    width = max((len(entry.kind) for entry in story.entries), default=0)
    for entry in story.entries:
        since_seconds = entry.time - story.entries[0].time
        start = f"{_utc(entry.time)}  {f'+{since_seconds:.3f}s':>12}  "
        line = Text(start, "dim")
        line.append(f"{entry.kind:<{width}}  ", "cyan")
        line.append(entry.text, _STYLES.get(entry.kind, ""))
        lines.append(line)
        indent = " " * (len(start) + width + 4)
        lines += [Text(indent + detail, "dim") for detail in _details(entry)]
    return Group(*lines)


def _details(entry: StoryEntry) -> Iterator[str]:
    for verdict in entry.verdicts:
        nodes = f"{verdict.nodes} node{'' if verdict.nodes == 1 else 's'}"
        yield f"{verdict.plugin} on {nodes}: {verdict.code}: {', '.join(verdict.reasons)}"
    for hint in entry.hints:
        yield f"{hint.plugin} on {hint.event}: {hint.answer}"


def _utc(seconds: float) -> str:
    # Rounded first: the format would truncate to milliseconds.
    moment = datetime.fromtimestamp(round(seconds, 3), UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00") + "Z"
