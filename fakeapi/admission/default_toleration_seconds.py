"""DefaultTolerationSeconds: every pod stays five minutes on a node that went away.

Source: plugin/pkg/admission/defaulttolerationseconds/admission.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.admission.chain import Plugin
from fakeapi.store.registry import Operation, Review
from fakeapi.types.kind import PODS
from fakeapi.types.objects import mapping, sequence

if TYPE_CHECKING:
    from fakeapi.types.kind import ResourceKey

_KEYS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS: Final = 300


class DefaultTolerationSeconds(Plugin):
    """Pods tolerate a node that is not ready, or not reachable, for 300 seconds by default."""

    name = "DefaultTolerationSeconds"

    def handles(self, resource: ResourceKey, subresource: str, operation: Operation) -> bool:
        """New and changed pods."""
        return resource == PODS and not subresource and operation is not Operation.DELETE

    def mutate(self, review: Review) -> None:
        """Add the tolerations that the pod does not have in its own way."""
        spec = mapping(review.object.get("spec"))
        tolerations = sequence(spec.get("tolerations"))
        missing: tuple[str, ...] = _KEYS
        if tolerations:
            missing = tuple(k for k in _KEYS if not any(_tolerates(t, k) for t in tolerations))
        added = [
            {"key": k, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
            for k in missing
        ]
        if added:
            review.object["spec"] = {**spec, "tolerations": [*tolerations, *added]}


def _tolerates(toleration: object, key: str) -> bool:
    if not isinstance(toleration, dict):
        return False
    return toleration.get("key", "") in (key, "") and toleration.get("effect", "") in (
        "NoExecute",
        "",
    )
