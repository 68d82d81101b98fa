"""The structured allocator: devices for the claims of a pod on one node.

Claims, requests and devices are tried in their order, depth first, and the first full solution is
taken. A request's next device comes after its last one; each request begins at the first device.

    allocate -> _Search.run -> _request (alternatives) -> _devices (one device after another)
                                  ^_____________________________|  next device, next request

Each arrow is a step on a stack of `run`, not a call: a pod may claim hundreds of devices.
Source: `k8s.io/dynamic-resource-allocation/structured/internal/incubating/
allocator_incubating.go`, v0.36.3, which 1.36 selects with its default feature gates.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, TypeAlias

from scheduler.api.dynamic_resources import ALLOCATION_RESULTS_MAX
from scheduler.api.quantity import parse_quantity
from scheduler.devices import capacity
from scheduler.devices.capacity import CapacityError
from scheduler.devices.compatibility_groups import CompatibilityGroups
from scheduler.devices.constraints import Constraint
from scheduler.devices.pools import device_matches
from scheduler.devices.requests import (
    AllocationError,
    ChosenDevice,
    ClaimAllocation,
    alternatives_of,
    refuse_capacity,
)
from scheduler.devices.rules import (
    BINDING_CONDITIONS,
    CONSUMABLE_CAPACITY,
    PARTITIONABLE_DEVICES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from scheduler.api.dynamic_resources import (
        Counter,
        DeviceClass,
        ResourceClaim,
    )
    from scheduler.config import FeatureGates
    from scheduler.devices.allocated import AllocatedState
    from scheduler.devices.pools import DeviceId, NodePools, Pool, PoolDevice
    from scheduler.devices.requests import Request
    from scheduler.devices.rules import DeviceRules
    from scheduler.devices.selectors import SelectorVerdicts

#: The amounts of counters, by counter set and counter.
CounterSets = dict[str, dict[str, int]]

_ADMIN_ACCESS: Final = "DRAAdminAccess"


class AllocationTimeoutError(Exception):
    """The search on one node took too long."""


class SearchPausedError(Exception):
    """The search on one node is not done; the same call goes on with it."""


#: One choice of the search. It makes the choice and yields the step that follows, None if nothing
#: is left to choose. When it is resumed, that step has failed: it undoes its choice and makes the
#: next one. True is sent, and returned, where a claim would get more devices than its status holds.
_Step: TypeAlias = "Generator[_Step | None, bool, bool]"


class Allocator:
    """Allocates devices for the claims of one pod, on one node after another."""

    def __init__(
        self,
        *,
        state: AllocatedState,
        class_of: Callable[[str], DeviceClass | None],
        verdicts: SelectorVerdicts,
        gates: FeatureGates,
        rules: DeviceRules,
    ) -> None:
        self.state: Final = state
        self.verdicts: Final = verdicts
        self.rules: Final = rules
        self.lookup: Final = functools.partial(rules.attribute, verdicts)
        self._class_of: Final = class_of
        self._gates: Final = gates
        self.shares_capacity: Final = CONSUMABLE_CAPACITY in gates
        self.attaches_devices: Final = gates >= BINDING_CONDITIONS
        self.has_counters: Final = PARTITIONABLE_DEVICES in gates
        #: Without the gates of these features upstream takes its `stable` allocator.
        self.is_stable: Final = not (
            self.shares_capacity or gates >= rules.status_gates or gates & rules.experimental_gates
        )
        #: By id; they are kept, so that their ids stay theirs.
        self._claims: Final[dict[int, ResourceClaim]] = {}
        #: By claim and number of the request: its alternatives, checked.
        self._checked: Final[dict[tuple[int, int], list[Request]]] = {}
        #: By claims and group of nodes.
        self._answers: Final[dict[object, list[ClaimAllocation] | None]] = {}
        #: The search that was paused, by its claims and group.
        self._paused: Final[dict[object, _Search]] = {}
        #: By `rules.counters_key`.
        self.available_counters: Final[dict[object, CounterSets]] = {}

    def allocate(
        self,
        claims: Sequence[ResourceClaim],
        node_pools: NodePools,
        group: int,
        expired: Callable[[], bool],
        pauses: Callable[[], bool] = lambda: False,
    ) -> list[ClaimAllocation] | None:
        """Return the devices of each claim on a node; None if there are not enough.

        The answer is kept for all nodes of the group. Raises `AllocationError`, which ends the
        search on all nodes, `AllocationTimeoutError`, and `SearchPausedError` once `pauses()` is
        true. The `expired` of the first call counts for all calls of a paused search.
        """
        ids = tuple(map(id, claims))
        key = (ids, group)
        if key not in self._answers:
            self._claims.update(zip(ids, claims, strict=True))
            search = self._paused.pop(key, None) or _Search(self, node_pools, claims, expired)
            try:
                self._answers[key] = search.allocations if search.run(pauses) else None
            except SearchPausedError:
                self._paused[key] = search
                raise
        return self._answers[key]

    def alternatives(self, claim: ResourceClaim, number: int) -> Iterator[Request]:
        """Yield the alternatives of a request, each when it is checked; raises `AllocationError`.

        The caller looks at each before the next one is checked: of two faults it names the first.
        """
        key = (id(claim), number)
        if key in self._checked:
            yield from self._checked[key]
            return
        found = []
        asked = claim.spec.devices.requests[number]
        # The `stable` allocator ignores capacity.
        if not self.shares_capacity and not self.is_stable:
            refuse_capacity(claim, asked, names_alternatives=self.rules.names_alternatives)
        for request in alternatives_of(claim, asked, self._class_of):
            if self.rules.refuses_derived and request.spec.derived_attributes:
                raise AllocationError(
                    f"claim {claim.key}, request {request.name}: cannot handle request with "
                    "derived attributes, the feature is disabled"
                )
            if request.has_admin_access and _ADMIN_ACCESS not in self._gates:
                raise AllocationError(
                    f"claim {claim.key}, request {request.name}: admin access is requested, "
                    "but the feature is disabled"
                )
            found.append(request)
            yield request
        self._checked[key] = found

    def counters(self, pool: Pool, device: PoolDevice) -> CounterSets:
        """Return the counters for a device of a pool that no allocated device has consumed."""
        rules = self.rules
        key = rules.counters_key(pool, device)
        available = self.available_counters.get(key)
        if available is None:
            available = {
                counter_set.name: {
                    name: _nanos(counter) for name, counter in counter_set.counters.items()
                }
                for counter_set in rules.counter_sets(pool, device)
            }
            for other in (*pool.devices, *pool.unreachable):
                if rules.counters_key(pool, other) == key and rules.consumes(self.state, other.id):
                    _subtract(available, other)
            self.available_counters[key] = available
        return available


def _nothing() -> None:
    """Undo nothing."""


def _nanos(counter: Counter) -> int:
    return parse_quantity(counter.value)


def _subtract(available: CounterSets, device: PoolDevice) -> None:
    for consumption in device.device.consumes_counters:
        of_set = available.get(consumption.counter_set, {})
        for name, counter in consumption.counters.items():
            if name in of_set:
                of_set[name] -= _nanos(counter)


class _Search:
    """The search on one node."""

    def __init__(
        self,
        allocator: Allocator,
        node_pools: NodePools,
        claims: Sequence[ResourceClaim],
        expired: Callable[[], bool],
    ) -> None:
        self._allocator: Final = allocator
        self._state: Final = allocator.state
        self._node_pools: Final = node_pools
        self._claims: Final = claims
        #: By claim: the alternatives of its requests.
        self._requests: Final[list[list[Sequence[Request]]]] = [[] for _ in claims]
        self._expired: Final = expired
        self._constraints: Final[list[list[Constraint]]] = []
        #: By request with mode All: the positions of the devices.
        self._all_devices: Final[dict[Request, list[int]]] = {}
        self._chosen: Final[list[list[ChosenDevice]]] = [[] for _ in claims]
        #: By claim and request: the chosen alternative.
        self._alternatives: Final[dict[tuple[int, int], Request]] = {}
        #: The claims that a device is being allocated for.
        self._allocating: Final[dict[DeviceId, set[int]]] = {}
        self._allocating_capacity: Final[dict[DeviceId, dict[str, int]]] = {}
        self._consumed_counters: Final[dict[object, CounterSets]] = {}
        self._groups: Final = CompatibilityGroups(allocator.state)
        self._steps: Final[list[_Step]] = []
        #: What the step that has ended last returned; None if another one has begun.
        self._are_too_many: bool | None = None

    def run(self, pauses: Callable[[], bool]) -> bool:
        """Return True if all claims can be allocated; raises `SearchPausedError` between steps."""
        if not self._steps:
            for number, claim in enumerate(self._claims):
                self._prepare(number, claim)
            self._steps.append(self._request(0, 0))
        steps = self._steps
        while steps:
            if pauses():
                raise SearchPausedError
            are_too_many, self._are_too_many = self._are_too_many, None
            try:
                step = steps[-1]
                following = next(step) if are_too_many is None else step.send(are_too_many)
            except StopIteration as end:
                steps.pop()
                self._are_too_many = end.value
            else:
                if following is None:
                    return True
                steps.append(following)
        if self._are_too_many:
            raise AllocationError("allocation max size exceeded")
        return False

    @property
    def allocations(self) -> list[ClaimAllocation]:
        return [
            ClaimAllocation(
                claim,
                tuple(self._chosen[number]),
                [self._alternatives[number, index] for index in range(len(self._requests[number]))],
            )
            for number, claim in enumerate(self._claims)
        ]

    def _prepare(self, number: int, claim: ResourceClaim) -> None:
        """Find the devices of requests for all devices, and the constraints of a claim."""
        least, rules = 0, self._allocator.rules
        for index in range(len(claim.spec.devices.requests)):
            alternatives: list[Request] = []
            for request in self._allocator.alternatives(claim, index):
                alternatives.append(request)
                if request.wants_all:
                    selecting = rules.selects_as(alternatives, request)
                    self._all_devices[request] = self._devices_for_all(request, selecting)
            self._requests[number].append(alternatives)
            added = min(map(self._count, alternatives))
            if rules.limits_requests and least + added > ALLOCATION_RESULTS_MAX:
                raise AllocationError(
                    f"claim {claim.key}, request {alternatives[0].base_name}: adding {added} "
                    f"devices exceeds the claim limit of {ALLOCATION_RESULTS_MAX}, with {least} "
                    "already accounted for"
                )
            least += added
        if least > ALLOCATION_RESULTS_MAX:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {least} exceeds the claim limit "
                f"of {ALLOCATION_RESULTS_MAX}"
            )
        self._constraints.append(self._constraints_of(claim))

    def _constraints_of(self, claim: ResourceClaim) -> list[Constraint]:
        constraints: list[Constraint] = []
        rules, lookup = self._allocator.rules, self._allocator.lookup
        for index, rule in enumerate(claim.spec.devices.constraints):
            if (name := rule.match_attribute) is not None:
                constraints.append(Constraint(rule.requests, name, lookup, rules.match()))
            elif (name := rule.distinct_attribute) is not None and not self._allocator.is_stable:
                constraints.append(Constraint(rule.requests, name, lookup, rules.distinct()))
            else:
                raise AllocationError(
                    f"claim {claim.key}, constraint #{index}: empty constraint (unsupported "
                    "constraint type?)"
                )
        return constraints

    def _count(self, request: Request) -> int:
        """Return the number of devices that a request needs."""
        return len(self._all_devices[request]) if request.wants_all else request.spec.count

    def _devices_for_all(self, request: Request, selecting: Request) -> list[int]:
        """Return the positions of the devices that a request's selectors match, for all of them."""
        where = f"claim {request.claim.key}, request {request.name}: asks for all devices"
        counts_full = self._allocator.rules.counts_full_devices
        # Pools are checked one by one, before the devices of the next.
        positions: list[int] = []
        start = 0
        for pool in self._node_pools.pools:
            if pool.is_incomplete:
                text = f"but resource pool {pool.id} is currently being updated"
                raise AllocationError(f"{where}, {text}")
            if pool.invalid_reason:
                raise AllocationError(f"{where}, but resource pool {pool.id} is currently invalid")
            positions += [
                position
                for position, device in enumerate(pool.devices, start)
                if self._is_selectable(selecting, position)
                and self._has_capacity(request, device, as_if_free=counts_full)
            ]
            start += len(pool.devices)
        return positions

    def _request(self, claim: int, index: int) -> _Step:
        """Allocate a request of a claim, and all that follow it."""
        self._check_time()
        if claim >= len(self._claims):
            yield None
        elif index >= len(self._requests[claim]):
            yield self._request(claim + 1, 0)
            # Even if that were too many: with fewer devices for an earlier claim it may fit.
        else:
            alternatives = self._requests[claim][index]
            were_all_too_many = True
            for request in alternatives:
                self._alternatives[claim, index] = request
                were_all_too_many &= yield self._devices(claim, index, request, 0, 0)
            return were_all_too_many
        return False

    def _devices(self, claim: int, index: int, request: Request, number: int, start: int) -> _Step:
        """Allocate a request from its device `number` on, from the position `start` on."""
        self._check_time()
        count = self._count(request)
        if request.wants_all and not count:
            return False
        if number >= count:
            return (yield self._request(claim, index + 1))
        if len(self._chosen[claim]) + count - number > ALLOCATION_RESULTS_MAX:
            return True
        rules, next_request = self._allocator.rules, request
        if request.wants_all:
            positions: Iterable[int] = (self._all_devices[request][number],)
            next_request = rules.goes_on_as(self._requests[claim][index], request)
        else:
            positions = self._free_devices(claim, request, start)
        for position in positions:
            undo = self._allocate(claim, request, number, position)
            if undo is not None:
                following = 0 if rules.starts_over or request.wants_all else position + 1
                are_too_many = yield self._devices(
                    claim, index, next_request, number + 1, following
                )
                undo()
                if are_too_many:
                    return True
        return False

    def _free_devices(self, claim: int, request: Request, start: int) -> Iterator[int]:
        """Yield the positions of the devices that a request may have, as long as it has none.

        Raises `AllocationError` at an invalid pool with devices, as only 1.34 has.
        """
        devices = self._node_pools.devices
        for position in range(start, len(devices)):
            pool, device = devices[position]
            if pool.invalid_reason:
                raise AllocationError(f"pool {pool.id.pool} is invalid: {pool.invalid_reason}")
            if request.has_admin_access:
                if claim in self._allocating.get(device.id, ()):
                    continue
            elif self._is_in_use(device.id):
                continue
            if self._is_selectable(request, position) and self._has_capacity(request, device):
                yield position

    def _check_time(self) -> None:
        if self._expired():
            raise AllocationTimeoutError

    def _is_selectable(self, request: Request, position: int) -> bool:
        device, allocator = self._node_pools.devices[position][1], self._allocator
        if device.device.binding_conditions and not allocator.attaches_devices:
            return False
        return request.selects(device, allocator.verdicts) and device_matches(
            self._node_pools.node, device
        )

    def _has_capacity(
        self, request: Request, device: PoolDevice, *, as_if_free: bool = False
    ) -> bool:
        """Return True if a device has the capacity of a request left, or would if it were free."""
        if not self._allocator.shares_capacity:
            return True
        name = device.device.name
        taken: tuple[Mapping[str, int], ...] = ()
        if not as_if_free:
            name = str(device.id)
            taken = (self._state.capacity(device.id), self._allocating_capacity.get(device.id, {}))
        rules = self._allocator.rules
        try:
            return capacity.fits(
                request.spec.capacity, device.device.capacity, *taken, rules=rules.capacity
            )
        except CapacityError as error:
            raise AllocationError(
                f"claim {request.claim.key}, request {request.name}: checking capacity for device "
                f"{name}: {error}"
            ) from error

    def _is_in_use(self, device_id: DeviceId) -> bool:
        return self._state.has_device(device_id) or bool(self._allocating.get(device_id))

    def _allocate(
        self, claim: int, request: Request, number: int, position: int
    ) -> Callable[[], None] | None:
        """Take a device that the selectors match; return how to give it back, None if impossible.

        The caller has checked the capacity, unless the request is for all devices.
        Raises `AllocationError` if a constraint refuses a device that such a request must have.
        """
        rules, must = self._allocator.rules, request.wants_all
        pool, device = self._node_pools.devices[position]
        is_shared = bool(device.device.allow_multiple_allocations)
        if request.has_admin_access:
            if not is_shared and claim in self._allocating.get(device.id, ()):
                return None
        elif self._is_in_use(device.id):
            return None
        if not rules.supports(self._node_pools.node, device.slice):
            return None
        if device.device.consumes_counters and not self._allocator.has_counters:
            return None
        leave_counters = self._join_counters(pool, device, is_shared=is_shared)
        if leave_counters is None:
            return None
        is_tolerated = all(
            request.tolerates(taint) for taint in filter(rules.keeps_away, device.device.taints)
        )
        leave_constraints = self._join_constraints(claim, request, device) if is_tolerated else None
        if leave_constraints is None:
            if rules.rolls_back:
                leave_counters()
            if is_tolerated and must:
                raise AllocationError(
                    f"claim {request.claim.key}, request {request.name}: cannot add device "
                    f"{device.id} because a claim constraint would not be satisfied"
                )
            return None
        compared = rules.compared(device, number)
        if (must or compared is not device) and not self._has_capacity(request, compared):
            if rules.rolls_back:
                leave_constraints()
                leave_counters()
            elif not is_shared:
                self._allocating.setdefault(device.id, set()).add(claim)
            return None
        undo_choice = self._choose(claim, request, position, device, is_shared=is_shared)

        def undo() -> None:
            undo_choice()
            leave_constraints()
            if rules.rolls_back or not is_shared:
                leave_counters()

        return undo

    def _join_constraints(
        self, claim: int, request: Request, device: PoolDevice
    ) -> Callable[[], None] | None:
        """Add a device to the constraints of a claim; return the undoing, None if one refuses."""
        constraints = self._constraints[claim]
        refusing = next(
            (at for at, each in enumerate(constraints) if not each.add(request, device)), None
        )

        def undo() -> None:
            for constraint in reversed(constraints[:refusing]):
                constraint.remove(request)

        if refusing is None:
            return undo
        undo()
        return None

    def _join_counters(
        self, pool: Pool, device: PoolDevice, *, is_shared: bool
    ) -> Callable[[], None] | None:
        """Take the counters of a device unless a share of it has them; return how to undo it.

        None if there are too few, or if other devices on the counters do not go with it.
        """
        rules = self._allocator.rules
        if not device.device.consumes_counters or (
            is_shared and rules.has_shares(self._state, device.id, self._allocating_capacity)
        ):
            return _nothing
        leave_groups = self._groups.add(pool, device) if rules.checks_groups else _nothing
        if leave_groups is None:
            return None
        if not self._take_counters(pool, device):
            leave_groups()
            return None

        def undo() -> None:
            self._count_counters(pool, device, sign=-1)
            leave_groups()

        return undo

    def _choose(
        self, claim: int, request: Request, position: int, device: PoolDevice, *, is_shared: bool
    ) -> Callable[[], None]:
        """Record a device as allocated; return how to undo it."""
        chosen, device_id = self._chosen[claim], device.id
        if not is_shared:
            claims = self._allocating.setdefault(device_id, set())
            claims.add(claim)
            chosen.append(ChosenDevice(request, position, None))

            def undo() -> None:
                chosen.pop()
                claims.discard(claim)

            return undo
        rules = self._allocator.rules
        consumed = capacity.consumed(request.spec.capacity, device.device.capacity, rules.capacity)
        before = self._allocating_capacity.get(device_id)
        total = dict(before or {})
        for name, amount in consumed.items():
            total[name] = total.get(name, 0) + amount.nanos
        self._allocating_capacity[device_id] = total
        chosen.append(ChosenDevice(request, position, consumed))

        def undo_share() -> None:
            chosen.pop()
            if before is not None:
                self._allocating_capacity[device_id] = before
            elif consumed or rules.rolls_back:
                del self._allocating_capacity[device_id]

        return undo_share

    def _take_counters(self, pool: Pool, device: PoolDevice) -> bool:
        """Consume the counters of a device; False, and nothing consumed, if there are too few."""
        available = self._allocator.counters(pool, device)
        self._count_counters(pool, device, sign=1)
        consumed = self._consumed_counters[self._allocator.rules.counters_key(pool, device)]
        for name, counters in available.items():
            of_set = consumed.get(name, {})
            if any(left < of_set.get(key, 0) for key, left in counters.items()):
                self._count_counters(pool, device, sign=-1)
                return False
        return True

    def _count_counters(self, pool: Pool, device: PoolDevice, *, sign: int) -> None:
        key = self._allocator.rules.counters_key(pool, device)
        consumed = self._consumed_counters.setdefault(key, {})
        for consumption in device.device.consumes_counters:
            of_set = consumed.setdefault(consumption.counter_set, {})
            for name, counter in consumption.counters.items():
                of_set[name] = of_set.get(name, 0) + sign * _nanos(counter)
