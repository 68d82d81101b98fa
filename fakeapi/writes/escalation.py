"""Roles and bindings: a user cannot grant a permission that the user does not have.

Administrators can, and users with the verb `escalate` on a role, or `bind` on a binding's role.
Source: pkg/registry/rbac of Kubernetes v1.36.3, escalation_check.go and */policybased/storage.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.access.access import Access
from fakeapi.access.attributes import Attributes
from fakeapi.access.rules import quoted, uncovered
from fakeapi.access.users import MASTERS, User, current_user
from fakeapi.types import gotext
from fakeapi.types.errors import Forbidden, NotFound, UnreasonedFailure
from fakeapi.types.objects import Json, mapping, mappings, metadata_of, name_of, text

if TYPE_CHECKING:
    from fakeapi.store.registry import Registry, Target

_GROUP: Final = "rbac.authorization.k8s.io"
_ROLES: Final = ("roles", "clusterroles")
_BINDINGS: Final = ("rolebindings", "clusterrolebindings")
#: The resource of each kind of role, by the kind that a binding names.
_RESOURCES: Final = {"Role": "roles", "ClusterRole": "clusterroles"}
#: Metadata that the garbage collector changes.
_OF_COLLECTOR: Final = ("ownerReferences", "finalizers", "selfLink", "managedFields")
_EVERYTHING: Final[tuple[Json, ...]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)


def check_escalation(
    registry: Registry, target: Target, obj: Json, old: Json | None = None
) -> None:
    """Check the permissions that a client's role or binding grants. Raises ApiError."""
    kind, user = target.kind, current_user()
    if kind.group != _GROUP or not target.verb or MASTERS in user.groups:
        return
    if old is not None and _without_metadata_of_collector(obj) == _without_metadata_of_collector(
        old
    ):
        return
    if kind.plural in _ROLES:
        _check_role(registry, target, user, obj, old)
    elif kind.plural in _BINDINGS:
        _check_binding(registry, target, user, obj)


def _check_role(
    registry: Registry, target: Target, user: User, obj: Json, old: Json | None
) -> None:
    name = "" if target.verb == "create" else target.name
    if _is_allowed(registry, user, "escalate", target.kind.plural, target.namespace, name):
        return
    _confirm(registry, target, user, obj, mappings(obj.get("rules")))
    if _aggregates(obj) or (old is not None and _aggregates(old)):
        why = "must have cluster-admin privileges to use the aggregationRule"
        _confirm(registry, target, user, obj, list(_EVERYTHING), why=why)


def _check_binding(registry: Registry, target: Target, user: User, obj: Json) -> None:
    reference = mapping(obj.get("roleRef"))
    name, resource = text(reference.get("name")), _RESOURCES.get(text(reference.get("kind")))
    if resource is None:
        why = gotext.quoted(text(reference.get("kind")))
        raise UnreasonedFailure(f"unsupported role reference kind: {why}")
    if _is_allowed(registry, user, "bind", resource, target.namespace, name):
        return
    where = target.namespace if resource == "roles" else ""
    role = registry.store.get((_GROUP, resource), where, name)
    if role is None:
        raise NotFound(resource, _GROUP, name)
    _confirm(registry, target, user, obj, mappings(role.object.get("rules")))


def _is_allowed(
    registry: Registry, user: User, verb: str, resource: str, namespace: str, name: str
) -> bool:
    attributes = Attributes(
        verb, "", _GROUP, resource, "", namespace, name, about_resource=True
    )  # fmt: skip
    return registry.extension(Access).authorizer.decide(user, attributes).allowed


def _confirm(
    registry: Registry, target: Target, user: User, obj: Json, granted: list[Json], *, why: str = ""
) -> None:
    """Raise Forbidden unless the user has all granted permissions in the namespace."""
    owned = registry.extension(Access).authorizer.rules_for(user, target.namespace)
    missing = uncovered(owned.rules, granted, registry.limits.max_permissions)
    if not missing:
        return
    if not why:
        who = f"user {gotext.quoted(user.name)} (groups={quoted(user.groups)})"
        listed = "\n".join(missing)
        why = f"{who} is attempting to grant RBAC permissions not currently held:\n{listed}"
        why += f"; resolution errors: [{owned.error}]" if owned.error else ""
    raise Forbidden(target.kind.plural, _GROUP, name_of(obj), why)


def _aggregates(role: Json) -> bool:
    return bool(mapping(role.get("aggregationRule")).get("clusterRoleSelectors"))


def _without_metadata_of_collector(obj: Json) -> Json:
    metadata = metadata_of(obj)
    kept = {name: value for name, value in metadata.items() if name not in _OF_COLLECTOR}
    return {**obj, "metadata": kept}
