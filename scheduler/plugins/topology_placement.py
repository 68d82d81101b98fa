"""TopologyPlacementGenerator: one placement per domain of a pod group's topology constraint.

Members that run already fix the domain.
Mirrors `pkg/scheduler/framework/plugins/topologyaware/topology_placement.go`, v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from scheduler.api.pod_groups import PodGroup
from scheduler.framework.interface import Plugin
from scheduler.framework.types import Placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.api.unstructured import Kind
    from scheduler.framework.cycle_state import CycleState
    from scheduler.framework.status import Status
    from scheduler.framework.types import PodGroupInfo
    from scheduler.snapshot.pod_info import PodInfo


class TopologyPlacementGenerator(Plugin):
    """Generate the placements of a pod group."""

    reads: ClassVar[tuple[Kind, ...]] = (PodGroup,)

    def generate_placements(
        self, state: CycleState, pod_group: PodGroupInfo, parent: Placement
    ) -> Sequence[Placement] | Status:
        """Split the parent's nodes by the label of the constraint, in the order of its values."""
        stored = self.handle.lister(PodGroup).get(pod_group.name, pod_group.namespace)
        if stored is None:
            raise LookupError(f'podgroup.scheduling.k8s.io "{pod_group.name}" not found')
        constraints = stored.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return [parent]
        # The API allows one constraint.
        key = constraints.topology[0].key
        members = self.handle.snapshot.pod_groups.get(pod_group.key)
        if members is None:
            raise LookupError(f"pod group state not found for pod group {pod_group.key}")
        required = self._domain_of(key, members.scheduled_pods)
        labels = parent.nodes.labels(key)
        placements = []
        in_order = np.argsort(labels.codes, kind="stable")
        ends = np.searchsorted(labels.codes[in_order], np.arange(-1, len(labels.values)), "right")
        for code, domain in enumerate(labels.values):
            positions = in_order[ends[code] : ends[code + 1]]
            if len(positions) and domain is not None and required in (None, domain):
                placements.append(Placement(domain, parent.nodes.take(positions)))
        return sorted(placements, key=lambda placement: placement.name)

    def _domain_of(self, key: str, scheduled: Sequence[PodInfo]) -> str | None:
        """Return the domain of the members that run already; None if none runs."""
        domain = ""
        cannot = "cannot determine domain for already scheduled pods"
        for pod in sorted(scheduled, key=lambda info: info.name):
            try:
                node = self.handle.snapshot.get(pod.spec.node_name)
            except KeyError as missing:
                raise LookupError(f"{cannot}: getting node for pod {pod.key}: {missing}") from None
            of_pod = node.labels.get(key)
            if of_pod is None:
                raise LookupError(f"{cannot}: no topology domain found for pod {pod.key}")
            if domain not in ("", of_pod):
                raise LookupError(
                    f"{cannot}: more than 1 domain found for pod group: {domain}, {of_pod}"
                )
            domain = of_pod
        return domain if scheduled else None
