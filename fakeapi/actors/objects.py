"""Objects of the API as actors read them: JSON, with names for the fields.

Source of the facts about pods: pkg/controller/controller_utils.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.objects import Json, integer, mapping, mappings, text, texts

if TYPE_CHECKING:
    from fakeapi.actors.resources import Resource


class Object(dict[str, object]):
    """An object as JSON, or a template of one; nothing in it may be modified."""

    __slots__ = ()

    @property
    def metadata(self) -> Json:
        return mapping(self.get("metadata"))

    @property
    def spec(self) -> Json:
        return mapping(self.get("spec"))

    @property
    def status(self) -> Json:
        return mapping(self.get("status"))

    @property
    def name(self) -> str:
        return text(self.metadata.get("name"))

    @property
    def namespace(self) -> str:
        return text(self.metadata.get("namespace"))

    @property
    def key(self) -> str:
        """Return `namespace/name`, or the name of an object without namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def uid(self) -> str:
        return text(self.metadata.get("uid"))

    @property
    def version(self) -> int:
        """Return the resourceVersion as a number, 0 if there is none."""
        value = text(self.metadata.get("resourceVersion"))
        return int(value) if value.isdecimal() else 0

    @property
    def generation(self) -> object:
        return self.metadata.get("generation")

    @property
    def created_at(self) -> str:
        return text(self.metadata.get("creationTimestamp"))

    @property
    def labels(self) -> Json:
        return mapping(self.metadata.get("labels"))

    @property
    def finalizers(self) -> list[str]:
        return texts(self.metadata.get("finalizers"))

    @property
    def is_deleting(self) -> bool:
        return self.metadata.get("deletionTimestamp") is not None

    @property
    def owners(self) -> list[Json]:
        """Return the owner references."""
        return mappings(self.metadata.get("ownerReferences"))

    @property
    def owner(self) -> Json:
        """Return the owner reference with `controller: true`, or {}."""
        return next((one for one in self.owners if one.get("controller")), {})

    def changed(self, **fields: object) -> Object:
        """Return a copy with other values of some fields."""
        return Object({**self, **fields})

    @property
    def template(self) -> Object:
        """Return the template of the pods that this object owns."""
        return Object(mapping(self.spec.get("template")))

    @property
    def replicas(self) -> int:
        """Return the number of pods that this object demands."""
        return integer(self.spec.get("replicas"))

    def annotation(self, name: str) -> str:
        """Return an annotation, "" if there is none of this name."""
        return text(mapping(self.metadata.get("annotations")).get(name))

    def condition(self, kind: str) -> Json:
        """Return the condition of this type, or {}."""
        conditions = mappings(self.status.get("conditions"))
        return next((one for one in conditions if one.get("type") == kind), {})

    def is_true(self, kind: str) -> bool:
        """True if there is a condition of this type with status "True"."""
        return self.condition(kind).get("status") == "True"

    @property
    def is_ready(self) -> bool:
        """True if the pod or node is ready."""
        return self.is_true("Ready")

    @property
    def node(self) -> str:
        """Return the name of the node that the pod is bound to, "" if it is not bound."""
        return text(self.spec.get("nodeName"))

    @property
    def phase(self) -> str:
        """Return the phase of a pod, claim or volume."""
        return text(self.status.get("phase"))

    @property
    def has_ended(self) -> bool:
        """True if the pod's phase is Succeeded or Failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        """True if the pod has not ended and is not being deleted."""
        return not self.has_ended and not self.is_deleting

    @property
    def is_terminating(self) -> bool:
        """True if the pod is being deleted and has not ended."""
        return self.is_deleting and not self.has_ended


#: Stands for an object that does not exist.
NOTHING: Final = Object()


def owner_reference(resource: Resource, owner: Object) -> Json:
    """Return a reference to `owner` as controller."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition(kind: str, status: str, reason: str, message: str, **more: object) -> Json:
    """Return a condition; `more` are other fields of it."""
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


def with_condition(conditions: object, condition: Json, now: str) -> list[Json]:
    """Return the conditions with this one set; a new status sets lastTransitionTime to `now`."""
    kept = mappings(conditions)
    for index, present in enumerate(kept):
        if present.get("type") == condition["type"]:
            same = present.get("status") == condition["status"]
            since = text(present.get("lastTransitionTime")) if same else now
            kept[index] = {**condition, "lastTransitionTime": since or now}
            return kept
    return [*kept, {**condition, "lastTransitionTime": now}]
