"""Command-line options by the value that they make: one list of options and one function each."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fakeapi.admission.selection import KNOWN, OFF
from fakeapi.decoding.bodies import BODY_BYTES_MAX
from fakeapi.faults import FaultOptions
from fakeapi.security.options import MODES, Security
from fakeapi.server import ServerOptions
from fakeapi.state.keeper import StateFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_DEFAULTS: Final = ServerOptions()
#: Half of SQLite's largest integer: versions never outgrow it.
_VERSION_MAX: Final = 2**62
_KNOWN: Final = ", ".join(plugin.name for plugin in KNOWN)
_ON: Final = ", ".join(plugin.name for plugin in KNOWN if plugin.name not in OFF)


def _given(_context: object, _parameter: object, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return None for an option that was not given; `--admission-plugins ""` is an empty list."""
    return value or None


SERVER_OPTIONS: Final = [
    click.Option(
        ["--enable-admission-plugins"],
        metavar="NAMES",
        multiple=True,
        help="Plugins to run in addition to those that are on by default, with commas between "
        f"them. Known are {_KNOWN}; on by default are {_ON}.",
    ),
    click.Option(
        ["--disable-admission-plugins"],
        metavar="NAMES",
        multiple=True,
        help="Plugins not to run although they are on by default; those of kube-apiserver that "
        "are not part of this server may be named, too.",
    ),
    click.Option(
        ["--admission-plugins"],
        metavar="NAMES",
        multiple=True,
        callback=_given,
        help="Exactly the plugins to run; an empty text for none at all.",
    ),
    click.Option(
        ["--runtime-config"],
        metavar="VERSION=true",
        multiple=True,
        help="API versions to turn on: api/alpha=true for all alpha versions, or one version, as "
        "scheduling.k8s.io/v1alpha2=true; with commas between them.",
    ),
    click.Option(
        ["--managed-fields/--no-managed-fields"],
        default=_DEFAULTS.managed_fields,
        show_default=True,
        help="Record who wrote which field; without, only of objects that are applied.",
    ),
    click.Option(
        ["--event-log-size"],
        default=_DEFAULTS.event_log_size,
        show_default=True,
        type=click.IntRange(min=1),
        help="Changes of each resource that a watch may go back.",
    ),
    click.Option(
        ["--event-log-bytes"],
        default=_DEFAULTS.event_log_bytes,
        show_default=True,
        type=click.IntRange(min=1),
        help="Bytes of changes of each resource that a watch may go back, counted as JSON.",
    ),
    click.Option(
        ["--event-ttl", "event_ttl_seconds"],
        metavar="SECONDS",
        default=_DEFAULTS.event_ttl_seconds,
        show_default=True,
        type=click.FloatRange(min=0),
        help="Delete Events so long after their last write; 0 to keep them.",
    ),
    click.Option(
        ["--cel-seconds"],
        metavar="SECONDS",
        default=_DEFAULTS.cel_seconds,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        help="Processor time for the rules in CEL of one object.",
    ),
    click.Option(
        ["--write-timeout", "write_timeout_seconds"],
        metavar="SECONDS",
        default=_DEFAULTS.write_timeout_seconds,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        help="Disconnect clients that do not read their response or watch for this long.",
    ),
    click.Option(
        ["--initial-resource-version"],
        type=click.IntRange(1, _VERSION_MAX),
        help="First resource version; by default the time, so that versions grow over restarts.",
    ),
]
FAULT_OPTIONS: Final = [
    click.Option(
        ["--faults"],
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Faults to inject: YAML (fakeapi/faults/README.md), or a log of --fault-log whose "
        "faults are injected again, at the same requests. May be repeated.",
    ),
    click.Option(
        ["--fault-log", "log"],
        metavar="FILE.jsonl",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write each injected fault to this file, as JSON lines.",
    ),
    click.Option(
        ["--fault-log-size", "log_size"],
        default=FaultOptions().log_size,
        show_default=True,
        type=click.IntRange(min=1),
        help="Injected faults that are kept to be read and repeated.",
    ),
    click.Option(
        ["--admin-endpoint/--no-admin-endpoint"],
        default=True,
        show_default=True,
        help="Serve /_fakeapi/faults, where faults can be set and removed.",
    ),
]


SECURITY_OPTIONS: Final = [
    click.Option(
        ["--host"],
        default="127.0.0.1",
        show_default=True,
        help="Address to listen on; addresses other than loopback need authentication.",
    ),
    click.Option(
        ["--tls"],
        is_flag=True,
        help="Serve HTTPS with a new certificate; its authority, and an administrator's "
        "certificate, are in the kubeconfig.",
    ),
    click.Option(
        ["--tls-cert-file"],
        metavar="FILE",
        type=_FILE,
        help="Serve HTTPS with this certificate, in PEM, followed by those that signed it.",
    ),
    click.Option(
        ["--tls-private-key-file"],
        metavar="FILE",
        type=_FILE,
        help="The key of --tls-cert-file.",
    ),
    click.Option(
        ["--client-ca-file"],
        metavar="FILE",
        type=_FILE,
        help="Accept client certificates of these authorities: the common name is the user, "
        "organizations are the groups.",
    ),
    click.Option(
        ["--token-auth-file"],
        metavar="FILE",
        type=_FILE,
        help='Users by their bearer tokens, as CSV: token,user,uid,"group1,group2".',
    ),
    click.Option(
        ["--token"],
        metavar="TOKEN",
        default="",
        help="A bearer token of an administrator, which is in the kubeconfig. Clients of client-go "
        "send tokens over HTTPS only.",
    ),
    click.Option(
        ["--anonymous-auth/--no-anonymous-auth"],
        default=None,
        help="Accept requests without credentials as system:anonymous; by default with RBAC only.",
    ),
    click.Option(
        ["--authorization-mode"],
        type=click.Choice(MODES),
        default="AlwaysAllow",
        show_default=True,
        help="Allow every request, or those that roles allow.",
    ),
    click.Option(
        ["--max-requests-inflight"],
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Answer 429 beyond this number of reading requests at once; 0 for no limit.",
    ),
    click.Option(
        ["--max-mutating-requests-inflight"],
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Answer 429 beyond this number of writing requests at once; 0 for no limit.",
    ),
    click.Option(
        ["--max-request-bytes"],
        type=click.IntRange(min=1),
        default=BODY_BYTES_MAX,
        show_default=True,
        help="Limit of the body of a request.",
    ),
    click.Option(
        ["--insecure-bind-anywhere"],
        is_flag=True,
        help="Allow addresses other than loopback without authentication.",
    ),
]
STATE_OPTIONS: Final = [
    click.Option(
        ["--snapshot"],
        metavar="FILE",
        type=_FILE,
        help="Start from this snapshot if it exists; write it at the end and on SIGUSR1.",
    ),
    click.Option(
        ["--restore"],
        metavar="FILE",
        type=_FILE,
        help="Start from this snapshot, which must exist and is not written.",
    ),
    click.Option(
        ["--data"],
        metavar="FILE",
        type=_FILE,
        help="Keep the state in this SQLite file, each change before its response, and start from "
        "it. A state in this file or in a snapshot replaces --load.",
    ),
    click.Option(
        ["--keep-uids"],
        is_flag=True,
        help="Leave the objects of --load their uids, instead of new ones.",
    ),
    click.Option(
        ["--record"],
        metavar="FILE.jsonl",
        type=_FILE,
        help="Overwrite this file with every change and its time, as JSON lines.",
    ),
    click.Option(
        ["--replay"],
        metavar="FILE.jsonl",
        type=_FILE,
        help="Repeat the changes of a recording, once the server listens.",
    ),
    click.Option(
        ["--speed"],
        type=click.FloatRange(min=0),
        help="Divide the pauses of the recording by this number, by default 1; 0 leaves none.",
    ),
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions:
    """Files of a server's state, and a recording to replay."""

    files: StateFiles
    #: Recording to replay once the server listens.
    replay: Path | None
    #: Divisor of the recorded pauses; 0 leaves none.
    speed: float

    @property
    def written(self) -> list[tuple[str, Path | None]]:
        """The files that are written, with their flags."""
        files = self.files
        return [("--snapshot", files.snapshot), ("--data", files.data), ("--record", files.record)]

    @property
    def read(self) -> list[tuple[str, Path | None]]:
        """The files that are only read, with their flags."""
        return [("--restore", self.files.restore), ("--replay", self.replay)]


def server_options_of(values: dict[str, Any]) -> ServerOptions:
    """Return the options of the API, taken from the values of a command."""
    return ServerOptions(**_taken(SERVER_OPTIONS, values))


def fault_options_of(values: dict[str, Any]) -> FaultOptions:
    """Return the options of fault injection, taken from the values of a command."""
    return FaultOptions(**_taken(FAULT_OPTIONS, values))


def security_of(values: dict[str, Any]) -> Security:
    """Return the security options, taken from the values of a command."""
    return Security(**_taken(SECURITY_OPTIONS, values))


def state_options_of(values: dict[str, Any], *, loads: bool) -> StateOptions:
    """Return the state options, taken from the values of a command; `loads` if it has --load.

    Raises click.UsageError for options that do not fit together.
    """
    given = _taken(STATE_OPTIONS, values)
    replay, speed = given.pop("replay"), given.pop("speed")
    if given["keep_uids"] and not loads:
        raise click.UsageError("--keep-uids is for --load")
    if speed is not None and replay is None:
        raise click.UsageError("--speed is for --replay")
    if speed is not None and not math.isfinite(speed):
        raise click.UsageError("--speed: expected a finite number; 0 is all at once")
    return StateOptions(
        files=StateFiles(**given), replay=replay, speed=1.0 if speed is None else speed
    )


def _taken(options: Iterable[click.Option], values: dict[str, Any]) -> dict[str, Any]:
    return {option.name: values.pop(option.name) for option in options if option.name}
