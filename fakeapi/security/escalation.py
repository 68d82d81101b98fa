"""Nobody grants more than he has: checks on those who write roles and bindings.

Who may `escalate` a role, or `bind` to it, may nevertheless.

Source: pkg/registry/rbac of Kubernetes v1.36.3 (escalation_check.go, */policybased/storage.go,
validation/rule.go) and component-helpers auth/rbac/validation/policy_comparator.go.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from ..errors import Forbidden, NotFound
from ..gotext import quoted
from ..objects import Json, mapping, mappings, metadata_of, name_of, text, texts
from .attributes import Attributes
from .rbac import CLUSTER_ROLES, GROUP, ROLES, RbacAuthorizer, path_matches
from .users import MASTERS, User, current_user

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..registry import Target

__all__ = ["EscalationCheck"]

_EVERYTHING: Final[list[Json]] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
_FREE_METADATA: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
_ALL: Final = "*"


class _Right(NamedTuple):
    """The least that can be granted: one verb on one resource, or on one path."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""


class EscalationCheck:
    """Looks at every role and binding before it is stored."""

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer

    def check(self, target: Target, obj: Json, old: Json | None = None) -> None:
        """Refuse what gives more than its writer has. Raises Forbidden, NotFound."""
        user = current_user()
        if target.kind.group != GROUP or MASTERS in user.groups:
            return
        if old is not None and _same_but_for_garbage_collection(obj, old):
            return
        if target.kind.resource_key in (ROLES, CLUSTER_ROLES):
            self._check_role(target, obj, old, user)
        else:
            self._check_binding(target, obj, user)

    def _check_role(self, target: Target, role: Json, old: Json | None, user: User) -> None:
        name = "" if old is None else target.name
        escalating = _attributes("escalate", target.kind.plural, target.namespace, name)
        if self._authorizer.decide(user, escalating).allowed:
            return
        rules = mappings(role.get("rules"))
        self._confirm(target, name_of(role), rules, user)
        if any(_is_aggregated(one) for one in (role, old or {})) and self._missing(
            target.namespace, _EVERYTHING, user
        ):
            why = "must have cluster-admin privileges to use the aggregationRule"
            raise Forbidden(target.kind.plural, GROUP, name_of(role), why)

    def _check_binding(self, target: Target, binding: Json, user: User) -> None:
        reference = mapping(binding.get("roleRef"))
        kind, name = text(reference.get("kind")), text(reference.get("name"))
        resource = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}.get(kind)
        if resource is None:
            return  # validation is about to refuse it
        bound = _attributes("bind", resource[1], target.namespace, name)
        if self._authorizer.decide(user, bound).allowed:
            return
        role = self._authorizer.role(resource, target.namespace, name)
        if role is None:
            raise NotFound(resource[1].removesuffix("s"), GROUP, name)
        self._confirm(target, name_of(binding), mappings(role.get("rules")), user)

    def _confirm(self, target: Target, name: str, rules: list[Json], user: User) -> None:
        missing = self._missing(target.namespace, rules, user)
        if not missing:
            return
        groups = " ".join(quoted(group) for group in user.groups)
        lines = "\n".join(sorted(set(_described(missing))))
        why = (
            f"user {quoted(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions "
            f"not currently held:\n{lines}"
        )
        raise Forbidden(target.kind.plural, GROUP, name, why)

    def _missing(self, namespace: str, rules: list[Json], user: User) -> list[_Right]:
        owned = self._authorizer.rules_for(user, namespace).rules
        wanted = [right for rule in rules for right in _rights(rule)]
        return [right for right in wanted if not any(_covers(rule, right) for rule in owned)]


def _attributes(verb: str, resource: str, namespace: str, name: str) -> Attributes:
    return Attributes(
        verb, group=GROUP, resource=resource, namespace=namespace, name=name, about_resource=True
    )


def _is_aggregated(role: Json) -> bool:
    return bool(mapping(role.get("aggregationRule")).get("clusterRoleSelectors"))


def _same_but_for_garbage_collection(obj: Json, old: Json) -> bool:
    def kept(one: Json) -> Json:
        metadata = {
            name: value for name, value in metadata_of(one).items() if name not in _FREE_METADATA
        }
        return {**one, "metadata": metadata}

    return kept(obj) == kept(old)


def _rights(rule: Json) -> Iterator[_Right]:
    verbs = texts(rule.get("verbs"))
    groups, resources = texts(rule.get("apiGroups")), texts(rule.get("resources"))
    names = texts(rule.get("resourceNames")) or [""]
    for group, resource, verb, name in itertools.product(groups, resources, verbs, names):
        yield _Right(verb, group, resource, name)
    for path, verb in itertools.product(texts(rule.get("nonResourceURLs")), verbs):
        yield _Right(verb, path=path)


def _covers(rule: Json, right: _Right) -> bool:
    if not _has(texts(rule.get("verbs")), right.verb):
        return False
    if right.path:
        return any(path_matches(url, right.path) for url in texts(rule.get("nonResourceURLs")))
    names, resources = texts(rule.get("resourceNames")), texts(rule.get("resources"))
    _, separator, subresource = right.resource.partition("/")
    return (
        _has(texts(rule.get("apiGroups")), right.group)
        and (
            _has(resources, right.resource) or (bool(separator) and f"*/{subresource}" in resources)
        )
        and (not names or right.name in names)
    )


def _has(allowed: list[str], value: str) -> bool:
    return value in allowed or _ALL in allowed


def _described(rights: list[_Right]) -> Iterator[str]:
    """Rules that are missing, verbs on the same thing together, as upstream prints them."""
    verbs: dict[_Right, list[str]] = {}
    for right in rights:
        key = right if right.path else right._replace(verb="")
        verbs.setdefault(key, []).append(right.verb)
    for right, found in verbs.items():
        parts = {
            "APIGroups": [] if right.path else [right.group],
            "Resources": [] if right.path else [right.resource],
            "NonResourceURLs": [right.path] if right.path else [],
            "ResourceNames": [right.name] if right.name else [],
            "Verbs": found,
        }
        shown = (
            f"{name}:[{' '.join(quoted(value) for value in values)}]"
            for name, values in parts.items()
            if values
        )
        yield "{" + ", ".join(shown) + "}"
