"""The options of a scheduler process, from the values of its flags.

Source: kube-scheduler `app/options/options.go` (`ApplyDeprecated`, `ApplyLeaderElectionTo`),
component-base `logs/api/v1/options.go` and `metrics/api/v1/config.go` (`Validate`),
`compatibility/registry.go` (`Set`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from scheduler.api import field
from scheduler.api.field import quoted
from scheduler.api.quantity import parse_quantity, value
from scheduler.config import (
    GENERIC_WORKLOAD,
    ConfigError,
    Duration,
    SchedulerVersion,
    enabled_gates,
    uses_queueing_hints,
)
from scheduler.config.feature_gates import effective_version, parse_settings
from scheduler.flags.flag_set import AUTOMATIC_PORT, FlagSet, UsageError, Values
from scheduler.flags.table import flags_of
from scheduler.klog import LogOptions
from scheduler.metrics.exposition import MetricsOptions
from scheduler.metrics.scheduler_metrics import MEASURE_OF_GROUPS, MEASURES_OF_HINTS
from scheduler.serving.options import (
    REQUEST_HEADER_LISTS,
    AuthenticationOptions,
    AuthorizationOptions,
    NamedCertKey,
    RequestHeaderOptions,
    ServingOptions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.config import EffectiveVersion, FeatureGates, KubeSchedulerConfiguration

_METRIC_NAME: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL_NAME: Final = "[a-zA-Z_][a-zA-Z0-9_]*"
_LOGGING_ALPHA: Final = "LoggingAlphaOptions"
_LOGGING_BETA: Final = "LoggingBetaOptions"
_TIE_BREAKS: Final = ("random", "first")
#: Flags of leader election are named after fields: `leader-elect-lease-duration`.
_LEADER_ELECT: Final = "leader-elect"


def parse_flags(arguments: Sequence[str], *, command: str) -> Options:
    """Parse a command line. Raises UsageError, and ConfigError for feature gates and versions."""
    # Flags that the version does not have are unknown.
    scheduler = _scheduler_version(
        FlagSet(flags_of(max(SchedulerVersion))).parse(arguments, command=command)
    )
    values = FlagSet(flags_of(scheduler)).parse(arguments, command=command)
    version = effective_version(
        values.strings("emulated-version"), values.strings("min-compatibility-version"), scheduler
    )
    gates = enabled_gates(parse_settings(values.items("feature-gates", str)), version)
    return Options(values, gates, version)


def _scheduler_version(values: Values) -> SchedulerVersion:
    """Return the version to decide as. Raises UsageError for another."""
    text = values.string("scheduler-version")
    try:
        return SchedulerVersion.parse(text)
    except ValueError as error:
        problem = f'invalid argument {quoted(text)} for "--scheduler-version" flag: {error}'
        raise UsageError(problem) from error


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a process. Properties that raise an error check their flags."""

    values: Values
    gates: FeatureGates
    effective_version: EffectiveVersion

    @property
    def reported_version(self) -> str:
        """The version to name. Raises UsageError for another release."""
        version, release = self.values.text("version"), self.effective_version.scheduler.release
        if not version.startswith("v"):
            return release
        if version.partition("-")[0].partition("+")[0] != release:
            raise UsageError(
                f'invalid argument {quoted(version)} for "--version" flag: version '
                f"{quoted(version)} must match major/minor/patch of default version "
                f"{quoted(release)}"
            )
        return version

    @property
    def config_file(self) -> Path | None:
        path = self.values.string("config")
        return Path(path) if path else None

    @property
    def seed(self) -> int | None:
        """The number for chance. Raises UsageError."""
        text = self.values.string("seed")
        try:
            return int(text) if text else None
        except ValueError:
            raise UsageError(f'invalid argument {quoted(text)} for "--seed" flag') from None

    @property
    def tie_break(self) -> str:
        """The way to choose among the best nodes. Raises UsageError."""
        text = self.values.string("tie-break")
        if text not in _TIE_BREAKS:
            raise UsageError(
                f'invalid argument {quoted(text)} for "--tie-break" flag: expected random or first'
            )
        return text

    @property
    def shadow_log(self) -> str:
        """The file for comparisons, - for stdout, or "". Raises UsageError."""
        path = self.values.string("shadow-log")
        if path and not self.values.boolean("shadow"):
            raise UsageError("--shadow-log needs --shadow")
        return path

    @property
    def check_cache_every(self) -> Duration | None:
        """The interval of comparisons; None for none. Raises UsageError."""
        if not self.values.is_set("check-cache-every"):
            return None
        interval = self.values.duration("check-cache-every")
        if interval <= Duration():
            raise UsageError(
                f'invalid argument {quoted(str(interval))} for "--check-cache-every" flag: '
                "expected more than 0s"
            )
        return interval

    @property
    def logs(self) -> LogOptions:
        """The options of the log. Raises ConfigError."""
        values = self.values
        if errors := [*self._log_errors()]:
            raise ConfigError(field.aggregate(errors))
        name = values.string("logging-format")
        return LogOptions(
            format=name,
            verbosity=values.integer("v"),
            module_levels=tuple(
                (str(pattern), int(level)) for pattern, level in values.items("vmodule", tuple)
            ),
            split_stream=values.boolean(f"log-{name}-split-stream"),
            buffer_bytes=value(parse_quantity(values.string(f"log-{name}-info-buffer-size"))),
            flush_seconds=values.duration("log-flush-frequency").seconds,
        )

    def _log_errors(self) -> Iterator[Exception]:
        values = self.values
        if values.duration("log-flush-frequency") <= Duration():
            text = values.text("log-flush-frequency")
            yield field.invalid("flushFrequency", text, "Must be greater than zero")
        name = values.string("logging-format")
        if name not in ("text", "json"):
            yield field.invalid("format", name, "Unsupported log format")
        elif name == "json" and _LOGGING_BETA not in self.gates:
            text = f"Log format json is disabled, see {_LOGGING_BETA} feature"
            yield field.forbidden("format", text)
        if values.items("vmodule", tuple) and name not in ("", "text"):
            yield field.forbidden("vmodule", "Only supported for text log format")
        if _LOGGING_ALPHA not in self.gates:
            disabled = f"Feature {_LOGGING_ALPHA} is disabled"
            for kind in ("text", "json"):
                if values.boolean(f"log-{kind}-split-stream"):
                    yield field.forbidden(f"options.{kind}.splitStream", disabled)
                if parse_quantity(values.string(f"log-{kind}-info-buffer-size")):
                    yield field.forbidden(f"options.{kind}.infoBufferSize", disabled)

    @property
    def metrics(self) -> MetricsOptions:
        """The options of the metrics. Raises ConfigError."""
        values = self.values
        shown = values.string("show-hidden-metrics-for-version")
        disabled = values.strings("disabled-metrics")
        allowed = {str(key): str(item) for key, item in values.items("allow-metric-labels", tuple)}
        errors: list[Exception] = []
        previous = f"1.{self.effective_version.scheduler - 1}"
        if shown not in ("", previous):
            errors.append(
                field.invalid(
                    "metrics.showHiddenMetricsForVersion",
                    shown,
                    f"must be omitted or have the value '{previous}'; only the previous "
                    "minor version is allowed",
                )
            )
        if wrong := [name for name in disabled if not re.fullmatch(_METRIC_NAME, name)]:
            errors.append(
                field.invalid(
                    "metrics.disabledMetrics",
                    list(disabled),
                    "must be fully qualified metric names matching "
                    f"{quoted(f'^{_METRIC_NAME}$')}, got {quoted(wrong[0])}",
                )
            )
        errors += _check_allow_list(allowed, "metrics.allowListMapping")
        manifest = values.string("allow-metric-labels-manifest")
        if manifest:
            path = "metrics.allowListMappingManifest"
            try:
                allowed = _read_allow_list(manifest, path) | allowed
            except ConfigError as error:
                errors.append(field.invalid(path, manifest, str(error)))
        if errors:
            raise ConfigError(field.aggregate(errors))
        version = self.effective_version.scheduler
        if not uses_queueing_hints(self.gates, version):
            disabled = (*disabled, *MEASURES_OF_HINTS)
        if GENERIC_WORKLOAD not in self.gates:
            disabled = (*disabled, MEASURE_OF_GROUPS)
        return MetricsOptions(
            version=version,
            shows_hidden=bool(shown),
            disabled=frozenset(disabled),
            allowed_values={
                (name, label): frozenset(item.split(","))
                for name, label, item in ((*key.split(","), item) for key, item in allowed.items())
            },
        )

    @property
    def serving(self) -> ServingOptions:
        """The options of the port. Raises ConfigError."""
        values = self.values
        names = {}
        for field_name in REQUEST_HEADER_LISTS:
            flag = f"requestheader-{field_name.replace('_', '-')}"
            names[field_name] = values.strings(flag)
            if not all(item.strip() for item in names[field_name]):
                raise ConfigError(f"empty value in {quoted(flag)}")
        port = values.integer("secure-port")
        return ServingOptions(
            bind_address=values.string("bind-address"),
            secure_port=None if port == AUTOMATIC_PORT else port,
            permit_port_sharing=values.boolean("permit-port-sharing"),
            cert_dir=values.string("cert-dir"),
            tls_cert_file=values.string("tls-cert-file"),
            tls_private_key_file=values.string("tls-private-key-file"),
            tls_min_version=values.string("tls-min-version"),
            tls_cipher_suites=values.strings("tls-cipher-suites"),
            tls_curve_preferences=values.items("tls-curve-preferences", int),
            tls_sni_cert_keys=values.items("tls-sni-cert-key", NamedCertKey),
            authentication=AuthenticationOptions(
                kubeconfig=values.string("authentication-kubeconfig"),
                client_ca_file=values.string("client-ca-file"),
                skip_lookup=values.boolean("authentication-skip-lookup"),
                tolerate_lookup_failure=values.boolean("authentication-tolerate-lookup-failure"),
                cache_seconds=self._seconds("authentication-token-webhook-cache-ttl"),
                request_header=RequestHeaderOptions(
                    client_ca_file=values.string("requestheader-client-ca-file"), **names
                ),
            ),
            authorization=AuthorizationOptions(
                kubeconfig=values.string("authorization-kubeconfig"),
                always_allow_paths=values.strings("authorization-always-allow-paths"),
                authorized_seconds=self._seconds("authorization-webhook-cache-authorized-ttl"),
                unauthorized_seconds=self._seconds("authorization-webhook-cache-unauthorized-ttl"),
                names_authorizer=self.effective_version.scheduler >= SchedulerVersion.V1_37,
            ),
        )

    def _seconds(self, name: str) -> float:
        return self.values.duration(name).seconds

    @property
    def max_in_unschedulable_pods_seconds(self) -> float:
        return self._seconds("pod-max-in-unschedulable-pods-duration")

    def apply_to(self, config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
        """Return the configuration with the flags that override it.

        Flags of leader election override a file too; deprecated flags override only defaults.
        """
        values, election = self.values, config.leader_election
        for name in msgspec.structs.asdict(election):
            flag = _LEADER_ELECT
            if name != "leader_elect":
                flag = f"{_LEADER_ELECT}-{name.replace('_', '-')}"
            if values.is_set(flag):
                election = msgspec.structs.replace(election, **{name: values.value(flag)})
        config = msgspec.structs.replace(config, leader_election=election)
        return config if values.string("config") else self._apply_deprecated(config)

    def _apply_deprecated(self, config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
        values = self.values
        client = {
            name: values.value(flag)
            for name, flag in (
                ("kubeconfig", "kubeconfig"),
                ("content_type", "kube-api-content-type"),
                ("qps", "kube-api-qps"),
                ("burst", "kube-api-burst"),
            )
            if values.is_set(flag)
        }
        profiling = {
            f"enable_{flag.replace('-', '_')}": values.boolean(flag)
            for flag in ("profiling", "contention-profiling")
            if values.is_set(flag)
        }
        connection = msgspec.structs.replace(config.client_connection, **client)
        return msgspec.structs.replace(config, client_connection=connection, **profiling)


def _check_allow_list(allowed: Mapping[str, str], path: str) -> list[Exception]:
    for key in allowed:
        if not re.fullmatch(f"{_METRIC_NAME},{_LABEL_NAME}", key):
            return [
                field.invalid(
                    path,
                    dict(allowed),
                    "must have keys with format `metricName,labelName` where metricName matches "
                    f"{quoted(_METRIC_NAME)} and labelName matches {quoted(_LABEL_NAME)}",
                )
            ]
    return []


def _read_allow_list(manifest: str, path: str) -> dict[str, str]:
    """Read the file of allowed values: a mapping of texts. Raises ConfigError."""
    try:
        document: object = yaml.safe_load(Path(manifest).read_text(encoding="utf-8"))
    except OSError as error:
        reason = f"open {manifest}: {(error.strerror or '').lower()}"
        raise ConfigError(f"failed to read allow list manifest: {reason}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"failed to parse allow list manifest: {reason}") from error
    allowed = {} if document is None else document
    if not isinstance(allowed, dict) or not all(isinstance(v, str) for v in allowed.values()):
        raise ConfigError("failed to parse allow list manifest: expected a mapping of strings")
    if errors := _check_allow_list(allowed, path):
        raise ConfigError(f"invalid allow list mapping in manifest: {field.aggregate(errors)}")
    return allowed
