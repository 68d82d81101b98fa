"""The option `--feature-gates` of commands that decide as one version, or compare several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from scheduler.config import ConfigError, EffectiveVersion, enabled_gates
from scheduler.config.feature_gates import parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduler.config import FeatureGates, SchedulerVersion

option: Final = click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    multiple=True,
    help="Feature gates that differ from the defaults.",
)


def gates_of(
    values: Iterable[str],
    version: SchedulerVersion,
    *,
    on_refused: Callable[[str], None] | None = None,
) -> FeatureGates:
    """Return the gates that are on in a version with the values of `--feature-gates`.

    With `on_refused` the gates that the version refuses are left out, with a call for each error;
    else they raise UsageError, as values that are malformed do.
    """
    try:
        settings = parse_settings(values)
        while True:
            try:
                return enabled_gates(settings, EffectiveVersion.of(version))
            except ConfigError as error:
                refused = settings.keys() & {*re.findall(r"\w+", str(error))}
                if on_refused is None or not refused:
                    raise
                names = ", ".join(sorted(refused))
                on_refused(f"{version.label} decides without the setting of {names}: {error}")
                settings = {name: on for name, on in settings.items() if name not in refused}
    except ConfigError as error:
        raise click.UsageError(f"--feature-gates: {error}") from error
