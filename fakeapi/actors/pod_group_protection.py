"""The finalizer that keeps a PodGroup while pods that have not ended refer to it.

The admission plugin PodGroupProtection adds it; this controller removes it.

Source: pkg/controller/scheduling/podgroupprotection of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import has_ended, spec_of
from fakeapi.actors.resources import POD_GROUPS, PODS
from fakeapi.types.objects import (
    Json,
    finalizers_of,
    is_deleting,
    mapping,
    name_of,
    namespace_of,
    text,
)

if TYPE_CHECKING:
    from fakeapi.actors.informer import Informer

_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(Controller):
    """Removes the finalizer of deleted PodGroups without active pods."""

    name = "podgroup-protection-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._groups: Final[Informer] = self.follow(POD_GROUPS)
        self._pods: Final[Informer] = self.informer(PODS)
        self._pods.subscribe(self._pod_changed)

    async def sync(self, key: str) -> None:
        """Remove the finalizer of one PodGroup if it may go."""
        group = self._groups.objects.get(key)
        if group is None or not is_deleting(group) or _FINALIZER not in finalizers_of(group):
            return
        pods = self._pods.of_namespace(namespace_of(group))
        if any(_group_of(pod) == name_of(group) and not has_ended(pod) for pod in pods):
            return
        left = [one for one in finalizers_of(group) if one != _FINALIZER]
        patch: Json = {"metadata": {"finalizers": left}}
        await self.patch(POD_GROUPS, group, patch, if_unchanged=True)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new or old or {}
        if (new is None or has_ended(new)) and (group := _group_of(pod)):
            self.queue.add(f"{namespace_of(pod)}/{group}")


def _group_of(pod: Json) -> str:
    return text(mapping(spec_of(pod).get("schedulingGroup")).get("podGroupName"))
