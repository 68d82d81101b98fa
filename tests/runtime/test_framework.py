"""Building a framework from a profile (upstream's `TestNewFrameworkErrors`), and PostFilter."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from scheduler.config.types import PluginConfig, Plugins
from scheduler.framework import (
    CycleState,
    NodeToStatus,
    NominatingInfo,
    NominatingMode,
    Plugin,
    PostFilterResult,
    Status,
    pending,
    unresolvable,
    unschedulable,
)
from scheduler.framework.events import ALL_EVENTS
from scheduler.framework.status import Code
from scheduler.runtime import PluginSetupError
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, make_pod
from tests.runtime.profiles import BINDER, SORT, answering, framework_of, plugin, plugin_set
from tests.upstream.extenders import FakeExtender

HUGE = 2**31 - 1


def test_missing_plugins_are_reported_before_weights_that_are_too_large() -> None:
    many = [answering(f"Score{n}", score=0) for n in range(2)]
    with pytest.raises(PluginSetupError, match=r"^only one queue sort plugin"):
        framework_of(*many, plugins=Plugins(multi_point=plugin_set(f"Score0:{2**60} Score1")))


@pytest.mark.parametrize(
    ("weights", "fits"),
    [
        ((HUGE, HUGE), True),
        ((2**63 // 100,), True),
        ((2**63 // 100 + 1,), False),
        ((2**63 // 200 + 1, 2**63 // 200 + 1), False),
    ],
)
def test_weighted_scores_must_fit_64_bits_together(weights: tuple[int, ...], *, fits: bool) -> None:
    scores = [answering(f"Score{n}", score=0) for n in range(len(weights))]
    names = " ".join(f"Score{n}:{weight}" for n, weight in enumerate(weights))
    plugins = Plugins(multi_point=plugin_set(f"Sort Binder {names}"))
    if fits:
        assert sum(framework_of(SORT, BINDER, *scores, plugins=plugins).weights.values())
        return
    with pytest.raises(PluginSetupError) as refusal:
        framework_of(SORT, BINDER, *scores, plugins=plugins)
    assert str(refusal.value) == "score plugins: total score of Score plugins could overflow"


class Configured(Plugin):
    class Args(msgspec.Struct):
        size: int = 3

    def __init__(self) -> None:
        assert isinstance(self.args, Configured.Args)
        self.size = self.args.size

    def pre_enqueue(self, pod: PodInfo) -> None:
        """Allow the pod."""


def test_arguments_are_decoded_before_the_plugin_is_made() -> None:
    config = (PluginConfig("Configured", {"size": 5}), PluginConfig("Unused", {"x": 1}))
    framework = framework_of(Configured, plugin_config=config)
    [configured] = framework.plugins["pre_enqueue"]
    assert isinstance(configured, Configured)
    assert configured.size == 5
    assert configured.handle is framework.handle


def test_malformed_arguments_name_the_plugin() -> None:
    with pytest.raises(PluginSetupError) as refusal:
        framework_of(Configured, plugin_config=[PluginConfig("Configured", {"size": "big"})])
    assert str(refusal.value).startswith('initializing plugin "Configured": Expected `int`')


def test_a_plugin_named_at_several_points_is_one_plugin() -> None:
    both = answering("Both", pre_filter=None, permit=None)
    framework = framework_of(
        SORT, BINDER, both,
        plugins=Plugins(
            multi_point=plugin_set("Sort Binder"),
            pre_filter=plugin_set("Both"),
            permit=plugin_set("Both"),
        ),
    )  # fmt: skip
    [pre_filter], [permit] = framework.plugins["pre_filter"], framework.plugins["permit"]
    assert pre_filter is permit


def test_a_plugin_that_is_registered_but_not_wanted_is_not_made() -> None:
    never = plugin("Never", __init__=lambda self: pytest.fail("made"))
    framework_of(SORT, BINDER, never, plugins=Plugins(multi_point=plugin_set("Sort Binder")))


def test_plugins_that_can_turn_pods_down_are_known_for_their_hints() -> None:
    rejecting = [
        answering(name, **{method: None})
        for name, method in (
            ("A", "pre_enqueue"), ("B", "pre_filter"), ("C", "filter_nodes"), ("D", "reserve"),
            ("E", "permit"),
        )
    ]  # fmt: skip
    others = [answering("F", post_filter=None), answering("G", score=0, pre_bind=None)]
    framework = framework_of(*rejecting, *others)
    assert [plugin.name for plugin, _ in framework.registered_events] == ["A", "B", "C", "D", "E"]


def test_a_framework_knows_its_profile() -> None:
    handle = FakeHandle()
    framework = framework_of(handle=handle, percentage_of_nodes_to_score=7)
    assert framework.profile_name == "tested"
    assert framework.percentage_of_nodes_to_score == 7
    assert framework.handle is handle
    assert framework.queue_sort_plugin.name == "Sort"
    assert not framework.has_post_filter_plugins
    assert repr(framework) == "<framework of tested>"


# PostFilter: upstream's `TestPostFilterPlugins`.

NODE_A = PostFilterResult(NominatingInfo("a", NominatingMode.OVERRIDE))
NODE_B = PostFilterResult(NominatingInfo("b", NominatingMode.OVERRIDE))
NO_MEANING = PostFilterResult(NominatingInfo("c", NominatingMode.NOOP))

Answer = tuple[PostFilterResult | None, Status | None]


def _post_filter(answer: Answer | Exception) -> Callable[..., Awaitable[Answer]]:
    async def post_filter(self: Plugin, *arguments: object) -> Answer:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return post_filter


@pytest.mark.parametrize(
    ("answers", "result", "status"),
    [
        ([], None, unschedulable()),
        ([(NODE_A, None)], NODE_A, Status(Code.SUCCESS)),
        ([(None, None)], None, Status(Code.SUCCESS)),
        ([(None, unschedulable("x"))], None, unschedulable("x").with_plugin("P0")),
        (
            [(None, unschedulable("x")), (None, pending("y")), (None, unschedulable("z"))],
            None,
            unschedulable("x", "y", "z").with_plugin("P0"),
        ),
        # The first to succeed ends it; what the others said is forgotten.
        (
            [(None, unschedulable("x")), (NODE_A, None), (NODE_B, None)],
            NODE_A,
            Status(Code.SUCCESS),
        ),
        # So does the first to give up for all.
        (
            [(None, unschedulable("x")), (NODE_A, unresolvable("y")), (NODE_B, None)],
            NODE_A,
            unresolvable("y").with_plugin("P1"),
        ),
        # A nomination may come with a rejection; the last one that means something counts.
        (
            [(NODE_A, unschedulable("x")), (NO_MEANING, unschedulable()), (None, unschedulable())],
            NODE_A,
            unschedulable("x").with_plugin("P0"),
        ),
        (
            [(NODE_A, unschedulable()), (NODE_B, unschedulable())],
            NODE_B,
            unschedulable().with_plugin("P0"),
        ),
        # A failure ends the search, raised or returned.
        (
            [(NODE_A, unschedulable("x")), ValueError("broken"), (NODE_B, None)],
            None,
            Status(Code.ERROR, "broken", plugin="P1"),
        ),
        (
            [(NODE_A, Status(Code.SKIP, "odd"))],
            None,
            Status(Code.ERROR, "odd", plugin="P0"),
        ),
    ],
)  # fmt: skip
def test_post_filter_plugins_run_until_one_decides(
    answers: list[Answer | Exception], result: PostFilterResult | None, status: Status
) -> None:
    plugins = [plugin(f"P{n}", post_filter=_post_filter(a)) for n, a in enumerate(answers)]
    framework = framework_of(*plugins)
    assert framework.has_post_filter_plugins is bool(answers)
    run = framework.run_post_filter_plugins(
        CycleState(), PodInfo(make_pod()), NodeToStatus((), {})
    )  # fmt: skip
    assert asyncio.run(run) == (result, status)


def test_the_extenders_are_registered_for_all_events_before_the_plugins() -> None:
    class SilentPlugin(Plugin):
        def filter(self, state: CycleState, pod: PodInfo, node: object) -> None:
            """Accept every node."""

    handle = FakeHandle(extenders=[FakeExtender({})])
    framework = framework_of(SilentPlugin, handle=handle)
    found = [(plugin.name, events) for plugin, events in framework.registered_events]
    assert found == [("Extender", ALL_EVENTS), ("SilentPlugin", ALL_EVENTS)]
    assert [plugin.name for plugin, _ in framework_of(SilentPlugin).registered_events] == [
        "SilentPlugin"
    ]
