"""The finalizer that keeps a PodGroup while pods that have not ended refer to it.

The admission plugin PodGroupProtection adds it; this controller removes it.

Source: pkg/controller/scheduling/podgroupprotection of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.controller import Context, Controller
from fakeapi.actors.objects import NOTHING, Object
from fakeapi.actors.resources import POD_GROUPS, PODS
from fakeapi.types.objects import Json, mapping, text

if TYPE_CHECKING:
    from fakeapi.actors.informer import Informer

_FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(Controller):
    """Removes the finalizer of deleted PodGroups without active pods."""

    name = "podgroup-protection-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._groups: Final[Informer] = self.follow(POD_GROUPS)
        self._pods: Final[Informer] = self.informer(PODS, self._pod_changed)

    async def sync(self, key: str) -> None:
        """Remove the finalizer of one PodGroup if it may go."""
        group = self._groups.objects.get(key)
        if group is None or not group.is_deleting or _FINALIZER not in group.finalizers:
            return
        pods = self._pods.of_namespace(group.namespace)
        if any(_group_of(pod) == group.name and not pod.has_ended for pod in pods):
            return
        left = [one for one in group.finalizers if one != _FINALIZER]
        patch: Json = {"metadata": {"finalizers": left}}
        await self.patch(POD_GROUPS, group, patch, if_unchanged=True)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old or NOTHING
        if (new is None or new.has_ended) and (group := _group_of(pod)):
            self.queue.add(f"{pod.namespace}/{group}")


def _group_of(pod: Object) -> str:
    return text(mapping(pod.spec.get("schedulingGroup")).get("podGroupName"))
