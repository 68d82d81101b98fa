"""The flags of leader election: upstream's names and defaults; a flag overrides the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from scheduler.config import Duration, default_config
from scheduler.config.duration import MILLISECOND, SECOND
from scheduler.flags.leader_election import leader_election_flags
from scheduler.plugins import SCHEME

if TYPE_CHECKING:
    from scheduler.config import LeaderElectionConfiguration
    from scheduler.flags.leader_election import ElectionOverrides

DEFAULTS = default_config(SCHEME).leader_election


def overridden(*args: str) -> LeaderElectionConfiguration:
    """Return the defaults with these flags applied."""
    found: list[LeaderElectionConfiguration] = []

    @click.command()
    @leader_election_flags
    def command(election: ElectionOverrides) -> None:
        found.append(election.applied_to(default_config(SCHEME)).leader_election)

    result = CliRunner().invoke(command, args)
    assert result.exit_code == 0, result.output
    return found[0]


def test_without_flags_the_configuration_stays_as_it_is() -> None:
    assert overridden() == DEFAULTS
    assert DEFAULTS.leader_elect


@pytest.mark.parametrize(
    ("flag", "field", "value"),
    [
        ("--leader-elect=false", "leader_elect", False),
        ("--leader-elect", "leader_elect", True),
        ("--leader-elect-lease-duration=1m", "lease_duration", Duration(60 * SECOND)),
        ("--leader-elect-renew-deadline=1.5s", "renew_deadline", Duration(1500 * MILLISECOND)),
        ("--leader-elect-retry-period=500ms", "retry_period", Duration(500 * MILLISECOND)),
        ("--leader-elect-resource-lock=endpoints", "resource_lock", "endpoints"),
        ("--leader-elect-resource-name=mine", "resource_name", "mine"),
        ("--leader-elect-resource-namespace=default", "resource_namespace", "default"),
    ],
)
def test_each_flag_overrides_its_field_alone(flag: str, field: str, value: object) -> None:
    found = overridden(flag)
    differing = {
        name for name in found.__struct_fields__ if getattr(found, name) != getattr(DEFAULTS, name)
    }
    assert getattr(found, field) == value
    assert differing <= {field}
