"""Feature gates are set with kube-scheduler's rules and texts, confirmed on its releases."""

import hashlib
import logging

import pytest

from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    DEFAULT_SCHEDULER_VERSION,
    DEFAULT_VERSION,
    ConfigError,
    EffectiveVersion,
    SchedulerVersion,
    enabled_gates,
)
from scheduler.config.feature_gates import (
    effective_version,
    feature_states,
    help_lines,
    parse_settings,
)


def gates_of(*values: str) -> frozenset[str]:
    return enabled_gates(parse_settings(values), DEFAULT_VERSION)


def emulated(version: str, *values: str) -> frozenset[str]:
    return enabled_gates(
        parse_settings(values), effective_version([version], [], DEFAULT_SCHEDULER_VERSION)
    )


def test_without_settings_the_gates_are_the_defaults() -> None:
    assert gates_of() == gates_of("") == gates_of(",") == gates_of("kube:") == DEFAULT_FEATURE_GATES


def test_the_metric_has_name_and_stage_of_every_gate() -> None:
    states = dict(
        feature_states(gates_of("GenericWorkload=true,WatchListClient=false"), DEFAULT_VERSION)
    )
    assert len(states) == 241
    assert states["GenericWorkload", "ALPHA"] == states["DynamicResourceAllocation", ""] == 1.0
    assert states["WatchListClient", "BETA"] == states["AllAlpha", "ALPHA"] == 0.0


def test_a_gate_is_turned_on_and_off_and_the_last_setting_counts() -> None:
    assert gates_of("GenericWorkload=true") == DEFAULT_FEATURE_GATES | {"GenericWorkload"}
    assert gates_of("GenericWorkload=1,GangScheduling=T") >= {"GenericWorkload", "GangScheduling"}
    assert "SchedulerAsyncPreemption" not in gates_of("SchedulerAsyncPreemption=FALSE")
    assert "GenericWorkload" not in gates_of("GenericWorkload=true", "GenericWorkload=false")
    assert "GenericWorkload" in gates_of("kube: GenericWorkload = true ")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("Bogus=true", "unrecognized feature gate: Bogus"),
        ("GenericWorkload", "missing bool value for GenericWorkload"),
        (
            "GenericWorkload=maybe",
            "invalid value of GenericWorkload=maybe, "
            'err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        ("foo:X=true", "component not registered: foo"),
        ("a:b:c=true", "component not registered: a"),
        (
            "kube:GenericWorkload=true,GangScheduling=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, "
            "do not mix use",
        ),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "SidecarContainers=false,SchedulerQueueingHints=false",
            "[cannot set feature gate SidecarContainers to false, feature is locked to true, "
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true]",
        ),
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: "
            "[GenericWorkload]",
        ),
    ],
)
def test_an_invalid_setting_is_refused_with_upstreams_text(value: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        gates_of(value)
    assert str(raised.value) == error


def test_all_alpha_sets_the_alpha_gates_that_are_not_set_by_name() -> None:
    gates = gates_of("StorageCapacityScoring=false,AllAlpha=true")
    assert gates >= DEFAULT_FEATURE_GATES | {"GangScheduling", "WorkloadAwarePreemption"}
    assert "StorageCapacityScoring" not in gates


def test_all_beta_may_be_turned_off() -> None:
    gates = gates_of(
        "AllBeta=false,ContainerRestartRules=true,GracefulNodeShutdown=true,APIServerIdentity=true"
    )
    assert "SchedulerPopFromBackoffQ" not in gates


def test_gates_of_other_components_are_accepted() -> None:
    assert gates_of("WorkloadWithJob=true,GenericWorkload=true,QOSReserved=true,WatchList=false")


@pytest.mark.parametrize(
    ("setting", "stage"),
    [("DynamicResourceAllocation=true", "GA"), ("KMSv1=true", "deprecated")],
)
def test_gates_that_will_go_are_accepted_with_a_warning(
    setting: str, stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    gates_of(setting)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"Warning: setting {stage} feature gate. It will be removed in a future release."
    )
    assert record.args == {"featureGate": setting.partition("=")[0], "value": True}


def test_the_help_lists_the_gates_that_may_be_set() -> None:
    lines = help_lines(DEFAULT_SCHEDULER_VERSION)
    assert len(lines) == 149
    assert "kube:GangScheduling=true|false (ALPHA - default=false)" in lines
    assert "kube:AllBeta=true|false (BETA - default=false)" in lines
    assert not any("DynamicResourceAllocation=" in line for line in lines)


@pytest.mark.parametrize(
    ("scheduler", "version", "known", "on"),
    [
        *[("1.34", "1.32", 164, 82), ("1.34", "1.33", 188, 102), ("1.34", "1.34", 208, 127)],
        *[("1.35", "1.33", 179, 95), ("1.35", "1.34", 198, 119), ("1.35", "1.35", 218, 137)],
        *[("1.36", "1.33", 172, 90), ("1.36", "1.34", 191, 114), ("1.36", "1.35", 212, 132)],
        *[("1.37", "1.35", 189, 110), ("1.37", "1.36", 217, 148), ("1.37", "1.37", 253, 178)],
    ],
)
def test_each_version_has_its_own_gates_and_those_of_the_versions_that_it_emulates(
    scheduler: str, version: str, known: int, on: int
) -> None:
    emulation = effective_version([version], [], SchedulerVersion.parse(scheduler))
    states = feature_states(frozenset(), emulation)
    assert len(states) == known
    assert sum(spec.default for spec in emulation.features.values()) == on


@pytest.mark.parametrize(
    ("version", "digest"),
    [
        ("1.34", "ff5480dc671a4726f9a8e158d4fb9d90adc991e2b0ddaf6ba2458989a3be4028"),
        ("1.35", "3fb6e2d672864a148e2f6b5be08beaa73943b9a430ecc7c31a7ba52cd2214845"),
        ("1.36", "9e8d455b8f1f7a1d2a5791b608bdd6e1c05a24221c24bbf27bb0a7aefa8e7a46"),
        ("1.37", "5db01a7d6ea9d1a48d3a5d80435842c64d066f6c6a48e5aa4297d92fa48b7f34"),
    ],
)
def test_the_gates_of_the_help_are_those_of_the_stock_scheduler(version: str, digest: str) -> None:
    """The digests are of the lines that begin with `kube:` in the stock schedulers' --help."""
    lines = help_lines(SchedulerVersion.parse(version))
    text = "".join(f"{line}\n" for line in sorted(lines))
    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize(
    ("scheduler", "value", "error"),
    [
        ("1.34", "GenericWorkload=true", "unrecognized feature gate: GenericWorkload"),
        ("1.37", "GangScheduling=true", "unrecognized feature gate: GangScheduling"),
        (
            "1.35",
            "InPlacePodVerticalScaling=false",
            "cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true",
        ),
        (
            "1.37",
            "GenericWorkload=true",
            "cannot set feature gate GenericWorkload to true, "
            "the pod groups of 1.37 are not built into kubesched",
        ),
    ],
)
def test_gates_are_refused_as_the_version_refuses_them(
    scheduler: str, value: str, error: str
) -> None:
    version = EffectiveVersion.of(SchedulerVersion.parse(scheduler))
    with pytest.raises(ConfigError) as raised:
        enabled_gates(parse_settings([value]), version)
    assert str(raised.value) == error


def test_a_locked_gate_can_be_off_where_an_older_version_is_emulated() -> None:
    version = effective_version(["1.32"], [], SchedulerVersion.V1_34)
    gate = "CSIMigrationPortworx"
    assert gate in enabled_gates({}, version) - enabled_gates({gate: False}, version)


def test_before_min_compatibility_versions_the_refusal_does_not_name_one() -> None:
    version = effective_version(["1.32"], [], SchedulerVersion.V1_34)
    with pytest.raises(ConfigError, match=r"feature is PreAlpha at emulated version 1\.32$"):
        enabled_gates({"SchedulerPopFromBackoffQ": True}, version)


def test_a_gate_may_be_on_only_with_a_minimum_compatibility_version() -> None:
    def is_on(*min_compatibility: str) -> bool:
        version = effective_version([], min_compatibility, SchedulerVersion.V1_37)
        return version.features["DRAFractionalCapacityRange"].default

    assert not is_on()
    assert is_on("1.37")


def test_the_newest_version_has_the_default_gates() -> None:
    assert emulated("1.36") == DEFAULT_FEATURE_GATES


@pytest.mark.parametrize(
    ("version", "value", "error"),
    [
        (
            "1.33",
            "GenericWorkload=true",
            "cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated "
            "version 1.33, min compatibility version 1.33",
        ),
        (
            "1.35",
            "PodsAPI=false",
            "cannot set feature gate PodsAPI to false, feature is PreAlpha at emulated "
            "version 1.35, min compatibility version 1.34",
        ),
        (
            "1.35",
            "InPlacePodLevelResourcesVerticalScaling=true",
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are "
            "disabled: [NodeDeclaredFeatures]",
        ),
        (
            "1.34",
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
    ],
)
def test_gates_of_an_earlier_version_are_checked(version: str, value: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        emulated(version, value)
    assert str(raised.value) == error


@pytest.mark.parametrize("version", SchedulerVersion)
def test_queueing_hints_are_locked_in_all_versions(version: SchedulerVersion) -> None:
    """The texts are those of the stock kube-schedulers 1.34.4, 1.35.4, 1.36.3 and 1.37.2."""
    settings = parse_settings(["SchedulerQueueingHints=false"])
    locked = "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true"
    unknown = "unrecognized feature gate: SchedulerQueueingHints"
    with pytest.raises(ConfigError) as raised:
        enabled_gates(settings, EffectiveVersion.of(version))
    assert str(raised.value) == (locked if version < SchedulerVersion.V1_37 else unknown)


def test_a_gate_that_was_not_locked_may_be_turned_off() -> None:
    assert "DynamicResourceAllocation" in emulated("1.33", "DynamicResourceAllocation=true")
    assert "VolumeAttributesClass" not in emulated("1.33")
    assert "SchedulerQueueingHints" not in emulated("1.33", "SchedulerQueueingHints=false")
    assert "DRAAdminAccess" not in emulated("1.35", "DRAAdminAccess=false")


def test_alpha_features_of_an_earlier_version_have_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    emulated("1.35", "GenericWorkload=true,DRADeviceTaints=true")
    assert caplog.messages == [
        "component has alpha features enabled in emulated version, this is unsupported: "
        "features=[DRADeviceTaints GenericWorkload]"
    ]
