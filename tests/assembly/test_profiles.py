"""From a configuration to frameworks, with plugins from everywhere."""

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler.assembly.profiles import (
    build_profiles,
    find_plugins_in_working_directory,
    plugin_registry,
    with_extenders,
)
from scheduler.config import (
    DEFAULT_FEATURE_GATES,
    GANG_SCHEDULING,
    RESIZE_PREEMPTION,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    ConfigError,
    Duration,
    Extender,
    ExtenderManagedResource,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
    SchedulerVersion,
    default_config,
    load_config,
)
from scheduler.framework import CycleState, NodeInfo, Plugin, PodInfo, Status, unschedulable
from scheduler.plugins import IN_TREE, SCHEME, in_tree_plugins
from scheduler.plugins.node_resources.args import NodeResourcesFitArgs
from scheduler.runtime import Framework, PluginSetupError
from scheduler.testing import FakeHandle

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Guard(Plugin):
    """Rejects everything, everywhere."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable("guarded")


def profiles_of(
    config: KubeSchedulerConfiguration, plugins: Iterable[type[Plugin] | str] = ()
) -> dict[str, Framework]:
    return build_profiles(config, FakeHandle().make, plugins=plugins)


def filters(framework: Framework) -> list[str]:
    return [plugin.name for plugin in framework.plugins["filter"]]


@pytest.fixture
def config(tmp_path: Path) -> KubeSchedulerConfiguration:
    path = tmp_path / "config.yaml"
    path.write_text(
        HEAD + "profiles:\n"
        "- schedulerName: plain\n"
        "- schedulerName: guarded-first\n"
        "  plugins: {filter: {enabled: [{name: Guard}]}}\n"
        "- schedulerName: unguarded\n"
        "  plugins: {filter: {disabled: [{name: Guard}]}}\n",
        encoding="utf-8",
    )
    return load_config(path, SCHEME)


def test_each_profile_has_a_framework_under_its_name(config: KubeSchedulerConfiguration) -> None:
    profiles = profiles_of(config, [Guard])
    assert list(profiles) == ["plain", "guarded-first", "unguarded"]
    assert [framework.profile_name for framework in profiles.values()] == list(profiles)


def test_a_plugin_joins_the_profiles_that_do_not_mention_it(
    config: KubeSchedulerConfiguration,
) -> None:
    profiles = profiles_of(config, [Guard])
    assert filters(profiles["plain"])[-1] == "Guard"
    assert "Guard" in filters(profiles["guarded-first"])
    assert "Guard" not in filters(profiles["unguarded"])


def test_arguments_of_a_plugin_that_is_not_enabled_are_logged(
    config: KubeSchedulerConfiguration, caplog: pytest.LogCaptureFixture
) -> None:
    args = (PluginConfig(name="Gard", args={}), PluginConfig(name="NodeResourcesFit", args={}))
    plain = replace(config.profiles[0], plugin_config=args)
    profiles_of(replace(config, profiles=(plain,)), [Guard])
    assert [record.getMessage() for record in caplog.records] == [
        'Profile "plain": pluginConfig of "Gard" is not used: the plugin is not enabled '
        '(did you mean "Guard"?)'
    ]


def test_a_name_that_is_no_plugin_gets_a_hint() -> None:
    with pytest.raises(PluginSetupError) as refusal:
        plugin_registry(["NodeNam"])
    assert str(refusal.value) == (
        'plugin "NodeNam" does not exist (did you mean "NodeName"?); '
        "a class of a module is written module:Class"
    )


def test_a_version_has_its_own_plugins() -> None:
    """Source: `NewInTreeRegistry` in `pkg/scheduler/framework/plugins/registry.go` of each."""
    known = [{plugin.name for plugin in in_tree_plugins(v)} for v in SchedulerVersion]
    came = [sorted(after - before) for before, after in itertools.pairwise(known)]
    assert came == [
        ["GangScheduling", "NodeDeclaredFeatures"],
        ["PodGroupPodsCount", "TopologyPlacementGenerator"],
        ["DeferredPodScheduling"],
    ]
    assert len(known[0]) == 19
    with pytest.raises(PluginSetupError, match='plugin "GangScheduling" does not exist'):
        plugin_registry(["GangScheduling"], SchedulerVersion.V1_34)


def test_the_default_profile_is_upstreams() -> None:
    (framework,) = profiles_of(default_config(SCHEME)).values()
    assert filters(framework) == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ]


def test_a_plugin_is_found_by_reference_in_the_working_directory_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "found_here.py").write_text(
        "from scheduler import Plugin\nclass Here(Plugin):\n    def filter(self, s, p, n): ...\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with pytest.raises(PluginSetupError, match="cannot import: No module named 'found_here'"):
        plugin_registry(["found_here:Here"])
    find_plugins_in_working_directory()
    (framework,) = profiles_of(default_config(SCHEME), ["found_here:Here"]).values()
    assert filters(framework)[-1] == "Here"


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        (["Nobody"], 'plugin "Nobody" does not exist'),
        ([Guard, Guard], "a plugin named Guard already exists"),
        (["tests.assembly.test_profiles:HEAD"], "expected a subclass of scheduler.Plugin"),
    ],
)
def test_plugins_that_cannot_be_had_are_named(
    plugins: list[type[Plugin] | str], message: str
) -> None:
    with pytest.raises(PluginSetupError, match=message):
        plugin_registry(plugins)


def test_the_profile_at_fault_is_named(config: KubeSchedulerConfiguration) -> None:
    with pytest.raises(PluginSetupError) as error:
        profiles_of(config)
    assert str(error.value) == (
        "initializing profiles: creating profile for scheduler name guarded-first: "
        'FilterPlugin "Guard" does not exist; '
        "a plugin of your own is loaded by --plugin MODULE:Guard"
    )


def test_two_profiles_of_one_name_are_refused() -> None:
    config = default_config(SCHEME)
    twice = replace(config, profiles=config.profiles * 2)
    with pytest.raises(PluginSetupError, match='duplicate profile with scheduler name "default-'):
        profiles_of(twice)


def test_every_plugin_of_upstreams_default_profile_is_there() -> None:
    on = {GANG_SCHEDULING, RESIZE_PREEMPTION, TOPOLOGY_AWARE_WORKLOAD_SCHEDULING}
    scheme = SCHEME._replace(gates=DEFAULT_FEATURE_GATES | on, version=max(SchedulerVersion))
    (profile,) = default_config(scheme).profiles
    assert isinstance(profile, KubeSchedulerProfile)
    names = {entry.name for entry in profile.plugins.multi_point.enabled}
    assert names == IN_TREE.keys()


def _with(*extenders: Extender) -> KubeSchedulerConfiguration:
    return replace(default_config(SCHEME), extenders=extenders)


def test_extenders_change_the_arguments_of_node_resources_fit_and_get_a_timeout() -> None:
    managed = (
        ExtenderManagedResource(name="example.com/a", ignored_by_scheduler=True),
        ExtenderManagedResource(name="example.com/b"),
    )
    given = _with(
        Extender(url_prefix="http://x", managed_resources=managed),
        Extender(url_prefix="http://y", http_timeout=Duration.parse("1m")),
    )
    config = with_extenders(given)
    (args,) = [
        entry.args
        for entry in config.profiles[0].plugin_config
        if isinstance(entry.args, NodeResourcesFitArgs)
    ]
    assert args.ignored_resources == ("example.com/a",)
    assert [str(extender.http_timeout) for extender in config.extenders] == ["5s", "1m0s"]
    assert with_extenders(config) == config


def test_a_resource_cannot_be_ignored_without_node_resources_fit() -> None:
    managed = (ExtenderManagedResource(name="example.com/a", ignored_by_scheduler=True),)
    config = _with(Extender(managed_resources=managed))
    profiles = (replace(config.profiles[0], plugin_config=()),)
    with pytest.raises(ConfigError, match="can't find NodeResourcesFitArgs in plugin config"):
        with_extenders(replace(config, profiles=profiles))
