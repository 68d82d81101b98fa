from typing import Any

import msgspec
import pytest

from scheduler.config import (
    KubeSchedulerConfiguration,
    PluginConfig,
    SchedulerVersion,
    default_config,
    load_text,
    validate_config,
)
from scheduler.config.load import decode_args, decode_config
from scheduler.plugins import SCHEME
from tests.config.tables import Case, changed, read, scheme, sources, table

BASE: Case = read("validation.yaml")[0]["base"]


def _config(fields: Case) -> KubeSchedulerConfiguration:
    """A configuration as it is written, but for arguments whose `type` is another plugin's."""
    foreign: list[tuple[int, int, Any]] = []
    for index, profile in enumerate(fields["profiles"]):
        for number, entry in enumerate(profile.get("pluginConfig", ())):
            if "type" in entry:
                args, _ = decode_args(entry.pop("type"), entry.pop("args"), SCHEME)
                foreign.append((index, number, args))
    config = decode_config(fields, SCHEME)
    for index, number, args in foreign:
        profile = config.profiles[index]
        entries = list(profile.plugin_config)
        entries[number] = PluginConfig(entries[number].name, args)
        profiles = list(config.profiles)
        profiles[index] = msgspec.structs.replace(profile, plugin_config=tuple(entries))
        config = msgspec.structs.replace(config, profiles=tuple(profiles))
    return config


@pytest.mark.parametrize("case", table("validation.yaml"))
def test_every_mistake_is_found(case: Case) -> None:
    config = _config(changed(BASE, case["change"]))
    assert [str(error) for error in validate_config(config, SCHEME)] == case.get("errors", [])


def test_upstreams_tables_are_all_here() -> None:
    assert sources("validation.yaml") == {
        "TestValidateClientConnectionConfiguration": 3,
        "TestValidateKubeSchedulerConfigurationV1": 22,
        "TestValidateLeaderElectionConfiguration": 12,
    }


def test_the_default_configuration_is_good() -> None:
    assert validate_config(default_config(SCHEME), SCHEME) == []


def test_arguments_are_checked_under_the_gates_that_are_on() -> None:
    with_timeout = load_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 30s}}]}]\n",
        SCHEME,
    )
    assert validate_config(with_timeout, SCHEME) == []
    off = scheme({"DRADeviceBindingConditions": False})
    (error,) = validate_config(with_timeout, off)
    assert error.path == "profiles[0].pluginConfig[0].args.bindingTimeout"


def test_names_of_1_34_have_characters() -> None:
    as_1_34 = SCHEME._replace(version=SchedulerVersion.V1_34)
    extender = {"urlPrefix": "http://a", "managedResources": [{"name": "b" * 64}, {"name": "/c/d"}]}
    config = _config(changed(BASE, {"extenders": [extender]}))
    texts = [str(error) for error in validate_config(config, as_1_34)]
    assert texts[0].endswith(": name part must be no more than 63 characters")
    assert '"/c/d": a qualified name must consist of' in texts[1]


def test_arguments_that_were_not_decoded_do_not_match_their_plugin() -> None:
    """A configuration made by hand must use the plugin's own type."""
    config = default_config(SCHEME)
    profile = msgspec.structs.replace(
        config.profiles[0],
        plugin_config=(PluginConfig("VolumeBinding", {"bindTimeoutSeconds": 1}),),
    )
    (error,) = validate_config(msgspec.structs.replace(config, profiles=(profile,)), SCHEME)
    assert str(error) == (
        'profiles[0].pluginConfig[0].args: Invalid value: {"bindTimeoutSeconds":1}: '
        "has to match plugin args"
    )
