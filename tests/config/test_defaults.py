import pytest
import yaml

from scheduler.config import KubeSchedulerProfile, PluginConfig, default_config, load_text
from scheduler.config.load import complete_profile
from scheduler.plugins import SCHEME
from scheduler.plugins.default_preemption import DefaultPreemptionArgs
from tests.config.tables import Case, differs_from_default, scheme, sources, table


@pytest.mark.parametrize("case", table("defaults.yaml"))
def test_missing_fields_get_their_defaults(case: Case) -> None:
    meta = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = load_text(yaml.safe_dump({**meta, **case["config"]}), SCHEME)
    actual, expected = differs_from_default(config, case["want"])
    assert actual == expected


def test_upstreams_table_is_all_here() -> None:
    # The eleventh is the next test.
    assert sources("defaults.yaml") == {"TestSchedulerDefaults": 10}


def test_arguments_that_are_not_of_a_known_type_are_left_alone() -> None:
    """TestSchedulerDefaults#unknown plugin config."""
    unknown = PluginConfig("DefaultPreemption", {"some": "thing"})
    given = (unknown, *default_config(SCHEME).profiles[0].plugin_config[1:])
    profile = KubeSchedulerProfile("default-scheduler", plugin_config=given)
    assert complete_profile(profile, SCHEME).plugin_config == given


def test_defaults_follow_the_feature_gates() -> None:
    off = scheme({"DynamicResourceAllocation": False})
    assert "DynamicResources" not in default_config(off).profiles[0].plugins.names()
    names = [entry.name for entry in default_config(off).profiles[0].plugin_config]
    assert "DynamicResources" not in names
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    assert load_text(text, off) == default_config(off)


def test_default_arguments_come_in_alphabetical_order_after_those_given() -> None:
    given = (PluginConfig("VolumeBinding"), PluginConfig("Foo"))
    profile = complete_profile(KubeSchedulerProfile(plugin_config=given), SCHEME)
    names = [entry.name for entry in profile.plugin_config]
    assert names[:2] == ["VolumeBinding", "Foo"]
    assert names[2:] == sorted(set(names[2:]))
    assert profile.plugin_config[2].args == DefaultPreemptionArgs()
