"""The traits of pods, nodes and pod groups in a history, and the objects made from them."""

from typing import Any

from msgspec.structs import replace

from scheduler.api.core import (
    ObjectMeta,
    Pod,
    PodResourceClaim,
    PodSchedulingGroup,
    ResourceRequirements,
    Taint,
)
from scheduler.api.pod_groups import (
    DISRUPTION_MODE_POD_GROUP,
    BasicSchedulingPolicy,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from scheduler.testing import make_pod

from .api_store import LINGERS
from .device_traits import EXTENDED
from .line import Doorkeeper

ZONE, DEDICATED, APP, HOSTNAME = (
    "topology.kubernetes.io/zone",
    "dedicated",
    "app",
    "kubernetes.io/hostname",
)
#: As the API writes it.
TOLERATIONS = [{"key": DEDICATED, "operator": "Exists"}]


def affinity_of(app: str, *, apart: bool, near: str) -> dict[str, object]:
    """Return anti-affinity to pods of `app` if `apart`, and affinity to pods of `near`."""
    apps = {"podAntiAffinity": app if apart else "", "podAffinity": near}
    return {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {APP: other}}}
            ]
        }
        for kind, other in apps.items()
        if other
    }


def spread_of(app: str) -> dict[str, object]:
    """Return a constraint that spreads the pods of an app over zones."""
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {APP: app}},
    }


def pod_of(
    name: str,
    *,
    cpu: str = "0",
    priority: int = 0,
    app: str = "",
    node: str = "",
    zone: str = "",
    host_port: int = 0,
    apart: bool = False,
    near: str = "",
    spread: bool = False,
    gated: bool = False,
    tolerates: bool = False,
    never_preempts: bool = False,
    foreign: bool = False,
    waits: bool = False,
    lingers: bool = False,
    grace_seconds: int = 30,
    group: str = "",
    claim: str = "",
    template: str = "",
    gpus: int = 0,
) -> Pod:
    """A pod of some traits. `apart` and `spread` are about its own `app`, `near` names one.

    `claim` is its resource claim, `template` that of another one.
    """
    marks = {APP: app, Doorkeeper.LABEL: "yes" if waits else "", LINGERS: "yes" if lingers else ""}
    labels = {key: value for key, value in marks.items() if value}
    pod = make_pod(
        name,
        requests={"cpu": cpu, **({EXTENDED: str(gpus)} if gpus else {})},
        priority=priority,
        labels=labels,
        node_name=node,
        node_selector={ZONE: zone} if zone else {},
        host_ports=[host_port] if host_port else [],
        affinity=affinity_of(app, apart=apart, near=near) or None,
        spread=[spread_of(app)] if spread else [],
        scheduling_gates=["gate"] if gated else [],
        tolerations=TOLERATIONS if tolerates else [],
        preemption_policy="Never" if never_preempts else None,
        scheduler_name="another" if foreign else "default-scheduler",
    )
    claims = [PodResourceClaim("own", resource_claim_name=claim)] if claim else []
    if template:
        claims.append(PodResourceClaim("made", resource_claim_template_name=template))
    spec = replace(
        pod.spec,
        resource_claims=tuple(claims),
        termination_grace_period_seconds=grace_seconds,
        scheduling_group=PodSchedulingGroup(pod_group_name=group) if group else None,
    )
    return replace(pod, spec=spec)


def pod_group_of(
    name: str,
    *,
    min_count: int = 0,
    one_zone: bool = False,
    priority: int = 0,
    disrupted_as_a_whole: bool = False,
) -> PodGroup:
    """A gang, or without `min_count` a basic group."""
    policy = PodGroupSchedulingPolicy(
        basic=None if min_count else BasicSchedulingPolicy(),
        gang=GangSchedulingPolicy(min_count=min_count) if min_count else None,
    )
    constraints = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=ZONE),))
    spec = PodGroupSpec(
        scheduling_policy=policy,
        scheduling_constraints=constraints if one_zone else None,
        disruption_mode=DISRUPTION_MODE_POD_GROUP if disrupted_as_a_whole else "Pod",
        priority=priority,
    )
    return PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


def node_traits(
    *,
    cpu: str = "4",
    pods: int = 10,
    zone: str = "",
    dedicated: bool = False,
    unschedulable: bool = False,
) -> dict[str, Any]:
    """Return the arguments of `make_node`."""
    return {
        "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": str(pods)},
        "zone": zone,
        "taints": [Taint(key=DEDICATED, effect="NoSchedule")] if dedicated else [],
        "unschedulable": unschedulable,
    }


def with_cpu(pod: Pod, cpu: str) -> Pod:
    """The pod, asking for so much."""
    containers = tuple(
        replace(c, resources=ResourceRequirements(requests={"cpu": cpu}))
        for c in pod.spec.containers
    )
    return replace(pod, spec=replace(pod.spec, containers=containers))
