"""DynamicResources in a cluster without devices: `dynamicresources/*.go`."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.api.core import Node, Pod
from scheduler.api.dynamic_resources import DeviceClass, ResourceClaim
from tests.reference.cluster import UNRESOLVABLE, Verdict
from tests.reference.pod_requests import is_extended, offered, wanted

PREFIX = "deviceclass.resource.kubernetes.io/"


def pre_enqueue(pod: Pod, claims: Sequence[ResourceClaim]) -> Verdict | None:
    answer = claims_of(pod, claims)
    return (UNRESOLVABLE, (answer,)) if isinstance(answer, str) else None


def claims_of(pod: Pod, claims: Sequence[ResourceClaim]) -> list[ResourceClaim] | str:
    """Return the pod's claims, or the reason why they are missing."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    found = []
    for entry in pod.spec.resource_claims:
        wanted_name, is_own = entry.resource_claim_name, False
        if wanted_name is None and entry.resource_claim_template_name is not None:
            entries = [s for s in pod.status.resource_claim_statuses if s.name == entry.name]
            if not entries:
                return f'pod "{namespace}/{name}": ResourceClaim not created yet'
            wanted_name, is_own = entries[0].resource_claim_name, True
            if wanted_name is None:
                continue
        elif wanted_name is None:
            where = f'pod "{namespace}/{name}", spec.resourceClaim "{entry.name}"'
            return f"{where}: none of the supported fields are set"
        key = (namespace, wanted_name)
        matching = [c for c in claims if (c.metadata.namespace, c.metadata.name) == key]
        if not matching:
            return f'could not find ResourceClaim "{namespace}/{wanted_name}"'
        claim = matching[0]
        if claim.metadata.deletion_timestamp is not None:
            return f'resourceclaim "{wanted_name}" is being deleted'
        controllers = [o for o in claim.metadata.owner_references if o.controller]
        if is_own and (not controllers or controllers[0].uid != pod.metadata.uid):
            return (
                f"ResourceClaim {namespace}/{wanted_name} was not created for "
                f"Pod {namespace}/{name} (Pod is not owner)"
            )
        found.append(claim)
    return found


def filter_node(
    pod: Pod, node: Node, claims: Sequence[ResourceClaim], classes: Sequence[DeviceClass]
) -> Verdict | None:
    """PreFilter and Filter."""
    answer = claims_of(pod, claims)
    if isinstance(answer, str):
        return UNRESOLVABLE, (answer,)
    names = [n for n, c in wanted(pod).items() if c and (is_extended(n) or n.startswith(PREFIX))]
    behind = {c.spec.extended_resource_name for c in classes}
    behind |= {PREFIX + c.metadata.name for c in classes}
    if not behind.intersection(names):
        return None
    unknown = [n for n in names if n not in behind and n not in node.status.allocatable]
    if unknown:
        return UNRESOLVABLE, ("cannot fit resource",)
    if any(n in behind and offered(node, n) == 0 for n in names):
        return UNRESOLVABLE, ("cannot allocate all claims",)
    return None
