"""DynamicResources: claims that must exist, extended resources, hints and arguments."""

import itertools
import random

import pytest
from msgspec.structs import replace

from scheduler.api import core
from scheduler.api.core import Node, Pod
from scheduler.api.duration import SECOND, Duration
from scheduler.api.dynamic_resources import (
    DeviceClaim,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from scheduler.config import DEFAULT_FEATURE_GATES, SchedulerVersion
from scheduler.devices.claims import ClaimTracker
from scheduler.devices.manager import DraManager
from scheduler.framework import Code, CycleState, NodeToStatus, Status
from scheduler.framework.cycle_state import CycleStateError
from scheduler.framework.failures import FilterPausedError
from scheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from scheduler.plugins.dynamic_resources.claim_binder import ClaimBindingError
from scheduler.plugins.dynamic_resources.dynamic_resources import (
    DynamicResources,
    DynamicResourcesError,
)
from scheduler.plugins.dynamic_resources.state import STATE
from scheduler.runtime import PluginSetupError
from scheduler.snapshot import PodInfo
from scheduler.testing import FakeHandle, VirtualClock, make_node, make_pod, snapshot_of
from tests.plugins.devices import (
    ALLOCATION,
    by_name,
    by_template,
    dynamic_resources,
    lister,
    make_claim,
    make_class,
    slice_of,
    with_claims,
)
from tests.plugins.running import (
    QUEUE,
    SKIP,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    hint,
    rejected,
    verdict_of,
)

GPU = "example.com/gpu"
GPU_CLASS = make_class("gpu", extended_resource_name=GPU)
NOT_ALLOCATED = "cannot allocate all claims"
STALE = "cannot schedule extended resource claim"
IN_FLIGHT = "resource claim default/claim is in the process of being allocated"
SNAPSHOT = snapshot_of([make_node("plain"), make_node("gpu", allocatable={GPU: "2"})])
NO_STATUSES = NodeToStatus((), {})
OWN_UID = make_pod().metadata.uid


def pre_filter(plugin: DynamicResources, pod: Pod) -> tuple[CycleState, Status | None]:
    state = CycleState()
    return state, plugin.pre_filter(state, PodInfo(pod), SNAPSHOT.nodes)


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (make_pod(), None),
        (with_claims(by_name()), None),
        (with_claims(by_template(), made={"devices": "own"}), None),
        # A controller may find that no claim is needed.
        (with_claims(by_template(), made={"devices": None}), None),
        (with_claims(by_template()), 'pod "default/pod": ResourceClaim not created yet'),
        (
            with_claims(by_template(), made={"others": "own"}),
            'pod "default/pod": ResourceClaim not created yet',
        ),
        (with_claims(by_name("absent")), 'could not find ResourceClaim "default/absent"'),
        (with_claims(by_name("dying")), 'resourceclaim "dying" is being deleted'),
        (
            with_claims(by_template(), made={"devices": "claim"}),
            "ResourceClaim default/claim was not created for Pod default/pod (Pod is not owner)",
        ),
        (
            with_claims(core.PodResourceClaim(name="devices")),
            'pod "default/pod", spec.resourceClaim "devices": none of the supported fields are set',
        ),
        # The first that is missing is named.
        (
            with_claims(by_name(), by_name("a", entry="x"), by_name("b", entry="y")),
            'could not find ResourceClaim "default/a"',
        ),
    ],
)
def test_a_pod_waits_until_its_claims_are_there(pod: Pod, reason: str | None) -> None:
    claims = [make_claim(), make_claim("own", owner_uid=OWN_UID)]
    plugin = dynamic_resources([*claims, make_claim("dying", is_deleted=True)])
    expected = (UNRESOLVABLE, (reason,)) if reason else None
    assert verdict_of(plugin.pre_enqueue(PodInfo(pod))) == expected


def test_a_claim_that_goes_between_queue_and_cycle_is_missed() -> None:
    _, answer = pre_filter(dynamic_resources(), with_claims(by_name()))
    assert verdict_of(answer) == (UNRESOLVABLE, ('could not find ResourceClaim "default/claim"',))


def selected_by(operator: str) -> ResourceClaim:
    """A claim whose devices are on the nodes that a selector names."""
    requirement = core.NodeSelectorRequirement("zone", operator, ("z",))
    selector = core.NodeSelector((core.NodeSelectorTerm((requirement,)),))
    return make_claim(allocation=replace(ALLOCATION, node_selector=selector))


def asking(*requests: DeviceRequest) -> ResourceClaim:
    return replace(make_claim(), spec=ResourceClaimSpec(DeviceClaim(requests)))


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (selected_by("In"), None),
        (selected_by("Gt"), ("Error", "values[0]: Invalid value")),
        (
            asking(DeviceRequest("r")),
            (UNRESOLVABLE, "resource claim default/claim, request r: unknown request type"),
        ),
        (
            asking(DeviceRequest("r", ExactDeviceRequest(""))),
            ("Error", "request r: unsupported request type"),
        ),
        (
            asking(DeviceRequest("r", first_available=(DeviceSubRequest("s", "nosuch"),))),
            (UNRESOLVABLE, "request r/s: device class nosuch does not exist"),
        ),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused_before_the_search(
    claim: ResourceClaim, expected: tuple[str, str] | None
) -> None:
    _, answer = pre_filter(dynamic_resources([claim], [GPU_CLASS]), with_claims(by_name()))
    if expected is None:
        assert answer is None
        return
    assert answer is not None
    assert (str(answer.code), expected[1] in answer.message) == (expected[0], True)


def test_without_its_gate_a_claim_has_no_alternatives() -> None:
    request = DeviceRequest("r", first_available=(DeviceSubRequest("s", "gpu"),))
    claim = replace(make_claim(), spec=ResourceClaimSpec(DeviceClaim((request,))))
    plugin = dynamic_resources([claim], [GPU_CLASS])
    plugin.handle = FakeHandle(
        listers={"resourceclaims": lister([claim]), "deviceclasses": lister([GPU_CLASS])},
        feature_gates=DEFAULT_FEATURE_GATES - {"DRAPrioritizedList"},
    )
    _, answer = pre_filter(plugin, with_claims(by_name()))
    reason = (
        "resource claim default/claim, request r: has subrequests, "
        "but the DRAPrioritizedList feature is disabled"
    )
    assert verdict_of(answer) == (UNRESOLVABLE, (reason,))


async def test_a_pod_without_claims_passes_all_points() -> None:
    plugin, pod = dynamic_resources(classes=[GPU_CLASS]), make_pod(requests={"cpu": "1"})
    state, answer = pre_filter(plugin, pod)
    assert verdict_of(answer) == ("Skip", ())
    info, nodes = PodInfo(pod), SNAPSHOT.nodes
    assert plugin.filter_nodes(state, info, nodes) is None
    assert plugin.score_nodes(state, info, nodes).tolist() == [0, 0]
    plugin.reserve(state, info, "plain")
    assert plugin.pre_bind_pre_flight(state, info, "plain") == (True, True)
    plugin.unreserve(state, info, "plain")


async def test_when_it_fits_nowhere_there_is_nothing_to_deallocate() -> None:
    plugin = dynamic_resources([make_claim()], [GPU_CLASS])
    for pod in (make_pod(), with_claims(by_name("absent"))):
        state, _ = pre_filter(plugin, pod)
        result, status = await plugin.post_filter(state, PodInfo(pod), NO_STATUSES)
        assert result is None
        assert verdict_of(status) == ("Unschedulable", ("no new claims to deallocate",))


async def test_without_pre_filter_its_other_methods_fail() -> None:
    """With this error upstream's message ends in `not found`, and no pod is preempted."""
    plugin, info, state = dynamic_resources(), PodInfo(make_pod()), CycleState()
    plugin.unreserve(state, info, "plain")
    assert plugin.handle.spawned == []  # type: ignore[attr-defined]
    _, status = await plugin.post_filter(state, info, NO_STATUSES)
    assert (status.code, status.message) == (Code.ERROR, "not found")
    for point in (plugin.reserve, plugin.pre_bind_pre_flight):
        with pytest.raises(CycleStateError, match="not found"):
            point(state, info, "plain")


async def test_a_pod_on_a_node_that_no_filter_refused_needs_no_other() -> None:
    plugin, state = dynamic_resources(), CycleState()
    state.skip_filter_plugins = {plugin.name}
    info = PodInfo(make_pod(node_name="plain"))
    result, status = await plugin.post_filter(state, info, NO_STATUSES)
    assert (result, verdict_of(status)) == (None, (UNSCHEDULABLE, ()))


def test_a_node_that_was_not_filtered_cannot_be_reserved() -> None:
    claim = asking(
        DeviceRequest("r", ExactDeviceRequest("gpu", allocation_mode="ExactCount", count=1))
    )
    plugin, info = dynamic_resources([claim], [GPU_CLASS]), PodInfo(with_claims(by_name()))
    state, _ = pre_filter(plugin, info.pod)
    with pytest.raises(DynamicResourcesError, match="claim allocation not found for node"):
        plugin.reserve(state, info, "plain")


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (None, make_claim(), ["by name"]),
        (make_claim(), make_claim(annotations={"a": "b"}), ["by name"]),
        (make_claim("made"), None, ["by template"]),
        (make_claim("other"), None, []),
        # Freed devices may help any pod.
        (make_claim(allocation=ALLOCATION), make_claim(), None),
        (None, None, None),
    ],
)
def test_a_changed_claim_concerns_the_pods_that_name_it(
    old: ResourceClaim | None, new: ResourceClaim | None, names: list[str] | None
) -> None:
    pods = {
        "by name": with_claims(by_name()),
        "by template": with_claims(by_template(), made={"devices": "made"}),
        "elsewhere": with_claims(by_name(), pod=make_pod(namespace="elsewhere")),
    }
    concerned = dynamic_resources().pods_of_claim(old, new)
    if names is None:
        assert concerned is None
        return
    assert concerned is not None
    assert [name for name, pod in pods.items() if concerned(PodInfo(pod))] == names


@pytest.mark.parametrize(
    ("requests", "refused"),
    [
        ({GPU: "1"}, {"plain": NOT_ALLOCATED}),
        ({GPU: "0"}, {}),
        ({"vendor.io/fpga": "1"}, {}),
        ({GPU: "1", "vendor.io/fpga": "1"}, dict.fromkeys(("plain", "gpu"), "cannot fit resource")),
        (
            {"deviceclass.resource.kubernetes.io/gpu": "1"},
            dict.fromkeys(("plain", "gpu"), NOT_ALLOCATED),
        ),
        ({"deviceclass.resource.kubernetes.io/other": "1"}, {}),
    ],
)
def test_an_extended_resource_of_a_device_class_must_be_offered(
    requests: dict[str, str], refused: dict[str, str]
) -> None:
    plugin = dynamic_resources(classes=[GPU_CLASS])
    expected = {name: (UNRESOLVABLE, (reason,)) for name, reason in refused.items()}
    assert rejected(plugin, make_pod(requests=requests), SNAPSHOT) == expected


@pytest.mark.parametrize("version", SchedulerVersion)
def test_1_34_leaves_a_resource_to_a_node_that_lists_none_of_it(version: SchedulerVersion) -> None:
    plugin = dynamic_resources(classes=[GPU_CLASS], version=version)
    without = snapshot_of([make_node("listed", allocatable={GPU: "0"})])
    found = rejected(plugin, make_pod(requests={GPU: "1"}), without)
    is_left = version == SchedulerVersion.V1_34
    assert found == ({} if is_left else {"listed": (UNRESOLVABLE, (NOT_ALLOCATED,))})
    implicit = make_pod(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    assert (rejected(plugin, implicit, SNAPSHOT) == {}) is is_left


@pytest.mark.parametrize(
    ("version", "node", "names"),
    [
        (SchedulerVersion.V1_34, "plain", ["container-0-request-0", "container-1-request-0"]),
        (SchedulerVersion.V1_34, "gpu", ["container-0-request-0", "container-1-request-0"]),
        (SchedulerVersion.V1_35, "plain", ["container-1-request-0"]),
        (SchedulerVersion.V1_35, "gpu", []),
    ],
)
def test_1_34_claims_for_each_container_what_the_node_may_have_itself(
    version: SchedulerVersion, node: str, names: list[str]
) -> None:
    pod = with_claims(by_name(), pod=make_pod(requests={GPU: "1"}))
    init = replace(pod.spec.containers[0], name="init")
    pod = replace(pod, spec=replace(pod.spec, init_containers=(init,)))
    plugin = dynamic_resources(
        [make_claim()],
        [GPU_CLASS],
        slices=[slice_of("plain", *"123"), slice_of("gpu", *"123")],
        version=version,
    )
    state, answer = pre_filter(plugin, pod)
    assert answer is None
    assert plugin.filter_nodes(state, PodInfo(pod), SNAPSHOT.nodes) is None
    found = state.read(STATE).node_allocation(node)
    assert found is not None
    assert found.extended_claim is not None
    assert [request.name for request in found.extended_claim.spec.devices.requests] == names
    assert [mapping.request_name for mapping in found.mappings][: len(names)] == names


async def test_a_pod_on_a_node_that_offers_it_is_bound_without_a_claim() -> None:
    plugin, pod = dynamic_resources(classes=[GPU_CLASS]), make_pod(requests={GPU: "1"})
    state, answer = pre_filter(plugin, pod)
    assert answer is None
    plugin.reserve(state, PodInfo(pod), "gpu")
    assert plugin.pre_bind_pre_flight(state, PodInfo(pod), "gpu") == (True, False)
    await plugin.pre_bind(state, PodInfo(pod), "gpu")
    _, status = await plugin.post_filter(state, PodInfo(pod), NO_STATUSES)
    assert verdict_of(status) == ("Unschedulable", ("still not schedulable",))


def test_a_pod_may_claim_more_devices_than_python_allows_calls() -> None:
    names = [f"claim-{number}" for number in range(20)]
    request = DeviceRequest("r", ExactDeviceRequest("gpu", allocation_mode="ExactCount", count=32))
    spec = ResourceClaimSpec(DeviceClaim((request,)))
    claims = [replace(make_claim(name), spec=spec) for name in names]
    pod = with_claims(*(by_name(name, entry=name) for name in names))
    devices = [f"gpu-{number}" for number in range(20 * 32)]
    plugin = dynamic_resources(claims, [GPU_CLASS], slices=[slice_of("gpu", *devices)])
    assert rejected(plugin, pod, SNAPSHOT) == {"plain": (UNRESOLVABLE, (NOT_ALLOCATED,))}


def test_looking_for_a_node_draws_no_random_numbers() -> None:
    plugin = dynamic_resources(classes=[GPU_CLASS])
    rng = plugin.handle.rng
    assert isinstance(rng, random.Random)
    before = rng.getstate()
    assert list(rejected(plugin, make_pod(requests={GPU: "1"}), SNAPSHOT)) == ["plain"]
    assert rng.getstate() == before


@pytest.mark.parametrize(
    ("owner_uid", "refused"), [(OWN_UID, True), ("uid-of-another", False)], ids=str
)
def test_a_claim_that_another_scheduler_made_for_the_pod_is_not_overlooked(
    owner_uid: str, *, refused: bool
) -> None:
    marked = {"resource.kubernetes.io/extended-resource-claim": "true"}
    claim = make_claim("left-over", owner_uid=owner_uid, annotations=marked)
    devices = DeviceClaim((DeviceRequest("container-0-request-0"),))
    plugin = dynamic_resources([replace(claim, spec=ResourceClaimSpec(devices))], [GPU_CLASS])
    found = rejected(plugin, make_pod(requests={GPU: "1"}), SNAPSHOT)
    stale = dict.fromkeys(("plain", "gpu"), (UNRESOLVABLE, (STALE,)))
    assert found == (stale if refused else {"plain": (UNRESOLVABLE, (NOT_ALLOCATED,))})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_node(), QUEUE),
        (make_node(), make_node(labels={"a": "b"}), QUEUE),
        (make_node(), make_node(allocatable={"cpu": "8"}), QUEUE),
        (make_node(), make_node(annotations={"a": "b"}), None),
        (make_node(unschedulable=True), make_node(), None),
        (make_node(), None, None),
    ],
)
def test_a_node_may_bring_devices(old: Node | None, new: Node | None, expected: str | None) -> None:
    assert hint(dynamic_resources(), make_pod(), old=old, new=new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_claim(), QUEUE),
        (None, make_claim("other"), SKIP),
        (make_claim(), make_claim(annotations={"a": "b"}), SKIP),
        (make_claim(), make_claim(allocation=ALLOCATION), QUEUE),
        (make_claim(allocation=ALLOCATION), make_claim(), QUEUE),
        (make_claim("other", allocation=ALLOCATION), make_claim("other"), QUEUE),
        (make_claim("other"), make_claim("other", allocation=ALLOCATION), SKIP),
        (
            make_claim("other", allocation=ALLOCATION),
            make_claim("other", allocation=ALLOCATION, annotations={"a": "b"}),
            SKIP,
        ),
        (make_claim(), None, SKIP),
    ],
)
def test_a_claim_may_help_the_pod_that_names_it_or_free_devices(
    old: ResourceClaim | None, new: ResourceClaim | None, expected: str
) -> None:
    plugin, pod = dynamic_resources([make_claim()]), PodInfo(with_claims(by_name()))
    assert str(plugin.is_schedulable_after_claim_change(pod, old, new)) == expected
    # As long as another of its claims is missing, nothing helps.
    waiting = PodInfo(with_claims(by_name(), by_name("absent", entry="x")))
    assert str(plugin.is_schedulable_after_claim_change(waiting, old, new)) == SKIP


def test_a_pod_whose_claims_have_been_made_is_tried_again() -> None:
    plugin = dynamic_resources([make_claim("made", owner_uid=OWN_UID)])
    before = with_claims(by_template())
    after = with_claims(by_template(), made={"devices": "made"})
    assert hint(plugin, before, old=before, new=after) == QUEUE
    too_early = with_claims(by_template(), made={"devices": "absent"})
    assert hint(plugin, before, old=before, new=too_early) == SKIP
    other = replace(after, metadata=make_pod("other").metadata)
    assert hint(plugin, before, old=before, new=other) == SKIP


@pytest.mark.parametrize("wrong", ["a text", ResourceSlice()])
def test_hints_want_the_right_kind(wrong: object) -> None:
    plugin, pod = dynamic_resources(), PodInfo(make_pod())
    with pytest.raises(TypeError, match="expected ResourceClaim"):
        plugin.is_schedulable_after_claim_change(pod, None, wrong)
    with pytest.raises(TypeError, match="expected Pod"):
        plugin.is_schedulable_after_pod_change(pod, None, wrong)


def test_its_arguments_are_checked() -> None:
    dynamic_resources(args=DynamicResourcesArgs(binding_timeout=Duration(SECOND)))
    with pytest.raises(PluginSetupError, match="must be at least 1 second"):
        dynamic_resources(args=DynamicResourcesArgs(binding_timeout=Duration(SECOND // 2)))


async def test_a_member_on_a_node_that_the_shared_devices_cannot_reach_fails_in_pre_bind() -> None:
    """Upstream writes the claim if it comes first, and binds the pod to that node."""
    plugin, tracker = sharing_plugin()
    group, members = CycleState(), [PodInfo(with_claims(by_name(), pod=make_pod(n))) for n in "ab"]
    states = [CycleState(), CycleState()]
    for state, info, node in zip(states, members, ("gpu", "plain"), strict=True):
        state.pod_group_state = group
        assert plugin.pre_filter(state, info, SNAPSHOT.nodes) is None
        plugin.filter_nodes(state, info, SNAPSHOT.nodes)
        plugin.reserve(state, info, node)
    with pytest.raises(ClaimBindingError, match="claim default/claim got allocated elsewhere"):
        await plugin.pre_bind(states[1], members[1], "plain")
    plugin.unreserve(states[1], members[1], "plain")
    # The devices stay those of the other member.
    assert tracker.pending_allocation("uid-claim") is not None
    plugin.unreserve(states[0], members[0], "gpu")
    assert tracker.pending_allocation("uid-claim") is None


def sharing_plugin() -> tuple[DynamicResources, ClaimTracker]:
    """Return a plugin in a cluster with a claim for the one device, which is on the node `gpu`."""
    exactly = ExactDeviceRequest("gpu", allocation_mode="ExactCount", count=1)
    spec = ResourceClaimSpec(DeviceClaim((DeviceRequest("r", exactly),)))
    plugin = dynamic_resources(
        [replace(make_claim(), spec=spec)],
        [GPU_CLASS],
        slices=[slice_of("gpu", "gpu-0")],
        snapshot=SNAPSHOT,
    )
    return plugin, plugin.handle.shared(DraManager).claims


@pytest.mark.parametrize(("same_cycle", "reason"), [(True, None), (False, IN_FLIGHT)])
def test_members_of_a_group_share_an_allocation_in_flight_within_a_cycle(
    reason: str | None, *, same_cycle: bool
) -> None:
    plugin, _ = sharing_plugin()
    group, nodes = CycleState(), SNAPSHOT.nodes
    first, second = CycleState(), CycleState()
    first.pod_group_state = group
    second.pod_group_state = group if same_cycle else CycleState()
    members = [PodInfo(with_claims(by_name(), pod=make_pod(name))) for name in ("one", "two")]
    assert plugin.pre_filter(first, members[0], nodes) is None
    plugin.filter_nodes(first, members[0], nodes)
    plugin.reserve(first, members[0], "gpu")
    answer = plugin.pre_filter(second, members[1], nodes)
    assert verdict_of(answer) == ((UNRESOLVABLE, (reason,)) if reason else None)
    if reason is None:
        # The devices are on another node: only an allocation that is written is checked.
        assert plugin.filter_nodes(second, members[1], nodes) is None
        plugin.reserve(second, members[1], "plain")
        plugin.unreserve(first, members[0], "gpu")
        assert plugin.pre_filter(CycleState(), members[0], nodes) is not None
        plugin.unreserve(second, members[1], "plain")
    else:
        plugin.unreserve(first, members[0], "gpu")
    assert plugin.pre_filter(CycleState(), members[0], nodes) is None


class SteppedClock(VirtualClock):
    """A clock on which a search takes `seconds`, and the wall clock is set forward by an hour."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.looks = itertools.count()
        self.seconds = seconds

    def now(self) -> float:
        return super().now() + 3600.0 * next(self.looks)

    def monotonic(self) -> float:
        return self.seconds if next(self.looks) else 0.0


class BusyClock(VirtualClock):
    """A clock on which each look takes 10 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return 0.01 * self.looks


def test_a_long_search_pauses_and_goes_on_where_it_was() -> None:
    requests = tuple(
        DeviceRequest(name, ExactDeviceRequest("gpu", allocation_mode="ExactCount", count=count))
        for name, count in (("a", 4), ("b", 3))
    )
    claim = replace(make_claim(), spec=ResourceClaimSpec(DeviceClaim(requests)))
    pod, nodes = PodInfo(with_claims(by_name())), SNAPSHOT.nodes

    def searched(*, may_pause: bool) -> tuple[list[int], int, int]:
        clock = BusyClock()
        plugin = dynamic_resources(
            [claim],
            [make_class("gpu")],
            # Too few on one node, and enough on the other.
            slices=[slice_of("plain", *"123456"), slice_of("gpu", *"1234567")],
            clock=clock,
            args=DynamicResourcesArgs(filter_timeout=Duration(0)),
        )
        state, pauses = CycleState(), 0
        assert plugin.pre_filter(state, pod, nodes) is None
        state.may_pause = may_pause
        while True:
            try:
                rejections = plugin.filter_nodes(state, pod, nodes)
            except FilterPausedError:
                pauses += 1
                continue
            assert rejections is not None
            return rejections.codes.tolist(), pauses, clock.looks

    codes, pauses, looks = searched(may_pause=True)
    assert pauses > 5
    found_at_once, no_pauses, looks_at_once = searched(may_pause=False)
    assert (codes, 0) == (found_at_once, no_pauses)
    # Hardly a step is taken twice.
    assert looks < looks_at_once + 10 * pauses


@pytest.mark.parametrize(("seconds", "is_late"), [(1.9, False), (2.1, True)])
def test_the_filter_timeout_is_independent_of_the_wall_clock(
    seconds: float, *, is_late: bool
) -> None:
    args = DynamicResourcesArgs(filter_timeout=Duration(2 * SECOND))
    plugin = dynamic_resources(classes=[GPU_CLASS], args=args, clock=SteppedClock(seconds))
    found = rejected(plugin, make_pod(requests={GPU: "1"}), SNAPSHOT)
    text = "node plain: timed out trying to allocate devices"
    late = dict.fromkeys(("plain", "gpu"), ("Error", (text,)))
    assert found == (late if is_late else {"plain": (UNRESOLVABLE, (NOT_ALLOCATED,))})


def test_the_filter_timeout_leaves_out_a_node_up_to_1_35() -> None:
    plugin = dynamic_resources(
        classes=[GPU_CLASS],
        args=DynamicResourcesArgs(filter_timeout=Duration(2 * SECOND)),
        clock=SteppedClock(2.1),
        version=SchedulerVersion.V1_35,
    )
    reason = "timed out trying to allocate devices"
    found = rejected(plugin, make_pod(requests={GPU: "1"}), SNAPSHOT)
    assert found == {"plain": (UNRESOLVABLE, (reason,))}
