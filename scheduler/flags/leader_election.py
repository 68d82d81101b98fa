"""The flags of leader election, for `scheduler.cli`: each that is given overrides the file.

Source: component-base `config/options/leaderelectionconfig.go`, kube-scheduler
`app/options/options.go` (`ApplyLeaderElectionTo`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click
import msgspec

from scheduler.config import LeaderElectionConfiguration
from scheduler.flags.types import DURATION

if TYPE_CHECKING:
    from scheduler.config import KubeSchedulerConfiguration

_Command = Callable[..., None]

#: Parameter and field: `leader_elect_lease_duration` is `lease_duration`, and so on.
_PREFIX: Final = "leader_elect_"
_DEFAULTS: Final = LeaderElectionConfiguration()


class ElectionOverrides:
    """What the command line says about leader election, by the fields of the configuration."""

    def __init__(self, **fields: object) -> None:
        self._fields: Final = fields

    def applied_to(self, config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
        """The configuration with these values instead of its own."""
        election = msgspec.structs.replace(config.leader_election, **self._fields)
        return msgspec.structs.replace(config, leader_election=election)


def _duration(flag: str, default: object, words: str) -> Callable[[_Command], _Command]:
    return click.option(
        flag, metavar="DURATION", type=DURATION, show_default=str(default), help=words
    )


def _text(flag: str, default: str, words: str) -> Callable[[_Command], _Command]:
    return click.option(flag, metavar="NAME", show_default=default, help=words)


_FLAGS: Final = (
    click.option(
        "--leader-elect",
        metavar="[true|false]",
        type=click.BOOL,
        is_flag=False,
        flag_value="true",
        show_default="true",
        help="Hold a lease while scheduling, and wait for it if another scheduler holds it.",
    ),
    _duration(
        "--leader-elect-lease-duration",
        _DEFAULTS.lease_duration,
        "How long others wait, after the leader has renewed its lease, before they take it.",
    ),
    _duration(
        "--leader-elect-renew-deadline",
        _DEFAULTS.renew_deadline,
        "How long a leader tries to renew its lease before it ends; less than the lease duration.",
    ),
    _duration(
        "--leader-elect-retry-period",
        _DEFAULTS.retry_period,
        "How long to wait between two tries to get or to renew the lease.",
    ),
    _text(
        "--leader-elect-resource-lock",
        _DEFAULTS.resource_lock,
        "The kind of object to lock with: 'leases' is the only one.",
    ),
    _text(
        "--leader-elect-resource-name",
        _DEFAULTS.resource_name,
        "The lease's name. A second scheduler beside kube-scheduler needs one of its own.",
    ),
    _text(
        "--leader-elect-resource-namespace",
        _DEFAULTS.resource_namespace,
        "The lease's namespace.",
    ),
)
_PARAMETERS: Final = (
    "leader_elect",
    *(f"{_PREFIX}{name}" for name in _DEFAULTS.__struct_fields__ if name != "leader_elect"),
)


def leader_election_flags(command: _Command) -> _Command:
    """Give a command these flags; it is called with all of them as one `election`."""

    @functools.wraps(command)
    def gathered(*arguments: object, **values: object) -> None:
        own = {name: values.pop(name) for name in _PARAMETERS}
        given = {_field(name): value for name, value in own.items() if value is not None}
        command(*arguments, election=ElectionOverrides(**given), **values)

    decorated: _Command = gathered
    for flag in reversed(_FLAGS):
        decorated = flag(decorated)
    return decorated


def _field(parameter: str) -> str:
    return parameter.removeprefix(_PREFIX)
