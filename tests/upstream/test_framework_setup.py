"""Plugins of a profile by extension point, and their scores, against upstream's own cases."""

import json
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.config import types as config
from scheduler.framework import CycleState, Plugin
from scheduler.runtime import Framework, PluginFailedError, PluginSetupError, Registry
from scheduler.runtime.extension_points import EXTENSION_POINTS
from scheduler.snapshot import NodeInfo, Nodes, PodInfo
from scheduler.snapshot.columns import IntArray
from scheduler.testing import FakeHandle, make_node, make_pod, snapshot_of
from tests.runtime.profiles import framework_of, plugin
from tests.upstream.loading import Case, Fields, cases

TOPIC = "framework_runtime"


class Scored(msgspec.Struct, rename="camel"):
    """The arguments of upstream's scoring plugins."""

    score_res: int = 0
    normalize_res: int = 0
    score_status: int = 0
    normalize_status: int = 0


class ScorePlugin1(Plugin):
    name = "score-plugin-1"
    Args = Scored
    args: Scored

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Look at nothing."""

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        if self.args.score_status:
            raise ValueError("injected status")
        return self.args.score_res


class ScorePlugin2(ScorePlugin1):
    name = "score-plugin-2"


class WithNormalize1(Plugin):
    name = "score-with-normalize-plugin-1"
    Args = Scored
    args: Scored
    score = ScorePlugin1.score

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        if self.args.normalize_status:
            raise ValueError("injected status")
        return scores * 0 + self.args.normalize_res


class WithNormalize2(WithNormalize1):
    name = "score-with-normalize-plugin-2"


async def _awaited(self: Plugin, *arguments: object) -> None:
    """Do nothing."""


def _nothing(self: Plugin, *arguments: object) -> Any:
    """Answer nothing."""


#: As upstream's: at every point but PreEnqueue.
EVERYWHERE = {
    point.methods[0]: _awaited
    if point.field in ("post_filter", "pre_bind", "bind", "post_bind")
    else _nothing
    for point in EXTENSION_POINTS
    if point.field != "pre_enqueue"
}
CLASSES = (
    plugin("test-plugin", **EVERYWHERE),
    plugin("no-op-queue-sort-plugin", less=_nothing),
    plugin("bind-plugin", bind=_awaited),
    plugin("preEnqueue-plugin", pre_enqueue=_nothing),
    plugin("duplicate-plugin", pre_filter=_nothing),
    plugin("plugin-not-implementing-score"),
    plugin("placement-generate-plugin", generate_placements=_nothing),
    plugin("placement-score-plugin-1", score_placement=_nothing),
    ScorePlugin1,
    ScorePlugin2,
    WithNormalize1,
    WithNormalize2,
)
SNAPSHOT = snapshot_of([make_node("node1"), make_node("node2")])


def _built(case: Case, *, sort_and_bind: bool) -> Framework:
    """The case's profile; with an order and a binder, if it names none and is to have them."""
    plugins = msgspec.convert(case["plugins"], config.Plugins)
    if sort_and_bind:
        replace = msgspec.structs.replace
        if not plugins.queue_sort.enabled:
            sort = config.PluginSet(enabled=(config.Plugin("no-op-queue-sort-plugin"),))
            plugins = replace(plugins, queue_sort=sort)
        if not plugins.bind.enabled:
            binder = config.PluginSet(enabled=(config.Plugin("bind-plugin"),))
            plugins = replace(plugins, bind=binder)
    args: Fields = case.get("args") or {}
    plugin_config = [config.PluginConfig(name, value) for name, value in args.items()]
    plugin_config += [config.PluginConfig(name) for name in case.get("configured") or ()]
    return framework_of(
        *CLASSES, plugins=plugins, plugin_config=plugin_config, handle=FakeHandle(SNAPSHOT)
    )


def _points(framework: Framework) -> dict[str, list[str]]:
    """The plugins at each point that has any, by the point's name in a file."""
    names = {f.name: f.encode_name for f in msgspec.structs.fields(config.Plugins)}
    return {
        names[point]: [each.name for each in plugins]
        for point, plugins in framework.plugins.items()
        if plugins
    }


def _weights(framework: Framework, point: str) -> dict[str, int]:
    weights = framework.weights if point == "score" else framework.placement_weights
    return {each.name: weights[each.name] for each in framework.plugins[point]}


def _check(case: Case, *, sort_and_bind: bool) -> None:
    if "error" in case.fields:
        with pytest.raises(PluginSetupError) as refusal:
            _built(case, sort_and_bind=sort_and_bind)
        assert case["error"] in str(refusal.value)
        return
    framework = _built(case, sort_and_bind=sort_and_bind)
    if "points" in case.fields:
        alone = case.get("elsewhere") or []
        names = {f.name: f.encode_name for f in msgspec.structs.fields(config.Plugins)}
        wanted = {names[p.field]: alone for p in EXTENSION_POINTS if p.field != "pre_enqueue"}
        wanted |= case["points"]
        assert _points(framework) == {point: found for point, found in wanted.items() if found}
        assert _weights(framework, "score") == case.get("weights", {})
        assert _weights(framework, "placement_score") == case.get("placement_weights", {})


@pytest.mark.parametrize("case", cases(TOPIC, "multi_point"))
def test_multi_point(case: Case) -> None:
    _check(case, sort_and_bind=False)


@pytest.mark.parametrize("case", cases(TOPIC, "setup"))
def test_a_framework_is_set_up_or_refused_as_upstreams(case: Case) -> None:
    _check(case, sort_and_bind="configured" not in case.fields)


@pytest.mark.parametrize("case", cases(TOPIC, "score"))
def test_nodes_get_upstreams_scores(case: Case) -> None:
    framework, state = _built(case, sort_and_bind=True), CycleState()
    state.skip_score_plugins |= set(case.get("skipped") or ())
    if case.get("error"):
        with pytest.raises(PluginFailedError):
            framework.scores.run(state, PodInfo(make_pod()), SNAPSHOT.nodes)
        return
    found = framework.scores.run(state, PodInfo(make_pod()), SNAPSHOT.nodes)
    by_plugin = {name: scores.tolist() for name, scores in found.by_plugin.items()}
    assert by_plugin == {name: [score] * 2 for name, score in case["scores"].items()}
    assert found.total.tolist() == [case["total"]] * 2


@pytest.mark.parametrize("case", cases(TOPIC, "registry"))
def test_plugins_are_registered_or_refused_as_upstreams(case: Case) -> None:
    if "decoded" in case.fields:
        class_ = plugin("Foo")
        class_.Args = msgspec.defstruct("FooArgs", [("fooTest", str, "")])
        args = yaml.safe_load(case["args"])
        created = Registry([class_]).create("Foo", args, FakeHandle())
        assert created.args is not None
        assert json.loads(msgspec.json.encode(created.args)) == case["decoded"]
        return
    registry = Registry(plugin(name) for name in case["registered"])
    for name in case["added"]:
        if "error" in case.fields:
            with pytest.raises(PluginSetupError, match=case["error"]):
                registry.register(plugin(name))
        else:
            registry.register(plugin(name))
    assert list(registry) == case["names"]
