"""Allocations as the status of a claim holds them.

Source: `Allocator.Allocate` and `createNodeSelector` in
`k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from scheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.api.dynamic_resources import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from scheduler.api.node_selectors import METADATA_NAME
from scheduler.api.quantity import quantity_text
from scheduler.devices.requests import AllocationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.devices.pools import NodePools, PoolDevice
    from scheduler.devices.requests import ChosenDevice, ClaimAllocation, Request


def allocation_result(
    allocation: ClaimAllocation,
    node_pools: NodePools,
    rules: ResultRules,
    new_share_id: Callable[[], str],
) -> AllocationResult:
    """Return the status of a claim with these devices; raises `AllocationError`."""
    devices = [node_pools.devices[chosen.position][1] for chosen in allocation.devices]
    results = tuple(
        _result(chosen, device, rules, new_share_id)
        for chosen, device in zip(allocation.devices, devices, strict=True)
    )
    return AllocationResult(
        DeviceAllocationResult(results, tuple(rules.configuration(allocation))),
        node_selector(allocation, node_pools),
    )


def _result(
    chosen: ChosenDevice, device: PoolDevice, rules: ResultRules, new_share_id: Callable[[], str]
) -> DeviceRequestAllocationResult:
    request, consumed = chosen.request, chosen.consumed
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=request.has_admin_access or None,
        tolerations=request.spec.tolerations if rules.repeats_tolerations else (),
        binding_conditions=device.device.binding_conditions,
        binding_failure_conditions=device.device.binding_failure_conditions,
        share_id=new_share_id() if consumed is not None else None,
        consumed_capacity=(
            {name: quantity_text(amount.nanos, amount.text) for name, amount in consumed.items()}
            if consumed
            else None
        ),
        skip_node_operations=device.slice.spec.skip_node_operations,
    )


def configuration_by_request(allocation: ClaimAllocation) -> list[DeviceAllocationConfiguration]:
    """Return the configuration of the classes, each once, then the claim's own (v1.36).

    As upstream, configuration of the claim is repeated for each request that it names.
    """
    names_of_class: dict[str, list[Request]] = {}
    for request in allocation.requests:
        names_of_class.setdefault(request.device_class.metadata.name, []).append(request)
    configs = [
        DeviceAllocationConfiguration(
            "FromClass", tuple(request.full_name for request in requests), config.opaque
        )
        for requests in names_of_class.values()
        for config in requests[0].device_class.spec.config
    ]
    for config in allocation.claim.spec.devices.config:
        own = DeviceAllocationConfiguration("FromClaim", config.requests, config.opaque)
        if not config.requests:
            configs.append(own)
            continue
        named = set(config.requests)
        configs += [own for r in allocation.requests if named & {r.base_name, r.full_name}]
    return configs


def configuration_once(allocation: ClaimAllocation) -> list[DeviceAllocationConfiguration]:
    """Return all configuration once, without requests where it is for all of them (v1.37)."""
    requests, repeated = allocation.requests, configuration_by_request(allocation)
    # Repetitions are one object.
    return [
        replace(config, requests=())
        if all({r.base_name, r.full_name} & {*config.requests} for r in requests)
        else config
        for config in {id(config): config for config in repeated}.values()
    ]


class ResultRules(NamedTuple):
    """The rules of a version for the allocation of a claim; the defaults are of 1.36."""

    configuration: Callable[[ClaimAllocation], Sequence[DeviceAllocationConfiguration]] = (
        configuration_by_request
    )
    #: True if the tolerations of requests are repeated.
    repeats_tolerations: bool = True


def node_selector(allocation: ClaimAllocation, node_pools: NodePools) -> NodeSelector | None:
    """Return the nodes that can reach all the devices; None for all nodes.

    Raises `AllocationError` if a slice has several terms, which API servers refuse.
    """
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    node_name = node_pools.node.metadata.name
    for chosen in allocation.devices:
        device = node_pools.devices[chosen.position][1]
        spec = device.slice.spec
        source = device.device if spec.per_device_node_selection else spec
        if source.node_name is not None or device.device.binds_to_node:
            on_node = NodeSelectorRequirement(METADATA_NAME, "In", (node_name,))
            return NodeSelector((NodeSelectorTerm(match_fields=(on_node,)),))
        terms = source.node_selector.node_selector_terms if source.node_selector else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {allocation.claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(
    requirements: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]
) -> None:
    for requirement in more:
        known = any(
            (each.key, each.operator, set(each.values))
            == (requirement.key, requirement.operator, set(requirement.values))
            for each in requirements
        )
        if not known:
            requirements.append(requirement)
