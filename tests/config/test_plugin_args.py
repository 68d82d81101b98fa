from typing import Any

import pytest

from scheduler.config.encode import encode_struct
from scheduler.config.load import decode_args
from scheduler.config.types import PluginArgs
from scheduler.plugins import SCHEME
from tests.config.tables import Case, gates, sources, table


def _args(case: Case) -> PluginArgs:
    args, complaints = decode_args(case["plugin"], case["args"], SCHEME)
    assert isinstance(args, PluginArgs)
    assert not complaints
    return args


@pytest.mark.parametrize("case", table("plugin_args_defaults.yaml"))
def test_arguments_left_out_get_their_defaults(case: Case) -> None:
    args = _args(case).with_defaults(gates(case.get("gates")))
    assert encode_struct(args) == case["want"]
    assert args.with_defaults(gates(case.get("gates"))) == args


@pytest.mark.parametrize("case", table("plugin_args_validation.yaml"))
def test_every_mistake_in_arguments_is_found(case: Case) -> None:
    errors = _args(case).validate("", gates(case.get("gates")))
    assert [str(error) for error in errors] == case.get("errors", [])


def test_upstreams_tables_are_all_here() -> None:
    assert sources("plugin_args_defaults.yaml") == {"TestPluginArgsDefaults": 16}
    assert sources("plugin_args_validation.yaml") == {
        "TestValidateDefaultPreemptionArgs": 6,
        "TestValidateDynamicResourcesArgs": 9,
        "TestValidateFitArgs": 11,
        "TestValidateInterPodAffinityArgs": 3,
        "TestValidateLeastAllocatedScoringStrategy": 5,
        "TestValidateMostAllocatedScoringStrategy": 5,
        "TestValidateNodeAffinityArgs": 3,
        "TestValidateNodeResourcesBalancedAllocationArgs": 3,
        "TestValidatePodTopologySpreadArgs": 11,
        "TestValidateRequestedToCapacityRatioScoringStrategy": 11,
        "TestValidateVolumeBindingArgs": 8,
    }


@pytest.mark.parametrize(("name", "args_type"), SCHEME.plugin_args.items())
def test_default_arguments_are_good_and_the_type_is_named_after_the_plugin(
    name: str, args_type: type[PluginArgs]
) -> None:
    on = gates({"StorageCapacityScoring": True})
    for enabled in (gates(None), on):
        assert args_type().with_defaults(enabled).validate("args", enabled) == []
    assert args_type.__name__ == f"{name}Args"


def test_a_path_goes_before_the_fields() -> None:
    args: Any = SCHEME.plugin_args["InterPodAffinity"](hard_pod_affinity_weight=-1)
    (error,) = args.validate("profiles[0].pluginConfig[3].args", gates(None))
    assert error.path == "profiles[0].pluginConfig[3].args.hardPodAffinityWeight"
