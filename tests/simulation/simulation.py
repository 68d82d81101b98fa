"""Runs of histories: steps of plain data, applied to a store that a scheduler works on.

A step is a mapping of one verb to its arguments, as `{"create_pod": {"name": "p", "cpu": "1"}}`;
`Simulation` has a method for each verb. A step about something that is not there, or is there
already, does nothing, so that any part of a history is a history. After each step the scheduler's
parts must be sound in themselves, whatever is under way; after `settle` and `advance` they must
also hold what the informers hold. `finish` lets all be well again and time pass: then everything
must be as if nothing had ever gone wrong.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from scheduler.api.core import ObjectMeta, Pod, Toleration
from scheduler.api.dynamic_resources import ResourceClaim
from scheduler.client.errors import ApiError
from scheduler.config import DEFAULT_FEATURE_GATES, FeatureGates
from scheduler.framework.handle import WriteConflictError
from scheduler.plugins.dynamic_resources.binding_conditions import DeviceBindingError
from scheduler.plugins.dynamic_resources.claim_binder import ClaimBindingError
from scheduler.testing import VirtualClock, make_node

from . import loop
from .api_store import ApiStore
from .claim_store import ClaimStore
from .device_actors import DeviceActors, set_conditions
from .device_invariants import (
    check_devices_at_rest,
    check_devices_idle,
    check_nothing_is_taken_twice,
)
from .device_traits import BROKEN, DRIVER, claim_spec_of, device_class_of, slice_of
from .invariants import (
    check_always,
    check_at_rest,
    check_idle,
    check_no_group_waits_for_room,
    check_no_pod_waits_for_room,
    check_nothing_was_done,
    gated_with_nomination,
    group_key,
    is_split,
    overload_of,
    overlooked,
    stuck_preemptors,
    tries_members_in_another_order,
)
from .line import Doorkeeper, Line
from .traits import APP, DEDICATED, node_traits, pod_group_of, pod_of, with_cpu
from .writes import Writes

Step = dict[str, Any]
History = list[Step]

#: Longer than anything but that flush: pauses of a reflector, backoffs, the grace of victims.
QUIET_SECONDS = 150.0
#: Longer than any pod waits for its flush: 300 seconds, up to the next tick of 30, and a backoff.
LONG_SECONDS = 345.0
#: After so many long times nothing more may happen.
ROUNDS_MAX = 12
#: Longer than a few backoffs and the grace of victims.
FRESH_SECONDS = 60.0


#: Changes of objects, not by the scheduler or to it.
OF_STORE = frozenset(
    {"create_pod", "update_pod", "delete_pod", "bind_pod"}
    | {"create_node", "update_node", "delete_node"}
    | {"create_pod_group", "delete_pod_group"}
    | {"create_claim", "delete_claim", "break_devices"}
    | {"create_class", "delete_class", "put_slice", "delete_slice"}
)


class HistoryFailed(AssertionError):
    """An invariant was broken. The history up to there is in `history`."""

    def __init__(self, history: History, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.history = history


class Simulation:
    """One cluster with one scheduler; `seed` is that of its random numbers."""

    def __init__(self, seed: int = 0, feature_gates: FeatureGates = DEFAULT_FEATURE_GATES) -> None:
        self.feature_gates = feature_gates
        self.clock = VirtualClock()
        self.seed = seed
        self.works: set[asyncio.Task[None]] = set()
        self.store = ApiStore(self.clock, self._spawn)
        self.writes = Writes(self.store, self.clock)
        self.actors = DeviceActors(self.store, self.clock)
        #: Pools of devices that have changed, by driver and name.
        self.meddled_pools: set[tuple[str, str]] = set()
        self._pools: set[tuple[str, str]] = set()
        self._slice_generation = 0
        #: Nodes with a change that no scheduler can learn in time.
        self.meddled: set[str] = set()
        #: Pods that may have been smaller when they were decided upon.
        self.resized: set[str] = set()
        #: Pod groups of which some members may be bound and others not, by their key.
        self.split_groups: set[str] = set()
        #: The steps that were about something that was there.
        self.effective: History = []
        self.bugs = Bugs()
        self.writes.on_bound, self.writes.on_lost = self._see_binding, self.meddled.add
        self.writes.on_deleted = self.writes.on_not_bound = self._split_group_of
        self.line = self._new_line()

    def _new_line(self) -> Line:
        return Line(self.store, self.writes, self.clock, self.seed, self.feature_gates)

    async def run(self, history: Iterable[Step]) -> None:
        """Run a history to its end; raises HistoryFailed."""
        done: History = []
        with self.bugs:
            await self.start()
            try:
                for step in history:
                    done.append(step)
                    await self._guarded(done, f"step {len(done)} {step}", self.act(step))
                await self._guarded(done, "in the end", self.finish())
            finally:
                await self.stop()

    async def start(self) -> None:
        self._spawn(self.actors.run())
        await self.line.start()

    async def act(self, step: Step) -> None:
        """One step, and the invariants that hold at any time."""
        ((verb, arguments),) = step.items()
        before = self.store.version
        try:
            done = getattr(self, f"do_{verb}")(**arguments)
            if done is not None:
                await done
        except ApiError:
            # Other clients act here, and may meet a conflict.
            pass
        if verb not in OF_STORE or self.store.version != before:
            self.effective.append(step)
        check_always(self)
        check_nothing_is_taken_twice(self)

    async def finish(self) -> None:
        """End all faults, and check that all pods get a node if one fits."""
        await self.do_calm()
        if stuck_preemptors(self):
            await self.do_restart()
            await self.do_calm()
        for _ in range(ROUNDS_MAX):
            before, tries = dict(self.writes.made), self.tries()
            await self.do_advance(LONG_SECONDS)
            check_idle(self)
            check_devices_idle(self)
            idle = [key for key, attempts in self.tries().items() if tries.get(key) == attempts]
            assert not idle, f"not tried again for {LONG_SECONDS} s: {idle}"
            if self.writes.made["bind"] == before.get("bind", 0) and self.writes.made[
                "delete"
            ] == before.get("delete", 0):
                break
        else:
            raise AssertionError("pods are bound and deleted for ever")
        check_no_pod_waits_for_room(self)
        check_no_group_waits_for_room(self)
        await self._compare_with_a_fresh_scheduler()

    def tries(self) -> dict[str, int]:
        """The number of attempts of each waiting pod, by uid; without gated pods."""
        queue = self.line.queue
        waiting = (queue.find(p.key) for p in queue.pending_pods()[0])
        return {info.uid: info.attempts for info in waiting if info and not info.is_gated}

    # What happens to pods.

    def do_create_pod(self, name: str, **traits: Any) -> None:
        """See `pod_of`."""
        pod = pod_of(name, **traits)
        if pod.spec.node_name:
            self.meddled.add(pod.spec.node_name)
        if pod.spec.node_name or Doorkeeper.LABEL in pod.metadata.labels:
            self._split_group_of(pod)
        self.store.create_pod(pod)

    def do_update_pod(
        self,
        name: str,
        *,
        label: str = "",
        cpu: str = "",
        phase: str = "",
        ungate: bool = False,
        tolerate: bool = False,
    ) -> None:
        """Change what can be changed of a pod."""
        pod = self.store.pod(f"default/{name}")
        if phase:
            self._split_group_of(pod)
        if label:
            labels = {**pod.metadata.labels, APP: label}
            pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
        if cpu:
            self.resized.add(pod.metadata.uid)
            self.meddled.add(pod.spec.node_name)
            pod = with_cpu(pod, cpu)
        if phase:
            pod = replace(pod, status=replace(pod.status, phase=phase))
        if ungate:
            pod = replace(pod, spec=replace(pod.spec, scheduling_gates=()))
        if tolerate:
            spec = replace(pod.spec, tolerations=(Toleration(key=DEDICATED, operator="Exists"),))
            pod = replace(pod, spec=spec)
        self.store.pods.put(pod)

    def do_delete_pod(self, name: str) -> None:
        """Delete a pod as its owner."""
        self._split_group_of(self.store.pod(f"default/{name}"))
        self.store.delete_pod(f"default/{name}")

    def do_bind_pod(self, name: str, node: str) -> None:
        """Bind a pod as another client."""
        pod = self.store.pod(f"default/{name}")
        self.meddled.add(node)
        self._split_group_of(pod)
        self.store.bind(pod.key, pod.metadata.uid, node)

    def do_allow(self, name: str) -> None:
        """Allow a pod that waits at Permit."""
        uid = self.store.pod(f"default/{name}").metadata.uid
        waiting = self.line.waiting_pods.get(uid)
        if waiting is not None:
            waiting.allow(Doorkeeper.name)

    # What happens to pod groups.

    def do_create_pod_group(self, name: str, **traits: Any) -> None:
        """See `pod_group_of`."""
        self.store.create_pod_group(pod_group_of(name, **traits))

    def do_delete_pod_group(self, name: str) -> None:
        """Delete a pod group at once, as if nothing protected it; its members stay."""
        key = f"default/{name}"
        if key in self.store.pod_groups.now:
            self.store.pod_groups.remove(key)
            # Another gang of this name may want more members.
            self.split_groups.add(key)

    # What happens to nodes.

    def do_create_node(self, name: str, **traits: Any) -> None:
        """A new node, or one that comes back; see `node_traits`."""
        if name not in self.store.nodes.now:
            self.store.nodes.put(make_node(name, **node_traits(**traits)))

    def do_update_node(self, name: str, **traits: Any) -> None:
        """The node becomes another one under its name."""
        if name in self.store.nodes.now:
            self.meddled.add(name)
            self.store.nodes.put(make_node(name, **node_traits(**traits)))

    def do_delete_node(self, name: str) -> None:
        """The node is lost; its pods are left."""
        if name in self.store.nodes.now:
            self.meddled.add(name)
            self.store.nodes.remove(name)

    # What happens to claims, classes and devices.

    def do_create_claim(self, name: str, **traits: Any) -> None:
        """See `claim_spec_of`."""
        if f"default/{name}" not in self.store.claims.now:
            metadata = ObjectMeta(name=name, namespace="default")
            ClaimStore(self.store).create(ResourceClaim(metadata, claim_spec_of(**traits)))

    def do_delete_claim(self, name: str) -> None:
        """Delete a claim as its user; it stays while it is allocated."""
        ClaimStore(self.store).delete(f"default/{name}")

    def do_put_template(self, name: str, **traits: Any) -> None:
        """Create or replace a template for claims."""
        self.store.claim_templates[name] = claim_spec_of(**traits)
        self.actors.wake()

    def do_delete_template(self, name: str) -> None:
        """Delete a template; the claims that were made from it stay."""
        self.store.claim_templates.pop(name, None)

    def do_break_devices(self, name: str) -> None:
        """Set the failure condition of the devices of a claim, as their driver."""
        set_conditions(self.store, ClaimStore(self.store).get(f"default/{name}"), BROKEN)

    def do_create_class(self, name: str, **traits: Any) -> None:
        """See `device_class_of`."""
        if name not in self.store.classes.now:
            created = device_class_of(name, **traits)
            metadata = self.store.new_metadata(created.metadata)
            self.store.classes.put(replace(created, metadata=metadata))

    def do_delete_class(self, name: str) -> None:
        """Delete a class; claims that name it stay."""
        if name in self.store.classes.now:
            self.store.classes.remove(name)

    def do_put_slice(self, name: str, **traits: Any) -> None:
        """Create or replace the slice of a pool, see `slice_of`."""
        self._slice_generation += 1
        new = slice_of(name, generation=self._slice_generation, **traits)
        pool = (new.spec.driver, new.spec.pool.name)
        if pool in self._pools:
            self.meddled_pools.add(pool)
        self._pools.add(pool)
        self.store.slices.put(new)

    def do_delete_slice(self, name: str) -> None:
        """Delete the slice of a pool."""
        slice_name = f"{DRIVER}-{name}"
        if slice_name in self.store.slices.now:
            self.store.slices.remove(slice_name)

    # What happens to the scheduler and to the controller of claims.

    def do_hold(self, kind: str) -> None:
        """Hold back the events of a kind, or the `controller` of claims, or the `driver`."""
        if kind in self.line.sources:
            self.line.sources[kind].hold()
        else:
            self.actors.held.add(kind)

    def do_release(self, kind: str) -> None:
        """Release the events that are held back."""
        if kind in self.line.sources:
            self.line.sources[kind].release()
        self.actors.held.discard(kind)
        self.actors.wake()

    def do_relist(self, kind: str) -> None:
        """End a watch with 410: some events are missed."""
        if kind in self.line.sources:
            self.line.sources[kind].expire()

    def do_interrupt(self, kind: str) -> None:
        """Interrupt a watch."""
        if kind in self.line.sources:
            self.line.sources[kind].interrupt()

    def do_fail(self, write: str, how: str, times: int = 1) -> None:
        """Make the next writes of a kind fail."""
        self.writes.fail(write, how, times)

    def do_latency(self, seconds: float) -> None:
        """Writes take so long, half of it before they are carried out."""
        self.writes.latency_seconds = seconds

    async def do_restart(self) -> None:
        """The scheduler is killed, and another one takes over."""
        await self.line.stop()
        self._check_line()
        self.seed += 1
        self.writes.forget_earlier_clients()
        self.writes.maybe_left |= self.store.claims.now.keys()
        self.split_groups |= {key for key in self.store.pod_groups.now if is_split(self.store, key)}
        self.line = self._new_line()
        await self.line.start()

    # What happens by itself.

    async def do_turns(self, count: int) -> None:
        """Give all tasks a few turns; work may still be in flight."""
        await loop.turns(count)

    async def do_settle(self) -> None:
        """Run all tasks as far as possible without advancing the clock."""
        await loop.settle()
        check_at_rest(self)
        check_devices_at_rest(self)

    async def do_advance(self, seconds: float) -> None:
        """Advance the clock."""
        await loop.advance(self.clock, seconds)
        check_at_rest(self)
        check_devices_at_rest(self)

    async def do_calm(self) -> None:
        """Run without faults, too short for a flush: every pod with a reason must have moved."""
        for source in self.line.sources.values():
            source.release()
        self.actors.held.clear()
        self.actors.wake()
        self.writes.heal()
        self._open_the_door()
        self._collect_garbage()
        await self.do_advance(QUIET_SECONDS)
        check_idle(self)
        check_devices_idle(self)
        but = overlooked(self)
        check_no_pod_waits_for_room(self, but=but)
        check_no_group_waits_for_room(self)
        if not but:
            await self._compare_with_a_fresh_scheduler()
        self.line.cache.contradictions = self.line.tracker.silent_releases = 0

    # The rest is private.

    async def _compare_with_a_fresh_scheduler(self) -> None:
        """Check that a scheduler without history finds nothing to do, in a copy of the cluster."""
        if gated_with_nomination(self) or tries_members_in_another_order(self):
            return
        twin = Simulation(self.seed + 1, self.feature_gates)
        twin.store.copy_from(self.store)
        await twin.start()
        try:
            await loop.advance(twin.clock, FRESH_SECONDS)
        finally:
            await twin.stop()
        check_nothing_was_done(self, twin)

    def _split_group_of(self, pod: Pod) -> None:
        """Remember that a member was bound, ended or deleted, and not by a decision for all."""
        if pod.spec.scheduling_group is not None:
            self.split_groups.add(group_key(pod))

    def _open_the_door(self) -> None:
        """Allow every waiting pod."""
        for pod in list(self.store.pods.now.values()):
            if Doorkeeper.LABEL in pod.metadata.labels:
                self.do_allow(pod.metadata.name)
                labels = {k: v for k, v in pod.metadata.labels.items() if k != Doorkeeper.LABEL}
                self.store.pods.put(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def _collect_garbage(self) -> None:
        """Delete the pods on lost nodes, as a controller does."""
        for pod in list(self.store.pods.now.values()):
            if pod.spec.node_name and pod.spec.node_name not in self.store.nodes.now:
                self._split_group_of(pod)
                self.store.pods.remove(pod.key)

    def _check_line(self) -> None:
        assert not self.line.failures, f"a task failed: {self.line.failures}"

    def _see_binding(self, pod: Pod, node_name: str) -> None:
        if pod.metadata.uid in self.resized:
            self.meddled.add(node_name)
        node = self.store.nodes.now.get(node_name)
        if node is not None and node_name not in self.meddled:
            complaint = overload_of(node, self.store.pods.now.values(), because_of=pod)
            if complaint:
                self.writes.complaints.append(
                    f"{pod.key} is one too many on {node_name}: {complaint}"
                )

    async def _guarded(self, done: History, where: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except AssertionError as error:
            raise HistoryFailed(done, where, str(error)) from error

    async def stop(self) -> None:
        """End the scheduler and all else that runs."""
        await self.line.stop()
        for work in list(self.works):
            work.cancel()
        await asyncio.gather(*self.works, return_exceptions=True)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.works.add(task)
        task.add_done_callback(self.works.discard)


#: The errors of claims that cannot be written, or whose devices do not become ready.
_EXPECTED = (ClaimBindingError, DeviceBindingError, WriteConflictError)


class Bugs(logging.Handler):
    """Records exceptions that were caught and logged: parts do not fail in normal operation."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        self.has_failed_claims = False
        self._logger = logging.getLogger("scheduler")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what has a traceback, except claims that cannot be written."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, _EXPECTED):
            self.has_failed_claims = True
        elif error is not None:
            self.found.append(f"{record.getMessage()}: {error!r}")

    def __enter__(self) -> None:
        self._before = (self._logger.level, self._logger.propagate)
        self._logger.addHandler(self)
        self._logger.setLevel(logging.ERROR)
        self._logger.propagate = False

    def __exit__(self, *exception: object) -> None:
        self._logger.removeHandler(self)
        self._logger.level, self._logger.propagate = self._before
        self._logger.setLevel(self._before[0])


def simulate(
    history: Iterable[Step],
    *,
    seed: int = 0,
    feature_gates: Iterable[str] = (),
    make: Callable[[int, FeatureGates], Simulation] = Simulation,
) -> Simulation:
    """Run a history in an event loop of its own, with more gates on; raises HistoryFailed."""

    async def act_out() -> Simulation:
        simulation = make(seed, DEFAULT_FEATURE_GATES | frozenset(feature_gates))
        await simulation.run(history)
        return simulation

    with asyncio.Runner(loop_factory=loop.CountingLoop) as runner:
        return runner.run(act_out())


_VERBS: Mapping[str, Callable[..., object]] = {
    name.removeprefix("do_"): method
    for name, method in vars(Simulation).items()
    if name.startswith("do_")
}


def verbs() -> frozenset[str]:
    """The kinds of steps."""
    return frozenset(cast("Mapping[str, object]", _VERBS))
