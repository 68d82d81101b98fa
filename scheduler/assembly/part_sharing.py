"""Pods that share what they have in common, for the sake of memory.

Pods come from templates: thousands have the same containers, tolerations and owners, word for word.
Decoding makes each of them anew; an informer's transform then swaps such parts for the first equal
one. What is shared is immutable, so nobody can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

if TYPE_CHECKING:
    from scheduler.api.core import Pod

T = TypeVar("T")

#: Parts remembered; when there are more, all are forgotten (by us, not by the pods).
PARTS_MAX: Final = 16384

_encoder: Final = msgspec.json.Encoder()


class PartSharing:
    """Gives pods their parts from a common stock; call it with each pod that comes in."""

    def __init__(self) -> None:
        #: By the field they stand in, as equal texts mean other things in other fields.
        self._parts: Final[dict[tuple[str, bytes], object]] = {}

    def __call__(self, pod: Pod) -> Pod:
        """The same pod, made of shared parts."""
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        replace, share = msgspec.structs.replace, self._share
        return replace(
            pod,
            metadata=replace(
                metadata,
                labels=share("labels", metadata.labels),
                owner_references=share("owner_references", metadata.owner_references),
            ),
            spec=replace(
                spec,
                containers=share("containers", spec.containers),
                init_containers=share("init_containers", spec.init_containers),
                tolerations=share("tolerations", spec.tolerations),
                volumes=share("volumes", spec.volumes),
                affinity=share("affinity", spec.affinity),
                topology_spread_constraints=share(
                    "topology_spread_constraints", spec.topology_spread_constraints
                ),
                node_selector=share("node_selector", spec.node_selector),
            ),
            status=replace(
                status,
                conditions=share("conditions", status.conditions),
                container_statuses=share("container_statuses", status.container_statuses),
            ),
        )

    def _share(self, field: str, part: T) -> T:
        if not part:
            return part
        key = (field, _encoder.encode(part))
        known = self._parts.get(key)
        if known is None:
            if len(self._parts) >= PARTS_MAX:
                self._parts.clear()
            self._parts[key] = known = part
        return known  # type: ignore[return-value]  # a field has one type
