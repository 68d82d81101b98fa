import logging

import pytest

from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    DEFAULT_SCHEDULER_VERSION,
    Plugin,
    Plugins,
    SchedulerVersion,
    default_plugins,
    merge_plugins,
)
from scheduler.config.decode import decode
from tests.config.tables import Case, gates, sources, table

DEFAULTS = default_plugins(DEFAULT_FEATURE_GATES, DEFAULT_SCHEDULER_VERSION)


def _plugins(value: Case) -> Plugins:
    plugins, unknown_fields = decode(Plugins, value, max(SchedulerVersion))
    assert not unknown_fields
    return plugins


@pytest.mark.parametrize("case", table("default_plugins.yaml"))
def test_feature_gates_add_plugins_and_take_them_away(case: Case) -> None:
    enabled = [
        plugin
        for plugin in DEFAULTS.multi_point.enabled
        if plugin.name not in case.get("without", ())
    ]
    enabled += [Plugin(**entry) for entry in case.get("appended", ())]
    plugins = default_plugins(gates(case["gates"]), DEFAULT_SCHEDULER_VERSION)
    assert list(plugins.multi_point.enabled) == enabled
    assert [name for name, point in plugins.points() if point.enabled or point.disabled] == [
        "multiPoint"
    ]


def test_the_default_plugins_are_upstreams_in_order_and_weight() -> None:
    enabled = DEFAULTS.multi_point.enabled
    assert " ".join(f"{plugin.name}={plugin.weight}" for plugin in enabled) == (
        "SchedulingGates=0 PrioritySort=0 NodeUnschedulable=0 NodeName=0 TaintToleration=3 "
        "NodeAffinity=2 NodePorts=0 NodeResourcesFit=1 VolumeRestrictions=0 NodeVolumeLimits=0 "
        "VolumeBinding=0 VolumeZone=0 PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
        "DefaultPreemption=0 NodeResourcesBalancedAllocation=1 ImageLocality=1 DefaultBinder=0 "
        "NodeDeclaredFeatures=0"
    )


@pytest.mark.parametrize("case", table("merge_plugins.yaml"))
def test_a_profiles_plugins_change_the_default_ones(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="scheduler.config")
    merged = merge_plugins(_plugins(case["defaults"]), _plugins(case["custom"]))
    assert merged == _plugins(case["want"])
    assert [record.getMessage() for record in caplog.records] == [
        f'"Default plugin is explicitly re-configured; overriding" plugin="{name}"'
        for name in case.get("overridden", ())
    ]


def test_upstreams_tables_are_all_here() -> None:
    assert sources("default_plugins.yaml", "merge_plugins.yaml") == {
        "TestApplyFeatureGates": 6,
        "TestMergePlugins": 14,
    }


@pytest.mark.parametrize("point", [name for name, _ in Plugins().points()])
def test_every_extension_point_is_merged(point: str) -> None:
    defaults = _plugins({point: {"enabled": [{"name": "A"}, {"name": "B"}]}})
    custom = _plugins({point: {"enabled": [{"name": "C"}], "disabled": [{"name": "A"}]}})
    want = {"enabled": [{"name": "B"}, {"name": "C"}], "disabled": [{"name": "A"}]}
    assert merge_plugins(defaults, custom) == _plugins({point: want})
