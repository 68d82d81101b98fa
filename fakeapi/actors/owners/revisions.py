"""The history of an owner's pod template, as ControllerRevisions.

Source: pkg/controller/history of Kubernetes v1.36.3. The hash in their names is not upstream's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.actors.objects import Object, owner_reference
from fakeapi.actors.owners.pods import Owner, template_hash
from fakeapi.actors.resources import CONTROLLER_REVISIONS
from fakeapi.types.objects import Json, in_key_order, integer, mapping, string_map

if TYPE_CHECKING:
    from fakeapi.actors.controller import Context

REVISION_LABEL: Final = "controller-revision-hash"


class RevisedOwner(Owner):
    """An owner whose pods have a label with the revision of their template."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._revisions = self.informer(CONTROLLER_REVISIONS)

    def revisions_of(self, owner: Object) -> list[Object]:
        """Return the owner's revisions, the oldest first."""
        mine = [
            one
            for one in self._revisions.of_namespace(owner.namespace)
            if one.owner.get("uid") == owner.uid
        ]
        return sorted(mine, key=_number)

    async def sync_revisions(self, owner: Object) -> tuple[Object, list[Object]]:
        """Return the revision of the current template, created if need be, and all revisions."""
        template = owner.template
        data: Json = {"spec": {"template": in_key_order({**template, "$patch": "replace"})}}
        revisions = self.revisions_of(owner)
        newest = max(map(_number, revisions), default=0)
        for one in revisions:
            if one.get("data") == data:
                if _number(one) < newest:
                    moved = await self.patch(CONTROLLER_REVISIONS, one, {"revision": newest + 1})
                    rest = [other for other in revisions if other is not one]
                    return moved, [*rest, moved]
                return one, revisions
        number = template_hash(template)
        labels = {**string_map(template.metadata.get("labels")), REVISION_LABEL: number}
        made = await self.create(
            CONTROLLER_REVISIONS,
            {
                "metadata": {
                    "name": f"{owner.name}-{number}",
                    "namespace": owner.namespace,
                    "labels": labels,
                    "ownerReferences": [owner_reference(self.resource, owner)],
                },
                "data": data,
                "revision": newest + 1,
            },
        )
        return made, [*revisions, made]

    async def truncate_history(
        self, owner: Object, revisions: list[Object], used: set[str]
    ) -> None:
        """Delete the oldest unused revisions beyond revisionHistoryLimit."""
        limit = owner.spec.get("revisionHistoryLimit")
        idle = [one for one in revisions if one.name not in used]
        for one in idle[: max(len(idle) - (limit if isinstance(limit, int) else 10), 0)]:
            await self.delete(CONTROLLER_REVISIONS, one)


def template_of(revision: Object) -> Object:
    """Return the template of a revision."""
    template = mapping(mapping(mapping(revision.get("data")).get("spec")).get("template"))
    return Object({name: value for name, value in template.items() if name != "$patch"})


def _number(revision: Object) -> int:
    return integer(revision.get("revision"))
