"""Default plugins, fields of the configuration and metrics differ by version."""

import json

import msgspec
import pytest

from scheduler.assembly.profiles import with_extenders
from scheduler.config import (
    ConfigError,
    SchedulerVersion,
    default_config,
    default_feature_gates,
    default_plugins,
    encode_config,
    load_text,
)
from scheduler.config.encode import go_numbers, internal_config
from scheduler.metrics import SchedulerMetrics
from scheduler.metrics.exposition import Exposition, MetricsOptions
from scheduler.plugins import SCHEME
from scheduler.plugins.node_resources.args import NodeResourcesFitArgs
from tests.config.tables import FOLDER

V1_34, V1_35, V1_36, V1_37 = SchedulerVersion


def defaults(version: SchedulerVersion) -> dict[str, int]:
    gates = default_feature_gates(version)
    return {p.name: p.weight for p in default_plugins(gates, version).multi_point.enabled}


def test_the_node_name_is_compared_before_cordons_since_1_37() -> None:
    assert [*defaults(V1_36)][2:4] == ["NodeUnschedulable", "NodeName"]
    assert [*defaults(V1_37)][2:4] == ["NodeName", "NodeUnschedulable"]


def test_devices_have_a_weight_since_1_35_and_declared_features_a_plugin_since_1_36() -> None:
    assert [defaults(version)["DynamicResources"] for version in SchedulerVersion] == [0, 2, 2, 2]
    plugin = "NodeDeclaredFeatures"
    assert [plugin in defaults(version) for version in SchedulerVersion] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("version", "profile", "path"),
    [
        (V1_35, {"plugins": {"placementScore": {}}}, "profiles[0].plugins.placementScore"),
        (
            V1_34,
            {"pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "20s"}}]},
            "bindingTimeout",
        ),
    ],
)
def test_a_field_of_a_later_version_is_unknown(
    version: SchedulerVersion, profile: dict[str, object], path: str
) -> None:
    text = json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )
    load_text(text, SCHEME)
    with pytest.raises(ConfigError) as raised:
        load_text(text, SCHEME._replace(version=version))
    assert f'unknown field "{path}"' in str(raised.value)


def test_configz_has_the_fields_of_the_version() -> None:
    config = default_config(SCHEME)
    assert "placementScore" in json.dumps(encode_config(config, V1_36))
    assert "placementScore" not in json.dumps(encode_config(config, V1_35))


def test_configz_up_to_1_35_has_the_types_of_kube_scheduler_itself() -> None:
    scheme = SCHEME._replace(version=V1_35, gates=default_feature_gates(V1_35))
    text = (FOLDER / "internal_form.yaml").read_text(encoding="utf-8")
    config = with_extenders(load_text(text, scheme))
    shown = json.loads((FOLDER / "internal_form_1.35.4.json").read_bytes())["componentconfig"]
    assert json.dumps(go_numbers(internal_config(config, V1_35))) == json.dumps(shown)


def test_claims_are_counted_by_the_metric_of_the_version() -> None:
    metrics = SchedulerMetrics()
    metrics.resource_claim_created("success")
    shown = {
        version: Exposition(metrics, MetricsOptions(version=version)).text().decode()
        for version in SchedulerVersion
    }
    old = 'scheduler_resourceclaim_creates_total{status="success"} 1.0'
    new = "dynamic_resource_allocation_resourceclaim_creates_total{"
    assert [old in shown[version] for version in SchedulerVersion] == [0, 1, 1, 0]
    assert [new in shown[version] for version in SchedulerVersion] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("version", "strategy", "path"),
    [
        (
            V1_35,
            {"type": "LeastAllocated", "requestedToCapacityRatio": {}},
            "scoringStrategy.shape",
        ),
        (
            V1_36,
            {"type": "LeastAllocated", "requestedToCapacityRatio": {}},
            "scoringStrategy.requestedToCapacityRatio",
        ),
        (V1_35, {"type": "RequestedToCapacityRatio"}, ""),
        (
            V1_36,
            {"type": "RequestedToCapacityRatio"},
            "scoringStrategy.requestedToCapacityRatio",
        ),
    ],
)
def test_a_shape_belongs_to_its_strategy_since_1_36(
    version: SchedulerVersion, strategy: dict[str, object], path: str
) -> None:
    args = msgspec.convert({"scoringStrategy": strategy}, NodeResourcesFitArgs)
    errors = args.validator(version)("", default_feature_gates(version))
    assert [error.path for error in errors] == ([path] if path else [])
