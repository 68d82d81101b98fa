"""Feature gates of kube-scheduler: their settings, and the gates that are built.

    settings = parse_settings(["GenericWorkload=true,GangScheduling=true"])
    version = effective_version(["1.35"], [], SchedulerVersion.V1_36)   # raises ConfigError
    gates = enabled_gates(settings, version)                            # raises ConfigError

All gates that kube-scheduler accepts are accepted, unless the scheduler would decide otherwise with
the gate and this program does not have that behaviour. The gates are in `features.json`, for each
version of the scheduler. A scheduler that emulates an earlier version has the gates and the
defaults of that version, as its own version knows them.
Source: component-base `featuregate/feature_gate.go`, `compatibility/registry.go`,
`cli/flag/colon_separated_multimap_string_string.go`.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from scheduler.api import field
from scheduler.api.field import quoted
from scheduler.api.strconv import go_bool, parse_bool
from scheduler.config.known_features import (
    FeatureSpec,
    Stage,
    features_of,
    known_features,
)
from scheduler.config.types import GENERIC_WORKLOAD, ConfigError
from scheduler.config.versions import DEFAULT_SCHEDULER_VERSION, SchedulerVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scheduler.config.types import FeatureGates

_log: Final = logging.getLogger(__name__)

#: Gates that set all gates of a stage that are not set by name.
_STAGES: Final[Mapping[str, Stage]] = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_ALL: Final[Mapping[str, FeatureSpec]] = {
    name: FeatureSpec(0, stage, default=False) for name, stage in _STAGES.items()
}


_COMPONENT: Final = "kube"
_Version: TypeAlias = tuple[int, int]
#: The number of minor versions before its own that a scheduler can emulate.
_EMULATED_VERSIONS: Final = 3
_VERSION: Final = re.compile(r"\s*v?(?P<major>[0-9]+)(\.(?P<minor>[0-9]+))?(\.(?P<patch>[0-9]+))?")


class EffectiveVersion(NamedTuple):
    """The scheduler's version, the one it emulates, and the oldest of other components."""

    scheduler: SchedulerVersion
    emulation: _Version
    min_compatibility: _Version

    @classmethod
    def of(cls, version: SchedulerVersion) -> EffectiveVersion:
        """Return the versions of a scheduler that emulates none."""
        return cls(version, (1, version), (1, version - 1))

    @property
    def features(self) -> Mapping[str, FeatureSpec]:
        return features_of(self.scheduler, self.emulation[1], self.min_compatibility[1])

    def errors(self) -> Iterator[ConfigError]:
        """Yield an error for each version that the scheduler cannot emulate."""
        oldest, newest = _oldest(self.scheduler), (1, int(self.scheduler))
        if not oldest <= self.emulation <= newest:
            yield ConfigError(
                f"emulation version {_shown(self.emulation)} is not between "
                f"[{_shown(oldest)}, {_shown(newest)}.0]"
            )
        if not oldest <= self.min_compatibility <= self.emulation:
            yield ConfigError(
                f"minCompatibilityVersion version {_shown(self.min_compatibility)} is not between "
                f"[{_shown(oldest)}, {_shown(self.emulation)}]"
            )

    @property
    def texts(self) -> tuple[str, str]:
        return _shown(self.emulation), _shown(self.min_compatibility)

    def __str__(self) -> str:
        emulation, min_compatibility = self.texts
        if self.scheduler < SchedulerVersion.V1_35:
            return f"emulated version {emulation}"
        return f"emulated version {emulation}, min compatibility version {min_compatibility}"


DEFAULT_VERSION: Final = EffectiveVersion.of(DEFAULT_SCHEDULER_VERSION)


def help_lines(version: SchedulerVersion) -> list[str]:
    """Return the lines about the gates that may be set, as in kube-scheduler's help."""
    features = EffectiveVersion.of(version).features
    newest = features_of(version, version, version)
    lines = []
    for name, spec in (*features.items(), *_ALL.items()):
        if spec.stage not in (Stage.ALPHA, Stage.BETA):
            continue
        line = _help_line(name, spec)
        later = newest.get(name, spec)
        if later is not spec:
            condition = f"if --min-compatibility-version>=1.{later.min_compatibility}"
            line += f", or {_help_line(name, later)} {condition}"
        lines.append(f"{_COMPONENT}:{line}")
    return sorted(lines)


def _help_line(name: str, spec: FeatureSpec) -> str:
    return f"{name}=true|false ({spec.stage.label} - default={go_bool(spec.default)})"


def feature_states(
    gates: FeatureGates, version: EffectiveVersion
) -> list[tuple[tuple[str, str], float]]:
    """Return name and stage of every gate, and 1 if it is on: the metric of the gates."""
    features = {**version.features, **_ALL}
    return [((name, spec.stage.label), float(name in gates)) for name, spec in features.items()]


def parse_settings(values: Iterable[str]) -> dict[str, bool]:
    """Parse the values of `--feature-gates`, one for each time the flag is given.

    Of several settings of a gate the last one counts. Raises ConfigError.
    """
    settings: dict[str, bool] = {}
    for name, value in _pairs(values):
        if value is None:
            raise ConfigError(f"missing bool value for {name}")
        try:
            settings[name] = parse_bool(value)
        except ValueError as error:
            raise ConfigError(f"invalid value of {name}={value}, err: {error}") from error
    return settings


def effective_version(
    emulated: Iterable[str], min_compatibility: Iterable[str], scheduler: SchedulerVersion
) -> EffectiveVersion:
    """Parse `--emulated-version` and `--min-compatibility-version`. Raises ConfigError.

    `enabled_gates` refuses versions that the scheduler cannot emulate, after the gates' own errors.
    """
    emulation = _version_of_component(emulated) or (1, int(scheduler))
    default = max(_oldest(scheduler), (emulation[0], emulation[1] - 1))
    compatibility = _version_of_component(min_compatibility) or default
    return EffectiveVersion(scheduler, emulation, compatibility)


def _version_of_component(values: Iterable[str]) -> _Version | None:
    """Return the version that is set for the scheduler; None for no value."""
    chosen: _Version | None = None
    for text in values:
        before, equals, after = text.partition("=")
        component, version = (before.strip(), after.strip()) if equals else (_COMPONENT, text)
        match = _VERSION.match(version)
        if match is None:
            raise ConfigError(f"could not parse {quoted(version)} as version")
        if match["minor"] is None:
            raise ConfigError(f"illegal version string {quoted(version)}")
        number = (int(match["major"]), int(match["minor"]))
        if int(match["patch"] or 0):
            shown = f"{_shown(number)}.{match['patch']}"
            raise ConfigError(f"patch version not allowed, got: {component}={shown}")
        if component != _COMPONENT:
            raise ConfigError(f"component not registered: {component}")
        if chosen is not None:
            pair = f"{component}={_shown(chosen)} and {component}={_shown(number)}"
            raise ConfigError(f"duplicate version flag, {pair}")
        chosen = number
    return chosen


def _oldest(scheduler: SchedulerVersion) -> _Version:
    return 1, scheduler - _EMULATED_VERSIONS


def _shown(version: _Version) -> str:
    return f"{version[0]}.{version[1]}"


def _pairs(values: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Yield names and values; the component before the colon may be left out everywhere."""
    components: set[str] = set()
    for pair in ",".join(values).split(","):
        if not pair:
            continue
        before, colon, after = pair.partition(":")
        component, setting = (before.strip(), after.strip()) if colon else ("", pair.strip())
        components.add(component)
        if component not in ("", _COMPONENT):
            raise ConfigError(f"component not registered: {component}")
        if len(components) > 1:
            raise ConfigError(
                "set kube feature gates with default empty prefix or kube: prefix consistently, "
                "do not mix use"
            )
        name, equals, value = setting.partition("=")
        if setting:
            yield name.strip(), value.strip() if equals else None


def enabled_gates(settings: Mapping[str, bool], version: EffectiveVersion) -> FeatureGates:
    """Return the gates that are on with these settings.

    Raises ConfigError for gates that do not exist, that are locked or depend on others that are
    off, and for behaviour that is not built.
    """
    gates = _Gates(settings, version)
    gates.check()
    gates.warn()
    return gates.enabled


class _Gates:
    """The settings of gates, and the features of the emulated version."""

    def __init__(self, settings: Mapping[str, bool], version: EffectiveVersion) -> None:
        self._settings: Final = settings
        self._version: Final = version
        self._features: Final = version.features
        self._known: Final = known_features(version.scheduler)
        #: The values of all gates that are set by name or by their stage.
        self._values: Final = {
            name: settings[all_gates]
            for all_gates, stage in _STAGES.items()
            if all_gates in settings
            for name, spec in self._features.items()
            if spec.stage is stage
        } | dict(settings)

    @property
    def enabled(self) -> FeatureGates:
        return frozenset(filter(self._is_on, {*self._features, *self._values}))

    def _is_on(self, name: str) -> bool:
        spec = self._features.get(name)
        return self._values.get(name, spec is not None and spec.default)

    def check(self) -> None:
        for name in self._settings:
            if name not in self._known and name not in _STAGES:
                raise ConfigError(f"unrecognized feature gate: {name}")
        errors = [*self._fixed()] or [*self._missing_dependencies()]
        errors = errors or [*self._version.errors()] or [*self._not_built()]
        if errors:
            raise ConfigError(field.aggregate(errors))

    def _fixed(self) -> Iterator[ConfigError]:
        for name, value in self._settings.items():
            spec = self._features.get(name)
            cannot = f"cannot set feature gate {name} to {go_bool(value)}, feature is"
            if spec is None and name not in _STAGES:
                yield ConfigError(f"{cannot} PreAlpha at {self._version}")
            elif spec is not None and spec.locked and value != spec.default:
                yield ConfigError(f"{cannot} locked to {go_bool(spec.default)}")

    def _missing_dependencies(self) -> Iterator[ConfigError]:
        if self._version.scheduler < SchedulerVersion.V1_35:
            return
        for name in filter(self._is_on, self._known):
            disabled = [other for other in self._known[name].needs if not self._is_on(other)]
            if disabled:
                yield ConfigError(
                    f"{name} is enabled, but depends on features that are disabled: "
                    f"[{' '.join(disabled)}]"
                )

    def _not_built(self) -> Iterator[ConfigError]:
        if self._version.scheduler >= SchedulerVersion.V1_37 and self._is_on(GENERIC_WORKLOAD):
            yield ConfigError(
                f"cannot set feature gate {GENERIC_WORKLOAD} to true, "
                "the pod groups of 1.37 are not built into kubesched"
            )

    def warn(self) -> None:
        for name, value in self._settings.items():
            stage = self._features[name].stage if name in self._features else None
            if stage in (Stage.GA, Stage.DEPRECATED):
                kind = "GA" if stage is Stage.GA else "deprecated"
                _log.warning(
                    f"Warning: setting {kind} feature gate. "
                    "It will be removed in a future release.",
                    {"featureGate": name, "value": value},
                )
        emulates = self._version.emulation[1] < self._version.scheduler
        if emulates and (alpha := self._enabled_alpha()):
            _log.warning(
                "component has alpha features enabled in emulated version, this is unsupported: "
                "features=[%s]",
                " ".join(alpha),
            )

    def _enabled_alpha(self) -> list[str]:
        features = {**self._features, **_ALL}
        alpha = (name for name, spec in features.items() if spec.stage is Stage.ALPHA)
        return sorted(filter(self._is_on, alpha))
