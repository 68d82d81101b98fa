"""The options of a process: flags override the configuration, and are checked as upstream does."""

from pathlib import Path

import msgspec
import pytest

from scheduler.api.duration import MILLISECOND, SECOND
from scheduler.config import (
    ConfigError,
    Duration,
    EffectiveVersion,
    SchedulerVersion,
    default_config,
    default_feature_gates,
)
from scheduler.flags.flag_set import UsageError
from scheduler.flags.options import Options, parse_flags
from scheduler.klog import LogOptions
from scheduler.metrics.scheduler_metrics import MEASURE_OF_GROUPS
from scheduler.plugins import SCHEME
from scheduler.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    NamedCertKey,
    RequestHeaderOptions,
    ServingError,
    ServingOptions,
)

DEFAULTS = default_config(SCHEME)


def parse(*arguments: str) -> Options:
    return parse_flags(arguments, command="kubesched")


def test_without_flags_the_configuration_stays_as_it_is() -> None:
    assert parse().apply_to(DEFAULTS) == DEFAULTS


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
def test_flags_of_the_election_override_a_file(flag: str, field: str, value: object) -> None:
    found = parse(flag, "--config=x").apply_to(DEFAULTS)
    expected = msgspec.structs.replace(DEFAULTS.leader_election, **{field: value})
    assert found == msgspec.structs.replace(DEFAULTS, leader_election=expected)


DEPRECATED = (
    "--kubeconfig=k", "--kube-api-qps=1.3", "--kube-api-burst=7", "--kube-api-content-type=c",
    "--profiling=false", "--contention-profiling=false",
)  # fmt: skip


def test_deprecated_flags_count_without_a_file() -> None:
    found = parse(*DEPRECATED).apply_to(DEFAULTS)
    client = found.client_connection
    assert (client.kubeconfig, client.qps, client.burst, client.content_type) == ("k", 1.3, 7, "c")
    assert not found.enable_profiling
    assert not found.enable_contention_profiling


def test_deprecated_flags_are_ignored_with_a_file() -> None:
    assert parse(*DEPRECATED, "--config=file").apply_to(DEFAULTS) == DEFAULTS


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--emulated-version=1.20",), "[emulation version 1.20 is not between [1.33, 1.36.0], "
         "minCompatibilityVersion version 1.33 is not between [1.33, 1.20]]"),
        (("--emulated-version=1.20", "--feature-gates=Foo=true"),
         "unrecognized feature gate: Foo"),
        (("--emulated-version=foo",), 'could not parse "foo" as version'),
        (("--emulated-version=1",), 'illegal version string "1"'),
        (("--emulated-version=a=b=c",), 'could not parse "b=c" as version'),
        (("--emulated-version=foo=1.35",), "component not registered: foo"),
        (("--min-compatibility-version=1.36", "--emulated-version=1.35"),
         "minCompatibilityVersion version 1.36 is not between [1.33, 1.35]"),
        (("--min-compatibility-version=1.20",),
         "minCompatibilityVersion version 1.20 is not between [1.33, 1.36]"),
        (("--feature-gates=Foo=true",), "unrecognized feature gate: Foo"),
        (("--feature-gates=x",), "missing bool value for x"),
        (("--feature-gates=foo:GenericWorkload=true",), "component not registered: foo"),
    ],
)  # fmt: skip
def test_versions_and_gates_are_checked(arguments: tuple[str, ...], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(*arguments)
    assert str(raised.value) == error


def test_the_newest_version_may_be_emulated() -> None:
    parse("--emulated-version=kube=1.36", "--min-compatibility-version=1.34")


def test_feature_gates_are_gathered_from_all_occurrences() -> None:
    options = parse("--feature-gates=GenericWorkload=true", "--feature-gates=GangScheduling=1")
    assert {"GenericWorkload", "GangScheduling"} <= options.gates


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--logging-format=xml",), 'format: Invalid value: "xml": Unsupported log format'),
        (("--vmodule=foo=1", "--logging-format=json"),
         "vmodule: Forbidden: Only supported for text log format"),
        (("--log-text-split-stream",),
         "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (("--log-json-info-buffer-size=1Ki",),
         "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (("--log-flush-frequency=0s",),
         'flushFrequency: Invalid value: "0s": Must be greater than zero'),
        (("--logging-format=json", "--feature-gates=LoggingBetaOptions=false"),
         "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"),
    ],
)  # fmt: skip
def test_options_of_the_log_are_checked(arguments: tuple[str, ...], error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _ = parse(*arguments).logs
    assert str(raised.value) == error


def test_an_empty_vmodule_is_accepted_with_every_log_format() -> None:
    assert parse("--vmodule=", "--logging-format=json").logs.module_levels == ()


def test_options_of_the_log_are_those_of_its_format() -> None:
    options = parse(
        *("--feature-gates=LoggingAlphaOptions=true", "-v=3", "--vmodule=a=1,b*=2"),
        *("--log-text-split-stream", "--log-text-info-buffer-size=1Ki", "--log-flush-frequency=1m"),
    )
    assert options.logs == LogOptions(
        verbosity=3,
        module_levels=(("a", 1), ("b*", 2)),
        split_stream=True,
        buffer_bytes=1024,
        flush_seconds=60.0,
    )


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        ("--show-hidden-metrics-for-version=1.1",
         'metrics.showHiddenMetricsForVersion: Invalid value: "1.1": must be omitted or have the '
         "value '1.35'; only the previous minor version is allowed"),
        ("--disabled-metrics=Foo/",
         'metrics.disabledMetrics: Invalid value: ["Foo/"]: must be fully qualified metric names '
         'matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "Foo/"'),
        ("--allow-metric-labels=foo=1",
         'metrics.allowListMapping: Invalid value: {"foo":"1"}: must have keys with format '
         '`metricName,labelName` where metricName matches "[a-zA-Z_:][a-zA-Z0-9_:]*" and '
         'labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"'),
        ("--allow-metric-labels-manifest=/nope",
         'metrics.allowListMappingManifest: Invalid value: "/nope": failed to read allow list '
         "manifest: open /nope: no such file or directory"),
    ],
)  # fmt: skip
def test_options_of_metrics_are_checked(argument: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _ = parse(argument).metrics
    assert str(raised.value) == error


def test_allowed_label_values_come_from_a_file_and_from_flags(tmp_path: Path) -> None:
    manifest = tmp_path / "allowed.yaml"
    manifest.write_text('"m,a": "1,2"\n"m,b": "3"\n', encoding="utf-8")
    options = parse(
        f"--allow-metric-labels-manifest={manifest}", "--allow-metric-labels=m,b=4",
        "--disabled-metrics=x,y",
    ).metrics  # fmt: skip
    assert options.disabled >= {"x", "y"}
    assert options.allowed_values == {("m", "a"): {"1", "2"}, ("m", "b"): {"4"}}


def test_the_metric_of_pod_groups_is_shown_only_with_their_gate() -> None:
    assert MEASURE_OF_GROUPS in parse().metrics.disabled
    with_groups = parse("--feature-gates=GenericWorkload=true").metrics
    assert MEASURE_OF_GROUPS not in with_groups.disabled


def test_hidden_metrics_are_shown_for_the_previous_version() -> None:
    options = parse("--show-hidden-metrics-for-version=1.36", "--scheduler-version=1.37").metrics
    assert (options.version, options.shows_hidden) == (37, True)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("a: [", "failed to parse allow list manifest: while parsing a flow node"),
        ("- a", "failed to parse allow list manifest: expected a mapping of strings"),
        ("a: 1", "failed to parse allow list manifest: expected a mapping of strings"),
        ("a: b", "invalid allow list mapping in manifest: metrics.allowListMappingManifest"),
    ],
)
def test_a_file_that_allows_no_label_values_is_an_error(
    content: str, error: str, tmp_path: Path
) -> None:
    manifest = tmp_path / "allowed.yaml"
    manifest.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        _ = parse(f"--allow-metric-labels-manifest={manifest}").metrics
    assert error in str(raised.value)


def test_all_flags_of_the_port_are_options() -> None:
    options = parse(
        "--bind-address=::1", "--secure-port=1234", "--cert-dir=d", "--tls-cert-file=c",
        "--tls-private-key-file=k", "--tls-min-version=VersionTLS13", "--tls-cipher-suites=A,B",
        "--tls-curve-preferences=29", "--tls-sni-cert-key=c,k:*.x,y", "--permit-port-sharing",
        "--client-ca-file=ca", "--authentication-kubeconfig=n", "--authentication-skip-lookup",
        "--authentication-tolerate-lookup-failure=false",
        "--authentication-token-webhook-cache-ttl=1m", "--authorization-kubeconfig=z",
        "--authorization-always-allow-paths=/a,/b*", "--requestheader-client-ca-file=p",
        "--requestheader-allowed-names=a,b", "--requestheader-username-headers=u",
        "--requestheader-uid-headers=i", "--requestheader-group-headers=g,h",
        "--requestheader-extra-headers-prefix=e", "--disable-http2-serving",
        "--authorization-webhook-cache-authorized-ttl=500ms",
        "--authorization-webhook-cache-unauthorized-ttl=0",
    ).serving  # fmt: skip
    assert options == ServingOptions(
        bind_address="::1",
        secure_port=1234,
        permit_port_sharing=True,
        cert_dir="d",
        tls_cert_file="c",
        tls_private_key_file="k",
        tls_min_version="VersionTLS13",
        tls_cipher_suites=("A", "B"),
        tls_curve_preferences=(29,),
        tls_sni_cert_keys=(NamedCertKey("c", "k", ("*.x", "y")),),
        authentication=AuthenticationOptions(
            kubeconfig="n",
            client_ca_file="ca",
            skip_lookup=True,
            tolerate_lookup_failure=False,
            cache_seconds=60.0,
            request_header=RequestHeaderOptions(
                client_ca_file="p",
                allowed_names=("a", "b"),
                username_headers=("u",),
                uid_headers=("i",),
                group_headers=("g", "h"),
                extra_headers_prefix=("e",),
            ),
        ),
        authorization=AuthorizationOptions(
            kubeconfig="z",
            always_allow_paths=("/a", "/b*"),
            authorized_seconds=0.5,
            unauthorized_seconds=0.0,
        ),
    )


def test_the_defaults_of_the_port_are_those_of_its_options() -> None:
    assert parse().serving == ServingOptions()


def test_names_of_headers_are_not_empty() -> None:
    with pytest.raises(ConfigError, match=r'^empty value in "requestheader-allowed-names"$'):
        _ = parse("--requestheader-allowed-names= ").serving


def test_a_free_port_may_be_taken() -> None:
    options = parse("--secure-port=auto").serving
    assert options.secure_port is None
    assert options.enabled
    options.validate()


@pytest.mark.parametrize("port", [65536, -1])
def test_a_port_is_in_range(port: int) -> None:
    with pytest.raises(ServingError) as raised:
        ServingOptions(secure_port=port).validate()
    assert str(raised.value) == (
        f"--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure "
        "port"
    )


@pytest.mark.parametrize(
    ("argument", "name", "error"),
    [
        ("--seed=x", "seed", 'invalid argument "x" for "--seed" flag'),
        ("--tie-break=x", "tie_break", "expected random or first"),
        ("--shadow-log=x", "shadow_log", "--shadow-log needs --shadow"),
        ("--check-cache-every=0s", "check_cache_every", "expected more than 0s"),
        ("--version=v1.36.9", "reported_version", 'must match .* default version "v1.36.3"'),
    ],
)
def test_our_own_flags_are_checked(argument: str, name: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        getattr(parse(argument), name)


def test_the_version_to_name_is_one_of_the_release() -> None:
    assert parse("--version=v1.36.3+mine").reported_version == "v1.36.3+mine"
    with pytest.raises(UsageError, match="must match major/minor/patch of default version"):
        _ = parse("--version=v1.35.0").reported_version


def test_the_version_to_decide_as_has_its_own_release_gates_and_flags() -> None:
    options = parse("--scheduler-version=1.35", "--show-hidden-metrics-for-version=1.34")
    assert options.effective_version == EffectiveVersion.of(SchedulerVersion.V1_35)
    assert options.reported_version == "v1.35.4"
    assert options.gates == default_feature_gates(SchedulerVersion.V1_35)
    assert options.metrics.version == SchedulerVersion.V1_35
    assert "--tls-curve-preferences" not in str(options.values.texts())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("--scheduler-version=1.33",),
            'invalid argument "1.33" for "--scheduler-version" flag: '
            "expected 1.34, 1.35, 1.36 or 1.37",
        ),
        (
            ("--tls-curve-preferences=1", "--scheduler-version=1.35"),
            "unknown flag: --tls-curve-preferences",
        ),
        (
            ("--scheduler-version=1.34", "--min-compatibility-version=1.33"),
            "unknown flag: --min-compatibility-version",
        ),
    ],
)
def test_other_versions_and_the_flags_of_later_ones_are_refused(
    arguments: tuple[str, ...], error: str
) -> None:
    with pytest.raises(UsageError) as raised:
        parse(*arguments)
    assert str(raised.value) == error
