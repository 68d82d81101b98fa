"""The options for feature gates of commands that decide as one version, or compare several."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from scheduler.config import ConfigError, EffectiveVersion, enabled_gates
from scheduler.config.feature_gates import effective_version, parse_settings
from scheduler.explain.options import gathered

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler.config import FeatureGates, SchedulerVersion


@dataclass(frozen=True)
class GateOptions:
    """The values of the options; kube-scheduler has the same flags."""

    feature_gates: tuple[str, ...]
    emulated_version: tuple[str, ...]

    def in_version(
        self, version: SchedulerVersion, *, on_refused: Callable[[str], None] | None = None
    ) -> FeatureGates:
        """Return the gates that are on in a version.

        With `on_refused` the version decides without the values that it refuses, with a call for
        each error; else these raise UsageError, as values that are malformed do.
        """
        emulating = self._emulating(version, on_refused)
        try:
            settings = parse_settings(self.feature_gates)
            while True:
                try:
                    return enabled_gates(settings, emulating)
                except ConfigError as error:
                    refused = settings.keys() & {*re.findall(r"\w+", str(error))}
                    if on_refused is None or not refused:
                        raise
                    names = ", ".join(sorted(refused))
                    on_refused(f"{version.label} decides without the setting of {names}: {error}")
                    settings = {name: on for name, on in settings.items() if name not in refused}
        except ConfigError as error:
            raise click.UsageError(f"--feature-gates: {error}") from error

    def _emulating(
        self, version: SchedulerVersion, on_refused: Callable[[str], None] | None
    ) -> EffectiveVersion:
        try:
            chosen = effective_version(self.emulated_version, (), version)
            if refusal := next(chosen.errors(), None):
                if on_refused is None:
                    raise refusal
                on_refused(f"{version.label} decides without --emulated-version: {refusal}")
                return EffectiveVersion.of(version)
        except ConfigError as error:
            raise click.UsageError(f"--emulated-version: {error}") from error
        return chosen


gate_options: Final = gathered(
    "gates",
    GateOptions,
    feature_gates=click.option(
        "--feature-gates",
        metavar="NAME=BOOL,...",
        multiple=True,
        help="Feature gates that differ from the defaults.",
    ),
    emulated_version=click.option(
        "--emulated-version",
        metavar="VERSION",
        multiple=True,
        help="The version whose defaults the feature gates have.",
    ),
)
