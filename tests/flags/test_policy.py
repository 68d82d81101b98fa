"""Policies of v1.13: the document, its errors to the byte, and the profile it becomes."""

import json
from pathlib import Path

import pytest
import yaml

from scheduler.assembly.profiles import build_profiles, with_extenders
from scheduler.config import (
    ConfigError,
    SchedulerVersion,
    default_config,
    default_feature_gates,
    load_text,
    validate_config,
)
from scheduler.config.encode import config_yaml
from scheduler.flags.policy_document import load_policy, policy_of_config_map, read_policy
from scheduler.flags.policy_translation import (
    PREDICATES,
    PRIORITIES,
    Translation,
    provider_policy,
    translate,
)
from scheduler.plugins import IN_TREE, SCHEME
from scheduler.runtime import Framework
from scheduler.testing import FakeHandle

HTTP = "http://127.0.0.1:8081/extender"
FROM_POLICY = "couldn't create scheduler from policy: "
WEIGHT = "Priority {} should have a positive weight applied to it or it has overflown"
MANDATORY = ["NodeUnschedulable", "TaintToleration"]
AVOID = ("NodePreferAvoidPodsPriority", 10000)


def policy_text(**fields: object) -> str:
    return json.dumps({"kind": "Policy", "apiVersion": "v1", **fields})


def translated(text: str) -> Translation:
    return translate(read_policy(text), default_config(SCHEME), SCHEME)


def framework_of(translation: Translation) -> Framework:
    assert validate_config(translation.config, SCHEME) == []
    frameworks = build_profiles(translation.config, FakeHandle().make, plugins=translation.plugins)
    return frameworks["default-scheduler"]


def running(translation: Translation, point: str) -> list[str]:
    return [plugin.name for plugin in framework_of(translation).plugins[point]]


def score_weights(translation: Translation) -> dict[str, int]:
    enabled = translation.config.profiles[0].plugins.score.enabled
    return {plugin.name: plugin.weight for plugin in enabled}


def priority(weight: object, argument: object = None, name: str = "Mine") -> dict[str, object]:
    return {"name": name, "weight": weight, "argument": argument}


def ratio(*points: tuple[int, int]) -> dict[str, object]:
    shape = [{"utilization": x, "score": y} for x, y in points]
    return {"requestedToCapacityRatioArguments": {"shape": shape}}


# Rows of `TestValidatePolicy` that are errors.
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"priorities": [{"name": "NoWeight"}]}, WEIGHT.format("NoWeight")),
        ({"priorities": [{"name": "NoWeight", "weight": 0}]}, WEIGHT.format("NoWeight")),
        ({"priorities": [priority(-2)]}, WEIGHT.format("Mine")),
        ({"priorities": [priority((2**63 - 1) // 10)]}, WEIGHT.format("Mine")),
        (
            {"extenders": [{"urlPrefix": HTTP, "prioritizeVerb": "prioritize", "weight": -2}]},
            f"Priority for extender {HTTP} should have a positive weight applied to it",
        ),
        (
            {"extenders": [{"urlPrefix": HTTP, "BindVerb": "bind"}] * 2},
            "Only one extender can implement bind, found 2",
        ),
        (
            {"extenders": [{"urlPrefix": HTTP, "managedResources": [{"name": "foo.com/bar"}]}] * 2},
            "Duplicate extender managed resource name foo.com/bar",
        ),
        (
            {"extenders": [{"urlPrefix": HTTP, "managedResources": [{"name": "kubernetes.io/a"}]}]},
            "kubernetes.io/a is an invalid extended resource name",
        ),
        (
            {"extenders": [{"urlPrefix": HTTP, "managedResources": [{"name": "/a"}]}]},
            "prefix part must be non-empty",
        ),
        (
            {"priorities": [priority(0), priority(0)]},
            f"[{WEIGHT.format('Mine')}, {WEIGHT.format('Mine')}]",
        ),
    ],
)
def test_a_policy_is_validated_with_the_texts_of_1_13(
    fields: dict[str, object], error: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_policy(policy_text(**fields))
    assert str(caught.value) == FROM_POLICY + error


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"predicates": [{"name": "Nope"}]},
            "Invalid configuration: Predicate type not found for Nope",
        ),
        (
            {"priorities": [priority(1, name="Nope")]},
            "Invalid configuration: Priority type not found for Nope",
        ),
        (
            {"predicates": [{"name": "Mine", "argument": {}}]},
            "Exactly 1 predicate argument is required, numArgs: 0, Predicate: Mine",
        ),
        (
            {
                "priorities": [
                    priority(
                        1, {"labelPreference": {"label": "a"}, "serviceAntiAffinity": {"label": ""}}
                    )
                ]
            },
            "Exactly 1 priority argument is required, numArgs: 2, Priority: Mine",
        ),
        (
            {"priorities": [priority(1, {"labelPreference": {"label": "a"}}, name="my_own")]},
            "Algorithm name my_own does not match the name validation regexp "
            '"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])$".',
        ),
        (
            {"priorities": [priority(1, ratio())]},
            "invalid RequestedToCapacityRatioPriority arguments: "
            "at least one point must be specified",
        ),
        (
            {"priorities": [priority(1, ratio((10, 1), (10, 2)))]},
            "invalid RequestedToCapacityRatioPriority arguments: utilization values must be "
            "sorted. Utilization[0]==10 >= Utilization[1]==10",
        ),
        (
            {"priorities": [priority(1, ratio((-1, 1)))]},
            "invalid RequestedToCapacityRatioPriority arguments: "
            "utilization values must not be less than 0. Utilization[0]==-1",
        ),
        (
            {"priorities": [priority(1, ratio((0, 1), (101, 1)))]},
            "invalid RequestedToCapacityRatioPriority arguments: "
            "utilization values must not be greater than 100. Utilization[1]==101",
        ),
        (
            {"priorities": [priority(1, ratio((0, -1)))]},
            "invalid RequestedToCapacityRatioPriority arguments: "
            "score values must not be less than 0. Score[0]==-1",
        ),
        (
            {"priorities": [priority(1, ratio((0, 11)))]},
            "invalid RequestedToCapacityRatioPriority arguments: "
            "score valuses not be greater than 10. Score[0]==11",
        ),
        (
            {"priorities": [priority(2**31, name="EqualPriority")]},
            "the weight of priority EqualPriority is more than 2147483647",
        ),
        (
            {"hardPodAffinitySymmetricWeight": 101},
            f"{FROM_POLICY}invalid hardPodAffinitySymmetricWeight: 101, must be in the range 1-100",
        ),
        (
            {
                "priorities": [
                    priority(2**62 // 10, name="EqualPriority"),
                    priority(2**62 // 10, name="LeastRequestedPriority"),
                    priority(2**62 // 10, name="ImageLocalityPriority"),
                ]
            },
            f"{FROM_POLICY}Total priority of priority functions has overflown",
        ),
    ],
)
def test_names_and_arguments_are_checked_with_the_texts_of_1_13(
    fields: dict[str, object], error: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        translated(policy_text(**fields))
    assert str(caught.value) == error


def test_sources_are_checked_with_the_texts_of_1_13(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.json")
    with pytest.raises(ConfigError, match=f"^missing policy config file {missing}$"):
        load_policy(missing)
    with pytest.raises(ConfigError) as caught:
        load_policy(str(tmp_path))
    assert str(caught.value) == f"couldn't read policy config: read {tmp_path}: is a directory"
    other = tmp_path / "latin-1"
    other.write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        load_policy(str(other))
    with pytest.raises(ConfigError) as caught:
        policy_of_config_map({})
    assert str(caught.value) == 'missing policy config map value at key "policy.cfg"'
    with pytest.raises(ConfigError) as caught:
        provider_policy("Mine")
    assert str(caught.value) == (
        'couldn\'t create scheduler using provider "Mine": plugin "Mine" has not been registered'
    )
    with pytest.raises(ConfigError) as caught:
        read_policy('{"kind": "Pod", "apiVersion": "v1"}')
    assert str(caught.value) == (
        'invalid policy: no kind "Pod" is registered for version "v1" '
        'in scheme "k8s.io/kubernetes/pkg/scheduler/api/register.go:27"'
    )


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"extenders": [7]}, "number into Go struct field Policy.extenders of type v1.Extender"),
        (
            {"priorities": [priority("x")]},
            "string into Go struct field PriorityPolicy.priorities.weight",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error(fields: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigError, match=f"^invalid policy: json: cannot unmarshal {error}"):
        read_policy(policy_text(**fields))


def test_json_and_yaml_are_the_same_policy() -> None:
    fields = {"predicates": [{"name": "HostName"}], "priorities": [priority(3)], "unknown": 1}
    text = policy_text(**fields)
    assert read_policy(text) == read_policy(yaml.safe_dump(json.loads(text)))


def test_without_lists_the_policy_has_the_default_provider() -> None:
    found = translated(policy_text())
    scored = score_weights(found)
    assert running(found, "filter")[:9] == [
        *("NodeUnschedulable", "NodeName", "NodePorts", "NodeAffinity", "NodeResourcesFit"),
        *("VolumeRestrictions", "TaintToleration", "NodeVolumeLimits", "VolumeBinding"),
    ]
    assert dict([AVOID]).items() <= scored.items()
    assert len(scored) == 8
    assert running(found, "bind") == ["DefaultBinder"]
    assert running(found, "pre_score") == ["InterPodAffinityPriority"]


def test_the_autoscaler_provider_prefers_nodes_that_are_used() -> None:
    name = "ClusterAutoscalerProvider"
    config = default_config(SCHEME)
    found = translate(provider_policy(name), config, SCHEME, provider=name)
    scored = score_weights(found)
    assert "MostRequestedPriority" in scored
    assert "LeastRequestedPriority" not in scored


def test_empty_lists_leave_the_mandatory_predicates_only() -> None:
    found = translated(policy_text(predicates=[], priorities=[]))
    assert running(found, "filter")[:2] == MANDATORY
    assert "NodeResourcesFit" not in running(found, "filter")
    assert running(found, "score") == []


@pytest.mark.parametrize("name", PREDICATES)
def test_every_predicate_becomes_filters_of_its_plugins(name: str) -> None:
    found = translated(policy_text(predicates=[{"name": name}], priorities=[]))
    assert {*PREDICATES[name].plugins, *MANDATORY} <= {*running(found, "filter")}


@pytest.mark.parametrize("name", PRIORITIES)
def test_every_priority_becomes_a_score_and_a_modern_one(name: str) -> None:
    found = translated(policy_text(priorities=[priority(7, name=name)]))
    wanted = PRIORITIES[name].plugin or name
    assert running(found, "score") == [wanted]
    assert score_weights(found) == {wanted: 7}
    modern = found.modern.profiles[0].plugins.score.enabled
    successor = PRIORITIES[name].modern
    assert [(p.name, p.weight) for p in modern] == ([(successor, 7)] if successor else [])


def test_custom_entries_are_plugins_named_after_them() -> None:
    found = translated(
        policy_text(
            predicates=[
                {"name": "Zone", "argument": {"serviceAffinity": {"labels": ["zone"]}}},
                {"name": "HasDisk", "argument": {"labelsPresence": {"labels": ["disk"]}}},
            ],
            priorities=[
                priority(3, {"serviceAntiAffinity": {"label": "rack"}}, name="RackSpread"),
                priority(5, {"labelPreference": {"label": "b", "presence": True}}, name="B1"),
            ],
        )
    )
    filters = running(found, "filter")
    custom = ["CheckServiceAffinity/Zone", "CheckNodeLabelPresence/HasDisk"]
    assert filters[:4] == [*MANDATORY, *custom]
    assert score_weights(found) == {
        "NodeLabelPriority/B1": 5,
        "ServiceAntiAffinityPriority/RackSpread": 3,
    }


@pytest.mark.parametrize(
    ("resources", "plugin", "listed"),
    [
        # v1.17 added resources, and its formula is that of NodeResourcesFit.
        ([], "RequestedToCapacityRatioPriority/Mine", []),
        ([{"name": "example.com/a", "weight": 3}], "NodeResourcesFit", ["example.com/a"]),
    ],
)
def test_a_ratio_of_requests_is_a_strategy(
    resources: list[dict[str, object]], plugin: str, listed: list[str]
) -> None:
    argument = ratio((0, 0), (100, 10))
    of_ratio = argument["requestedToCapacityRatioArguments"]
    assert isinstance(of_ratio, dict)
    of_ratio["resources"] = resources
    found = translated(policy_text(predicates=[], priorities=[priority(2, argument)]))
    assert score_weights(found) == {plugin: 2}
    (fit,) = (p for p in framework_of(found).plugins["score"] if p.name == plugin)
    shape = (
        fit.args.scoring_strategy.requested_to_capacity_ratio.shape if listed else fit.args.shape
    )
    assert [(point.utilization, point.score) for point in shape] == [(0, 0), (100, 10)]
    modern = config_yaml(found.modern, SCHEME.version)
    assert "requestedToCapacityRatio:" in modern
    assert all(f"name: {name}" in modern for name in listed)


def test_a_name_with_an_argument_stays_as_its_argument_makes_it() -> None:
    argument = {"labelsPresence": {"labels": ["disk"]}}
    entries = [{"name": "GeneralPredicates", "argument": argument}, {"name": "GeneralPredicates"}]
    found = translated(policy_text(predicates=entries, priorities=[]))
    filters = running(found, "filter")
    assert "CheckNodeLabelPresence/GeneralPredicates" in filters
    assert "NodeResourcesFit" not in filters


def test_the_last_entry_of_a_name_counts() -> None:
    entries = [priority(1, name="EqualPriority"), priority(9, name="EqualPriority")]
    assert score_weights(translated(policy_text(priorities=entries))) == {"EqualPriority": 9}


def test_the_symmetric_weight_is_an_argument_in_both_configurations() -> None:
    entry = priority(1, name="InterPodAffinityPriority")
    found = translated(policy_text(priorities=[entry], hardPodAffinitySymmetricWeight=42))
    plugin = next(p for p in framework_of(found).plugins["score"])
    assert plugin.args.hard_pod_affinity_weight == 42
    assert "hardPodAffinityWeight: 42" in config_yaml(found.modern, SCHEME.version)


def test_extenders_are_translated_whatever_the_case_of_their_fields() -> None:
    extender = {
        "URLPrefix": HTTP,
        "filterverb": "filter",
        "enableHttps": True,
        "nosuch": 1,
        "httpTimeout": 100_000_000,
        "tlsConfig": {"Insecure": True, "ServerName": "me"},
        "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}],
    }
    found = translated(policy_text(predicates=[], extenders=[extender]))
    (read,) = with_extenders(found.config).extenders
    assert (read.url_prefix, read.filter_verb, read.enable_https) == (HTTP, "filter", True)
    assert str(read.http_timeout) == "100ms"
    assert read.tls_config is not None
    assert (read.tls_config.insecure, read.tls_config.server_name) == (True, "me")
    assert read.managed_resources[0].ignored_by_scheduler


def test_the_modern_configuration_has_in_tree_plugins_only_and_reads_back() -> None:
    found = translated(
        policy_text(
            predicates=[
                {"name": "HasDisk", "argument": {"labelsPresence": {"labels": ["disk"]}}},
                {"name": "GeneralPredicates"},
            ],
            priorities=[
                priority(200, {"labelPreference": {"label": "a", "presence": True}}, name="Ab"),
                priority(3, {"serviceAntiAffinity": {"label": "rack"}}, name="RackSpread"),
                priority(1, name="LeastRequestedPriority"),
                priority(1, name="MostRequestedPriority"),
                priority(1, name="EqualPriority"),
            ],
            alwaysCheckAllPredicates=True,
        )
    )
    text = found.comments() + config_yaml(found.modern, SCHEME.version)
    read = load_text(text, SCHEME)
    assert validate_config(read, SCHEME) == []
    plugins = read.profiles[0].plugins
    assert {*plugins.names()} <= IN_TREE.keys()
    assert {p.name: p.weight for p in plugins.score.enabled} == {
        "NodeAffinity": 200,
        "PodTopologySpread": 3,
        "NodeResourcesFit": 1,
    }
    comments = [line for line in text.splitlines() if line.startswith("# - ")]
    assert [line.split(" ")[2] for line in comments] == [
        *("GeneralPredicates", "HasDisk", "Ab", "EqualPriority", "LeastRequestedPriority"),
        *("MostRequestedPriority", "RackSpread", "alwaysCheckAllPredicates:"),
    ]
    assert "topologyKey: rack" in text
    assert "operator: DoesNotExist" in text


def test_the_other_plugins_are_those_of_the_version() -> None:
    gates = default_feature_gates(SchedulerVersion.V1_35)
    scheme = SCHEME._replace(gates=gates, version=SchedulerVersion.V1_35)
    found = translate(read_policy(policy_text()), default_config(scheme), scheme)
    ours = translate(read_policy(policy_text()), default_config(SCHEME), SCHEME)
    assert "NodeDeclaredFeatures" not in found.config.profiles[0].plugins.names()
    assert "NodeDeclaredFeatures" in ours.config.profiles[0].plugins.names()
