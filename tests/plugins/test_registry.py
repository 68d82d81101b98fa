"""The in-tree registry."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.api import field
from scheduler.api.field import FieldError
from scheduler.config.types import FeatureGates, PluginArgs
from scheduler.framework import Plugin
from scheduler.plugins import IN_TREE
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.runtime import PluginSetupError
from scheduler.runtime.registry import Registry
from scheduler.testing import FakeHandle


class FooArgs(PluginArgs, frozen=True):
    count: int = 0
    is_on: bool = False

    def with_defaults(self, gates: FeatureGates) -> FooArgs:
        return msgspec.structs.replace(self, is_on="Foo" in gates)

    def validate(self, path: str, gates: FeatureGates) -> list[FieldError]:
        assert self.is_on == ("Foo" in gates)
        return [field.forbidden("count", "is negative")] if self.count < 0 else []


class Foo(Plugin):
    Args = FooArgs


def _with_gates(gates: FeatureGates) -> FakeHandle:
    handle = FakeHandle()
    handle.feature_gates = gates
    return handle


def test_plugins_are_listed_under_their_names_in_order() -> None:
    assert list(IN_TREE) == sorted(IN_TREE)
    assert {name: cls.name for name, cls in IN_TREE.items()} == {name: name for name in IN_TREE}


@pytest.mark.parametrize("name", IN_TREE)
def test_every_plugin_can_be_built_with_its_defaults(name: str) -> None:
    plugin = Registry(IN_TREE.values()).create(name, None, FakeHandle())
    assert isinstance(plugin, IN_TREE[name])


@pytest.mark.parametrize("name", IN_TREE)
def test_in_tree_plugins_judge_all_nodes_at_once(name: str) -> None:
    assert not hasattr(IN_TREE[name], "filter")
    assert not hasattr(IN_TREE[name], "score")


def test_arguments_are_completed_and_validated_under_the_gates_of_the_handle() -> None:
    registry = Registry([VolumeBinding])
    scoring = _with_gates(frozenset({"StorageCapacityScoring"}))
    plugin = registry.create("VolumeBinding", None, scoring)
    assert isinstance(plugin, VolumeBinding)
    assert plugin.args.shape is not None
    shape = {"shape": [{"utilization": 0, "score": 0}]}
    assert registry.create("VolumeBinding", shape, scoring).name == "VolumeBinding"
    with pytest.raises(PluginSetupError, match="unexpected field `shape`"):
        registry.create("VolumeBinding", shape, _with_gates(frozenset()))


@pytest.mark.parametrize("gates", [frozenset(), frozenset({"Foo"})], ids=["off", "on"])
def test_a_plugin_of_ones_own_may_have_defaults_that_depend_on_gates(gates: FeatureGates) -> None:
    registry = Registry([Foo])
    plugin = registry.create("Foo", {"count": 1}, _with_gates(gates))
    assert plugin.args == FooArgs(count=1, is_on=bool(gates))
    with pytest.raises(PluginSetupError, match='initializing plugin "Foo": count: Forbidden'):
        registry.create("Foo", {"count": -1}, _with_gates(gates))
