"""The steps of a write that are the same for every kind.

A write goes through these steps, in upstream's order, and never waits in between:

    decode -> defaults -> admission (changes) -> identity -> strategy -> validation
           -> admission (checks) -> store

Source: apiserver pkg/registry/rest/{create,update}.go and pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi import validation
from fakeapi.access.access import Access
from fakeapi.access.attributes import Attributes
from fakeapi.access.users import bound_node, current_user
from fakeapi.apply import ownership
from fakeapi.decoding.options import WriteOptions, unsigned
from fakeapi.store.registry import Operation, Registry, Review, Target, Written
from fakeapi.store.store import object_key
from fakeapi.types.errors import (
    OPTIMISTIC_LOCK_MESSAGE,
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ObjectTooLarge,
    UnreasonedFailure,
    forbidden,
    invalid,
)
from fakeapi.types.kind import NAMESPACES, NO_UPDATE_RULES
from fakeapi.types.objects import (
    Json,
    child,
    encode,
    finalizers_of,
    is_deleting,
    keep_field,
    labels_of,
    metadata_of,
    name_of,
    text,
)
from fakeapi.writes import strategies
from fakeapi.writes.completion import complete
from fakeapi.writes.escalation import check_escalation

if TYPE_CHECKING:
    from fakeapi.store.store import Revision
    from fakeapi.types.errors import FieldError
    from fakeapi.types.kind import Kind, NeededPermission

#: Attempts to generate a name that is free.
_NAME_ATTEMPTS: Final = 8
_NAMESPACE_MISMATCH: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
_ENDING: Final = "create not allowed while custom resource definition is terminating"
#: Metadata that only the server sets.
_SYSTEM_FIELDS: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)


def ensure(registry: Registry, kind: Kind, value: Json, *, manager: str) -> None:
    """Store an object unless an object of its name exists. Raises ApiError."""
    namespace, name = text(metadata_of(value).get("namespace")), name_of(value)
    if registry.store.get(kind.storage_key, namespace, name) is None:
        target = Target(kind, namespace, name, WriteOptions(), manager=manager)
        create(registry, target, complete(kind, value))


def create(registry: Registry, target: Target, obj: Json) -> Written:
    """Store a new object; its name is its own or generated, not the target's. Raises ApiError."""
    kind = target.kind
    if kind.is_ending:
        raise Forbidden(kind.plural, kind.group, name_of(obj), _ENDING)
    place(kind, target.namespace, obj)
    metadata = child(obj, "metadata")
    for field in _SYSTEM_FIELDS:
        metadata.pop(field, None)
    now = registry.now()
    ownership.on_create(registry.kinds, target, obj, now, tracks=registry.tracks_fields)
    review = Review(registry, target, Operation.CREATE, obj)
    registry.admission.mutate(review)
    check_escalation(registry, target, obj)
    prefix = "" if metadata.get("name") else text(metadata.get("generateName"))
    for attempt in range(_NAME_ATTEMPTS if prefix else 1):
        if prefix:
            metadata["name"] = registry.ids.name(prefix)
        name = name_of(obj)
        if not prefix or attempt == _NAME_ATTEMPTS - 1 or not _is_taken(registry, target, name):
            break
    metadata["uid"] = registry.ids.uid()
    metadata["creationTimestamp"] = now
    _allocate(registry, kind, obj)
    strategies.prepare_for_create(kind, obj, now)
    errors = _namespace_errors(registry, target, obj) + validation.validate_create(kind, obj)
    _raise_if_invalid(kind, name, errors)
    target.warnings.extend(strategies.warnings(kind, obj))
    if target.verb in ("update", "patch"):
        _authorize_create(registry, target)
    registry.admission.validate(review)
    if _is_version(metadata.get("resourceVersion")) and not target.options.dry_run:
        raise UnreasonedFailure("resourceVersion should not be set on objects to be created")
    if _is_taken(registry, target, name):
        raise AlreadyExists(kind.plural, kind.group, name, generated=bool(prefix))
    metadata.pop("resourceVersion", None)
    if target.options.dry_run:
        return Written(obj, created=True)
    key = object_key(target.namespace, name)
    return Written(*_stored(registry, target, key, obj), created=True)


def _authorize_create(registry: Registry, target: Target) -> None:
    """Raise Forbidden if the user of an update or apply that creates an object may not create."""
    kind, user = target.kind, current_user()
    attributes = Attributes(
        "create", "", kind.group, kind.plural, target.subresource, target.namespace, target.name,
        about_resource=True,
    )  # fmt: skip
    decision = registry.extension(Access).authorizer.decide(user, attributes)
    if not decision.allowed:
        raise attributes.refusal(user, decision.reason)


def _allocate(registry: Registry, kind: Kind, obj: Json, stored: Revision | None = None) -> None:
    """Set values that no other object of the kind has. Raises ApiError."""
    if (allocation := kind.rules.allocation) is not None:
        held = registry.numbers_of(kind, allocation)
        old = stored.object if stored is not None else None
        allocation.allocate(obj, old, held, keeps=registry.keeps_service_addresses)


def _is_version(version: object) -> bool:
    """True if upstream's store reads it as a version; it ignores malformed ones."""
    try:
        return unsigned(text(version)) > 0
    except ValueError:
        return False


def place(kind: Kind, namespace: str, obj: Json) -> None:
    """Put the object into the namespace of the request. Raises BadRequest."""
    metadata = child(obj, "metadata")
    if not kind.namespaced:
        metadata.pop("namespace", None)
    elif metadata.get("namespace", namespace) != namespace:
        raise BadRequest(_NAMESPACE_MISMATCH)
    else:
        metadata["namespace"] = namespace


def _is_taken(registry: Registry, target: Target, name: str) -> bool:
    return registry.store.get(target.kind.storage_key, target.namespace, name) is not None


def _namespace_errors(
    registry: Registry, target: Target, obj: Json, old: Json | None = None
) -> list[FieldError]:
    validate = target.kind.rules.validate_in_namespace
    if validate is None:
        return []
    namespace = registry.store.get(NAMESPACES, "", target.namespace)
    return validate(obj, old, labels_of(namespace.object) if namespace is not None else {})


def _permission_errors(
    registry: Registry, target: Target, needed: NeededPermission
) -> list[FieldError]:
    """Return the error of a client without a permission that the change of an object needs.

    Source: AuthorizedForBinding and AuthorizedForDeviceStatus of pkg/registry/resource/utils.go.
    """
    user, kind = current_user(), target.kind
    prefixes = needed.verb_prefixes
    if needed.node and bound_node(user) == needed.node:
        prefixes = (needed.node_prefix, *prefixes)
    namespace = target.namespace if needed.name else ""
    verbs = [f"{prefix}{target.verb}" for prefix in prefixes]
    refusals = []
    for verb in verbs:
        attributes = Attributes(
            verb, "", kind.group, kind.plural, needed.subresource, namespace, needed.name,
            about_resource=True,
        )  # fmt: skip
        decision = registry.extension(Access).authorizer.decide(user, attributes)
        if decision.allowed:
            return []
        refusals.append(attributes.refusal(user, decision.reason).message)
    shown = f"[{' '.join(verbs)}]" if needed.name else verbs[0]
    why = (
        f'changing {needed.fields} requires resource="{kind.plural}/{needed.subresource}", '
        f'verb="{shown}" permission: {refusals[0]}'
    )
    return [forbidden(needed.path, why)]


def _raise_if_invalid(kind: Kind, name: str, errors: list[FieldError]) -> None:
    if errors:
        group = kind.stored_as[0] if kind.stored_as else kind.group
        raise Invalid(kind.kind, group, name, errors)


def check_name(target: Target, obj: Json) -> None:
    """Raise BadRequest unless the object has the name and namespace of the URL."""
    namespace = text(metadata_of(obj).get("namespace"))
    if target.kind.namespaced and namespace and namespace != target.namespace:
        raise BadRequest(_NAMESPACE_MISMATCH)
    name = name_of(obj)
    if not name:
        raise BadRequest(
            f"the name of the object ({target.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if name != target.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def precondition_conflict(target: Target, field: str, wanted: str, actual: str) -> Conflict:
    """Return the error for a write with another uid or version (`field`) than the object's."""
    kind = target.kind
    prefix = f"/registry/{kind.plural}/{target.key}"
    return Conflict(
        kind.plural,
        kind.group,
        target.name,
        f"StorageError: invalid object, Code: 4, Key: {prefix}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, "
        f"{field} in object meta: {actual}",
    )


def replace(registry: Registry, target: Target, obj: Json) -> Written:
    """Replace an object by a PUT, or create it if its kind allows that. Raises ApiError."""
    kind = target.kind
    check_name(target, obj)
    existing = registry.newest(kind, target.namespace, target.name)
    uid = text(metadata_of(obj).get("uid"))
    creates = kind.create_on_update and target.subresource in ("", "status")
    if existing is None and not creates:
        raise NotFound(kind.plural, kind.group, target.name)
    actual = text(metadata_of(existing.object).get("uid")) if existing else ""
    if uid and uid != actual:
        raise precondition_conflict(target, "UID", uid, actual)
    if existing is None:
        child(obj, "metadata").pop("resourceVersion", None)
        return create(registry, target, obj)
    return update(registry, target, existing, obj)


def update(registry: Registry, target: Target, existing: Revision, obj: Json) -> Written:
    """Store a new state of an object; an equal state is a no-op. Raises ApiError."""
    kind, old = target.kind, existing.object
    place(kind, target.namespace, obj)
    metadata, old_metadata = child(obj, "metadata"), metadata_of(old)
    rules = kind.rules.subresources.get(target.subresource, NO_UPDATE_RULES)
    if rules.drops_before_ownership:
        rules.prepare(obj, old, registry.now())
    ownership.on_update(registry.kinds, target, obj, old, registry.now())
    review = Review(registry, target, Operation.UPDATE, obj, old)
    registry.admission.mutate(review)
    check_escalation(registry, target, obj, old)
    _check_version(target, existing, metadata)
    keep_field(metadata, old_metadata, "generation")
    if not target.subresource:
        _allocate(registry, kind, obj, existing)
    now = registry.now()
    strategies.prepare_for_update(kind, obj, old, now, subresource=target.subresource)
    if not metadata.get("uid"):
        keep_field(metadata, old_metadata, "uid")
    keep_field(metadata, old_metadata, "creationTimestamp")
    if "deletionTimestamp" in old_metadata:
        keep_field(metadata, old_metadata, "deletionTimestamp")
    if "deletionGracePeriodSeconds" not in metadata:
        keep_field(metadata, old_metadata, "deletionGracePeriodSeconds")
    ownership.keep_times(obj, old)
    errors = _namespace_errors(registry, target, obj, old)
    for needed in rules.permissions(obj, old) if target.verb else ():
        errors += _permission_errors(registry, target, needed)
    errors += validation.validate_update(kind, obj, old, subresource=target.subresource)
    _raise_if_invalid(kind, target.name, errors)
    target.warnings.extend(strategies.warnings(kind, obj, old))
    registry.admission.validate(review)
    if _is_finished(kind, obj, old):
        if not target.options.dry_run:
            remove(registry, kind, existing.key)
        return Written(obj)
    if obj == old and not (existing.is_first and kind.rules.stores_defaults_later):
        return Written(old, existing)
    if target.options.dry_run:
        return Written(obj)
    return Written(*_stored(registry, target, existing.key, obj))


def _stored(registry: Registry, target: Target, key: str, obj: Json) -> tuple[Json, Revision]:
    """Store an object, without its managedFields if it is too large with them.

    Raises ObjectTooLarge.
    """
    if _is_too_large(registry, obj):
        if target.manager is not None:
            child(obj, "metadata").pop("managedFields", None)
        if _is_too_large(registry, obj):
            raise ObjectTooLarge
    revision = registry.store.put(target.kind.storage_key, key, obj)
    return revision.object, revision


def _is_too_large(registry: Registry, obj: Json) -> bool:
    return 0 < registry.limits.max_object_bytes < len(encode(obj))


def remove(registry: Registry, kind: Kind, key: str) -> None:
    """Remove a stored object, and the object of `Kind.deleted_with`."""
    registry.store.remove(kind.storage_key, key)
    if kind.deleted_with is not None:
        companion = registry.store.collection(kind.deleted_with).revisions.get(key)
        if companion is not None and not finalizers_of(companion.object):
            registry.store.remove(kind.deleted_with, key)


def _check_version(target: Target, existing: Revision, metadata: Json) -> None:
    """Raise Conflict unless the version of the client, if it has one, is the newest."""
    kind = target.kind
    version = text(metadata.get("resourceVersion"))
    try:
        unsigned(version or "0")
    except ValueError as problem:
        raise UnreasonedFailure(str(problem)) from problem
    if version in ("", "0"):
        if not kind.unconditional_update:
            error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise Invalid(kind.plural, kind.group, target.name, [error])
    elif version != str(existing.resource_version):
        raise Conflict(kind.plural, kind.group, target.name, OPTIMISTIC_LOCK_MESSAGE)
    metadata["resourceVersion"] = str(existing.resource_version)


def _is_finished(kind: Kind, obj: Json, old: Json) -> bool:
    """Return True if nothing keeps an object that is being deleted any longer."""
    if not is_deleting(old) or finalizers_of(obj) or kind.rules.is_held(obj):
        return False
    return not metadata_of(old).get("deletionGracePeriodSeconds")
