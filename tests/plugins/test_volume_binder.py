"""PreBind of VolumeBinding: writes, timeouts, and objects that are released."""

import asyncio

import pytest
from msgspec.structs import replace

from scheduler.api.volumes import ANN_BIND_COMPLETED
from scheduler.client import ApiObject
from scheduler.framework import CycleState
from scheduler.plugins.volume_binding.volume_binding import VolumeBinding
from scheduler.snapshot import PodInfo
from scheduler.testing import make_node, snapshot_of
from tests.plugins.volumes import (
    ClusterObjects,
    VolumeApi,
    make_claim,
    make_class,
    make_volume,
    plugin_with,
    pod_with_claims,
)

NODE = make_node("node-1", zone="a")
STATIC = (make_claim(), make_volume(node="node-1"))
MADE = (make_claim(storage_class="make"),)
MAKER = make_class("make", provisioner="disks.example.com")


class Binding:
    """A pod with one claim that is reserved on the node, before PreBind."""

    def __init__(self, *objects: ApiObject, timeout_seconds: int | None = None) -> None:
        self.pod = PodInfo(pod_with_claims("claim")).assigned_to("node-1")
        everything: tuple[ApiObject, ...] = (NODE, self.pod.pod, make_class(), MAKER, *objects)
        self.api = VolumeApi(ClusterObjects(*objects), ClusterObjects(*everything))
        args = {} if timeout_seconds is None else {"bindTimeoutSeconds": timeout_seconds}
        self.plugin = plugin_with(VolumeBinding, self.api, args)
        self.state = CycleState()
        nodes = snapshot_of([NODE]).nodes
        assert self.plugin.pre_filter(self.state, self.pod, nodes) is None
        assert self.plugin.filter_nodes(self.state, self.pod, nodes) is None
        self.plugin.reserve(self.state, self.pod, "node-1")
        assert not self.plugin.pre_bind_pre_flight(self.state, self.pod, "node-1").skip

    def start(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.plugin.pre_bind(self.state, self.pod, "node-1"))

    async def fails(self, *, after_seconds: float) -> str:
        """Return the error of PreBind, which must fail after exactly this time."""
        work = self.start()
        await self.api.clock.advance(after_seconds - 0.1)
        assert not work.done()
        await self.api.clock.advance(0.1)
        failure = work.exception()
        assert failure is not None
        return str(failure)

    def unreserve(self) -> None:
        self.plugin.unreserve(self.state, self.pod, "node-1")


def bound(volume_name: str = "volume", *, selected: bool = False) -> ApiObject:
    """Return the claim after the volume controller has bound it."""
    return make_claim(
        storage_class="make" if selected else "wait",
        volume_name=volume_name,
        selected_node="node-1" if selected else None,
        version="9",
    )


async def test_the_volume_gets_its_claim_and_the_pod_waits_for_the_controller() -> None:
    binding = Binding(*STATIC)
    work = binding.start()
    await binding.api.clock.advance(3.5)
    volume = binding.api.server.listers["persistentvolumes"].get("volume")
    assert volume is not None
    reference = volume.spec.claim_ref
    assert (reference.kind, reference.api_version) == ("PersistentVolumeClaim", "v1")
    assert (reference.namespace, reference.name, reference.uid) == ("default", "claim", "uid-claim")
    assert reference.resource_version == "1"
    assert volume.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert not work.done()
    binding.api.known.put(bound())
    await binding.api.clock.advance(0.4)
    assert not work.done(), "it looks once a second"
    await binding.api.clock.advance(0.2)
    assert work.done()
    assert work.exception() is None


async def test_the_claim_gets_its_node_and_the_pod_waits_for_the_new_volume() -> None:
    binding = Binding(*MADE)
    work = binding.start()
    await binding.api.clock.advance(0.5)
    claim = binding.api.server.listers["persistentvolumeclaims"].get("claim", "default")
    assert claim is not None
    assert claim.metadata.annotations == {"volume.kubernetes.io/selected-node": "node-1"}
    binding.api.known.put(bound("made", selected=True))
    await binding.api.clock.advance(1)
    assert not work.done(), "the new volume has not been heard of yet"
    binding.api.known.put(make_volume("made", node="node-1"))
    await binding.api.clock.advance(1)
    assert work.done()
    assert work.exception() is None


@pytest.mark.parametrize("objects", [STATIC, MADE], ids=["volume", "claim"])
async def test_no_check_succeeds_before_the_informer_has_our_own_write(
    objects: tuple[ApiObject, ...],
) -> None:
    binding = Binding(*objects)
    binding.api.silent = True
    work = binding.start()
    await binding.api.clock.advance(30.5)
    # The informer's old volume has no claim, its old claim no node: neither counts as taken back.
    assert not work.done()
    work.cancel()


async def test_the_wait_ends_after_the_time_configured() -> None:
    binding = Binding(*STATIC, timeout_seconds=7)
    failure = await binding.fails(after_seconds=7)
    assert failure == "binding volumes: context deadline exceeded"
    assert await Binding(*STATIC).fails(after_seconds=600) == failure


async def test_a_wall_clock_that_jumps_does_not_end_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    binding = Binding(*STATIC, timeout_seconds=7)
    work = binding.start()
    await binding.api.clock.advance(3.5)
    tomorrow = binding.api.clock.now() + 86_400
    monkeypatch.setattr(type(binding.api.clock), "now", lambda _: tomorrow)
    await binding.api.clock.advance(2)
    assert not work.done()
    work.cancel()


async def test_no_time_at_all_is_too_little() -> None:
    work = Binding(bound(), *STATIC[1:], make_claim(), timeout_seconds=0).start()
    with pytest.raises(Exception, match=r"^binding volumes: context deadline exceeded$"):
        await work


async def test_after_a_timeout_written_objects_are_left_to_the_controller() -> None:
    binding = Binding(*STATIC, timeout_seconds=2)
    await binding.fails(after_seconds=2)
    binding.unreserve()
    volume = binding.plugin.binder.volumes.get("volume")
    assert volume is not None
    assert volume.spec.claim_ref.name == "claim"


async def test_after_a_refused_write_the_volume_is_free_again() -> None:
    binding = Binding(*STATIC)
    binding.api.server.put(make_volume(node="node-1", version="2"))
    with pytest.raises(Exception, match="the object has been modified"):
        await binding.start()
    binding.unreserve()
    volume = binding.plugin.binder.volumes.get("volume")
    assert volume is not None
    assert volume.spec.claim_ref is None


def gone_pod(binding: Binding) -> None:
    binding.api.known.remove(binding.pod.pod)


def gone_node(binding: Binding) -> None:
    binding.api.known.remove(NODE)


def moved(binding: Binding) -> None:
    binding.api.known.put(make_volume(node="node-2", version="9", claim=make_claim()))


@pytest.mark.parametrize(
    ("happens", "failure"),
    [
        (gone_pod, 'pod does not exist any more: pod "pod" not found'),
        (gone_node, 'failed to get node "node-1": node "node-1" not found'),
        (
            moved,
            'pv "volume" node affinity doesn\'t match node "node-1": no matching NodeSelectorTerms',
        ),
    ],
)
async def test_a_binding_that_can_no_longer_succeed_fails_at_the_next_look(
    happens: object, failure: str
) -> None:
    binding = Binding(*STATIC)
    binding.api.on_write = lambda: happens(binding)  # type: ignore[operator]
    assert await binding.fails(after_seconds=1) == f"binding volumes: {failure}"


async def test_a_written_object_counts_until_the_informer_has_it() -> None:
    binding = Binding(*STATIC)
    binding.api.silent = True
    work = binding.start()
    await binding.api.clock.advance(0.5)
    volumes = binding.plugin.binder.volumes
    volume = volumes.get("volume")
    assert volume is not None
    assert volume.spec.claim_ref is not None
    binding.api.known.put(make_volume(version="2"))
    volume = volumes.get("volume")
    assert volume is not None
    assert volume.spec.claim_ref is None
    assert len(volumes) == 0
    work.cancel()


async def test_outdated_assumed_objects_are_dropped() -> None:
    binding = Binding(*STATIC)
    claims = binding.plugin.binder.claims
    for number in range(1000):
        claim = make_claim(f"claim-{number}", version="1")
        binding.api.known.put(claim)
        claims.assume(replace(claim, metadata=replace(claim.metadata, labels={"assumed": "yes"})))
        binding.api.known.put(make_claim(f"claim-{number}", version="2"))
    assert len(claims) <= 64
    assert ANN_BIND_COMPLETED not in claims.get("claim-5", "default").metadata.annotations
