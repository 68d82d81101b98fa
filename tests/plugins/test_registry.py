"""The in-tree registry."""

from __future__ import annotations

import pytest

from scheduler.plugins import IN_TREE
from scheduler.runtime.registry import Registry
from scheduler.testing import FakeHandle


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
