"""DynamicResources with claims in an API server, in its informer, assumed and in flight.

Upstream's `testPlugin` runs one pod through the extension points of the plugin, and compares the
claims after each. A case names, by extension point, the values that differ from those before: the
`status`, the `claims` of the API server, the claim that is `assumed` and the claims `in_flight`;
`claim_statuses` are those that a step writes into the status of the pod.
`prepare` are claims that another client writes before the step. The informer gets the writes after
a step, and whenever the plugin sleeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.api.core import NodeAllocatableResourceClaimStatus
from scheduler.api.duration import Duration
from scheduler.api.dynamic_resources import (
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.api.pod_groups import PodGroup
from scheduler.assembly.claims_in_memory import ClaimsInMemory
from scheduler.assembly.gated_fields import transforms
from scheduler.client import Store
from scheduler.devices.manager import DraManager
from scheduler.framework import Code, CycleState, NodeToStatus, Status
from scheduler.framework.status import error
from scheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.runtime.registry import Registry
from scheduler.snapshot import Nodes, PodInfo
from scheduler.snapshot.pod_group_state import PodGroupState
from scheduler.testing import FakeHandle, VirtualClock
from tests.plugins.running import verdict_of
from tests.upstream.loading import (
    Case,
    Fields,
    api_object,
    feature_gates,
    pod,
    snapshot,
    verdict,
    verdicts,
    version_of,
)

#: Upstream compares only if there is a time of allocation.
_ALLOCATED: Final = datetime(2026, 1, 1, tzinfo=UTC)


class _Clock(VirtualClock):
    """A clock that moves on whenever it is read, and whose sleeps end at once."""

    def __init__(self, on_sleep: Callable[[], None]) -> None:
        super().__init__()
        self._on_sleep = on_sleep

    def monotonic(self) -> float:
        self.advance_nowait(1e-6)
        return super().monotonic()

    async def sleep(self, seconds: float) -> None:
        self.advance_nowait(seconds)
        self._on_sleep()


class _Api(ClaimsInMemory):
    """Claims in memory; the creation of a claim can be made to fail."""

    creation_failure: str = ""

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        if self.creation_failure:
            raise ValueError(self.creation_failure)
        return await super().create(claim)


class ClaimStage:
    """The plugin of a case, and the claims around it."""

    def __init__(self, case: Case) -> None:
        self._case: Final = case
        self._stored: Final = Store(map(_claim, case.get("claims", ())))
        self._informer: Final[Store[ResourceClaim]] = Store()
        #: The keys of the claims that the informer does not have as they are.
        self._behind: Final = {claim.key for claim in self._stored.list()}
        self._api: Final = _Api(self._stored, put=self._put, remove=self._remove)
        self._deliver()
        self._handle: Final = FakeHandle(
            listers={
                "resourceclaims": self._informer,
                "deviceclasses": Store(_read(DeviceClass, case.get("classes", ()))),
                "resourceslices": Store(_slices(case)),
                "podgroups": Store(_read(PodGroup, case.get("groups", ()))),
            },
            clock=_Clock(self._deliver),
            feature_gates=feature_gates(case),
            version=version_of(case),
        )
        for member in map(pod, case.get("members", ())):
            key = f"{member.metadata.namespace}/{member.spec.scheduling_group.pod_group_name}"
            self._handle.pod_groups.setdefault(key, PodGroupState()).set_pod(PodInfo(member))
        object.__setattr__(self._handle.api, "resource_claims", self._api)
        failures = case.get("failures", {})
        self._api.creation_failure = failures.get("create", "")
        self._info: Final = PodInfo(pod(case["pod"]))
        if "patch" in failures:
            self._handle.api.failures[self._info.key] = ValueError(failures["patch"])
        registry = Registry([DynamicResources])
        durations = {name: Duration.parse(text) for name, text in case.get("args", {}).items()}
        args = DynamicResourcesArgs(**durations)
        plugin = registry.create("DynamicResources", args, self._handle)
        self._plugin: Final = cast("DynamicResources", plugin)
        self._tracker: Final = self._handle.shared(DraManager).claims
        for claim in map(_claim, case.get("in_flight", ())):
            self._tracker.signal_pending_allocation(claim.metadata.uid, claim)
        self._state: Final = CycleState()
        #: The claims as of the last step: in the API server, and in flight.
        self._before: Final = {"claims": self._in_api(), "in_flight": self._in_flight()}

    async def run(self) -> None:
        """Run the extension points in the order of upstream's test, and compare after each."""
        plugin, state, info = self._plugin, self._state, self._info
        status = plugin.pre_enqueue(info)
        self._compare("pre_enqueue", status)
        if status is not None:
            return
        nodes = snapshot(self._case).nodes
        status = plugin.pre_filter(state, info, nodes)
        self._compare("pre_filter", status)
        found = {} if status is None or status.code == Code.SKIP else dict.fromkeys(nodes.names)
        if not found:
            rejections = plugin.filter_nodes(state, info, nodes)
            statuses = map(rejections.status, range(len(nodes))) if rejections else [None]
            found = {n: s for n, s in zip(nodes.names, statuses, strict=False) if s is not None}
            if self._is_error(found):
                return
            assert {n: verdict_of(s) for n, s in found.items()} == verdicts(self._statuses)
        passed = nodes.take(np.array([name not in found for name in nodes.names], dtype=np.bool_))
        if not passed.names:
            _, status = await plugin.post_filter(state, info, NodeToStatus((), {}))
            self._compare("post_filter", status)
            return
        await self._bind(passed.names[self._best(passed)])

    @property
    def _statuses(self) -> Fields:
        """The statuses of Filter by node; a node that passes is absent."""
        found: Fields = self._case.get("filter", {})
        return found

    def _is_error(self, found: Mapping[str, Status | None]) -> bool:
        """Return True if Filter failed; upstream stops at the node, here it fails for all."""
        for name, expected in verdicts(self._statuses).items():
            if expected[0] == "Error":
                assert verdict_of(found.get(name)) == expected
                return True
        return False

    def _best(self, nodes: Nodes) -> int:
        """Return the position of the node with the highest score."""
        if len(nodes) == 1:
            return 0
        scores = self._plugin.score_nodes(self._state, self._info, nodes)
        assert scores.tolist() == self._case["scores"]
        normalized = self._plugin.normalize_score(self._state, self._info, scores)
        assert normalized.tolist() == self._case["normalized_scores"]
        return int(normalized.argmax())

    async def _bind(self, node_name: str) -> None:
        plugin, state, info = self._plugin, self._state, self._info
        plugin.reserve(state, info, node_name)
        self._compare("reserve", None)
        if "pre_bind" in self._case.fields or "unreserve" not in self._case.fields:
            self._prepare("pre_bind")
            skipped = self._case.get("pre_bind_skipped", False)
            assert plugin.pre_bind_pre_flight(state, info, node_name) == (True, skipped)
            status = None
            try:
                await plugin.pre_bind(state, info, node_name)
            except Exception as failure:  # noqa: BLE001 - as the framework does
                status = error(failure)
            self._compare("pre_bind", status)
        if "unreserve" in self._case.fields:
            plugin.unreserve(state, info, node_name)
            for work in self._handle.spawned:
                await work
            self._compare("unreserve", None)
        self._compare_metrics()

    def _compare(self, step: str, status: Status | None) -> None:
        """Compare the status and the claims with those of upstream after a step."""
        expected: Fields = self._case.get(step, {})
        assert verdict_of(status) == verdict(expected.get("status")), step
        for field, found in (("claims", self._in_api()), ("in_flight", self._in_flight())):
            if field in expected:
                self._before[field] = _shown(map(_claim, expected[field]))
            assert found == self._before[field], (step, field)
        written = self._handle.api.claim_statuses.get(self._info.key)
        assert written == _claim_statuses(expected.get("claim_statuses")), step
        if "assumed" in expected:
            assumed = _comparable(_claim(expected["assumed"]))
            assert assumed in _shown(self._tracker.list()), step
        self._deliver()
        if "assumed" not in expected:
            assert _shown(self._tracker.list()) == self._in_api(), step

    def _compare_metrics(self) -> None:
        metrics, expected = self._handle.metrics, self._case.get("metrics", {})
        if "creates" in expected:
            counts = {status: n for (status,), n in metrics.resource_claim_creates.items() if n}
            assert counts == expected["creates"]
        for status, count in expected.get("allocations", {}).items():
            labels = (self._handle.profile_name, "some-driver", status)
            assert metrics.binding_conditions_allocations[labels] == count
            assert metrics.binding_conditions_wait_duration.of(*labels).total == count

    def _prepare(self, step: str) -> None:
        """Write the claims that change in the API server before a step."""
        for claim in map(_claim, self._case.get(step, {}).get("prepare", ())):
            self._api.put(claim)
            self._before["claims"] = self._in_api()

    def _put(self, claim: ResourceClaim) -> None:
        self._stored.put(claim)
        self._behind.add(claim.key)

    def _remove(self, key: str) -> None:
        self._stored.remove(key)
        self._behind.add(key)

    def _deliver(self) -> None:
        """Bring the informer up to date."""
        while self._behind:
            key = self._behind.pop()
            claim = self._api.stored(key)
            if claim is None:
                self._informer.remove(key)
            else:
                self._informer.put(claim)

    def _in_api(self) -> Claims:
        return _shown(self._stored.list())

    def _in_flight(self) -> Claims:
        return _shown(pending.claim for pending in self._tracker._pending.values())


#: Claims in the order of their names, without the values that differ from run to run.
Claims = list[ResourceClaim]


def _claim(value: Fields) -> ResourceClaim:
    claim = api_object(ResourceClaim, value)
    metadata = replace(claim.metadata, uid=f"uid-{claim.metadata.name}")
    return replace(claim, metadata=metadata)


def _claim_statuses(value: object) -> tuple[NodeAllocatableResourceClaimStatus, ...] | None:
    if value is None:
        return None
    return msgspec.convert(value, tuple[NodeAllocatableResourceClaimStatus, ...])


def _shown(claims: Iterable[ResourceClaim]) -> Claims:
    return sorted(map(_comparable, claims), key=lambda claim: claim.metadata.name)


def _comparable(claim: ResourceClaim) -> ResourceClaim:
    metadata, status = claim.metadata, claim.status
    name = metadata.name
    if metadata.generate_name and name.startswith(metadata.generate_name):
        name = f"{metadata.generate_name}0"
    metadata = replace(metadata, name=name, uid="", resource_version="")
    allocation = status.allocation
    if allocation is not None:
        if allocation.allocation_timestamp is not None:
            allocation = replace(allocation, allocation_timestamp=_ALLOCATED)
        results = tuple(map(_without_share, allocation.devices.results))
        allocation = replace(allocation, devices=replace(allocation.devices, results=results))
        status = replace(status, allocation=allocation)
    return replace(claim, metadata=metadata, status=status)


def _without_share(result: DeviceRequestAllocationResult) -> DeviceRequestAllocationResult:
    return replace(result, share_id=None)


def _slices(case: Case) -> Iterator[ResourceSlice]:
    """The slices as an informer has them, without the fields of gates that are off."""
    known = transforms(feature_gates(case), version_of(case)).get("resourceslices")
    slices = _read(ResourceSlice, case.get("slices", ()))
    return map(known, slices) if known is not None else slices


def _read(kind: Any, values: Iterable[Fields]) -> Iterator[Any]:
    return (api_object(kind, value) for value in values)
