"""The flags of leader election; each overrides the configuration file.

Source: component-base `config/options/leaderelectionconfig.go`, kube-scheduler
`app/options/options.go` (`ApplyLeaderElectionTo`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
import msgspec

from scheduler.config import LeaderElectionConfiguration
from scheduler.flags.types import DURATION, Flag, flag_group, true_or_false

if TYPE_CHECKING:
    from scheduler.config import KubeSchedulerConfiguration

#: Flags are named after fields: `leader_elect_lease_duration` sets `lease_duration`.
_PREFIX: Final = "leader_elect_"
_DEFAULTS: Final = LeaderElectionConfiguration()


class ElectionOverrides:
    """The fields of the configuration of leader election that the command line sets."""

    def __init__(self, **flags: object) -> None:
        self._fields: Final = {
            name.removeprefix(_PREFIX): value for name, value in flags.items() if value is not None
        }

    def applied_to(self, config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
        """Return the configuration with these fields replaced."""
        election = msgspec.structs.replace(config.leader_election, **self._fields)
        return msgspec.structs.replace(config, leader_election=election)


def _duration(flag: str, default: object, words: str) -> Flag:
    return click.option(
        flag, metavar="DURATION", type=DURATION, show_default=str(default), help=words
    )


def _text(flag: str, default: str, words: str) -> Flag:
    return click.option(flag, metavar="NAME", show_default=default, help=words)


_FLAGS: Final = (
    true_or_false(
        "--leader-elect",
        "Hold a lease while scheduling, and wait for it if another scheduler holds it.",
        default=None,
        show_default="true",
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

#: Adds these flags to a command, which gets them as its argument `election`.
leader_election_flags: Final = flag_group(_FLAGS, "election", ElectionOverrides)
