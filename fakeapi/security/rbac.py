"""Authorization by the stored roles, and the bindings of users to them.

Source: plugin/pkg/auth/authorizer/rbac/rbac.go, pkg/registry/rbac/validation/rule.go and
pkg/apis/rbac/v1/evaluation_helpers.go of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import LRUCache

from fakeapi.access.access import Decision, Rules
from fakeapi.access.rules import path_matches
from fakeapi.access.users import MASTERS, User, service_account_name
from fakeapi.types import gotext
from fakeapi.types.client_text import CACHED_LENGTH_MAX
from fakeapi.types.objects import Json, mapping, mappings, name_of, namespace_of, text, texts

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from fakeapi.access.attributes import Attributes
    from fakeapi.store.store import Store
    from fakeapi.types.kind import ResourceKey

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = (GROUP, "roles")
CLUSTER_ROLES: Final = (GROUP, "clusterroles")
ROLE_BINDINGS: Final = (GROUP, "rolebindings")
CLUSTER_ROLE_BINDINGS: Final = (GROUP, "clusterrolebindings")
_ALL: Final = "*"
#: Decisions, and users in namespaces, that are remembered until a role or binding changes.
_REMEMBERED_MAX: Final = 4096
#: The longest user and request that are remembered, written out.
_KEY_LENGTH_MAX: Final = 4 * CACHED_LENGTH_MAX


class _Grant(NamedTuple):
    """A rule that applies to a user and the binding it comes from, or why a role was not found."""

    rule: Json
    binding: Json
    subject: Json
    error: str = ""

    def describe(self) -> str:
        """The binding, as reasons name it."""
        kind, namespace = "ClusterRoleBinding", namespace_of(self.binding)
        name = name_of(self.binding)
        if namespace:
            kind, name = "RoleBinding", f"{name}/{namespace}"
        role = mapping(self.binding.get("roleRef"))
        who = text(self.subject.get("name"))
        if self.subject.get("kind") == "ServiceAccount":
            who = f"{who}/{text(self.subject.get('namespace')) or namespace}"
        return (
            f'{kind} "{name}" of {text(role.get("kind"))} "{text(role.get("name"))}" '
            f'to {text(self.subject.get("kind"))} "{who}"'
        )


class RbacAuthorizer:
    """Decides by the roles and bindings that one store has at the moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decisions: LRUCache[tuple[User, Attributes], Decision] = LRUCache(_REMEMBERED_MAX)
        self._known: LRUCache[tuple[User, str], list[_Grant]] = LRUCache(_REMEMBERED_MAX)
        for resource in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            store.collection(resource).listeners[self] = self._forget

    def decide(self, user: User, attributes: Attributes) -> Decision:
        """Return True as `allowed` if a rule allows it; administrators need none."""
        if MASTERS in user.groups:
            return Decision(allowed=True)
        key = (user, attributes)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decided(user, attributes)
            if _is_short(user, *attributes):
                self._decisions[key] = decision
        return decision

    def rules_for(self, user: User, namespace: str) -> Rules:
        """Return all rules of the bindings that name the user or one of the user's groups."""
        grants = self._grants(user, namespace)
        errors = [grant.error for grant in grants if grant.error]
        rules = [grant.rule for grant in grants if not grant.error]
        return Rules(rules, gotext.aggregated(errors))

    def _decided(self, user: User, attributes: Attributes) -> Decision:
        errors = []
        for grant in self._grants(user, attributes.namespace):
            if grant.error:
                errors.append(grant.error)
            elif rule_allows(grant.rule, attributes):
                return Decision(allowed=True, reason=f"RBAC: allowed by {grant.describe()}")
        return Decision(
            allowed=False, reason=f"RBAC: {gotext.aggregated(errors)}" if errors else ""
        )

    def _forget(self) -> None:
        self._decisions.clear()
        self._known.clear()

    def _grants(self, user: User, namespace: str) -> list[_Grant]:
        """The rules of the bindings that mean the user, looked up once until something changes."""
        grants = self._known.get((user, namespace))
        if grants is None:
            grants = list(self._looked_up(user, namespace))
            if _is_short(user, namespace):
                self._known[user, namespace] = grants
        return grants

    def _looked_up(self, user: User, namespace: str) -> Iterator[_Grant]:
        """Yield the grants of the cluster's bindings, then of the namespace's."""
        bindings = self._store.collection(CLUSTER_ROLE_BINDINGS)
        everywhere = [bindings.revisions[key].object for key in bindings.sorted_keys()]
        yield from self._granted_by(everywhere, user, "")
        if namespace:
            local = self._store.in_namespace(ROLE_BINDINGS, namespace)
            yield from self._granted_by(local, user, namespace)

    def _granted_by(self, bindings: Iterable[Json], user: User, namespace: str) -> Iterator[_Grant]:
        groups = frozenset(user.groups)  # a review may name as many as fit into a body
        for binding in bindings:
            for subject in mappings(binding.get("subjects")):
                if _is(user.name, groups, subject, namespace):
                    yield from self._granted(binding, subject, namespace)
                    break

    def _granted(self, binding: Json, subject: Json, namespace: str) -> Iterator[_Grant]:
        reference = mapping(binding.get("roleRef"))
        kind, name = text(reference.get("kind")), text(reference.get("name"))
        wanted = {"Role": ROLES, "ClusterRole": CLUSTER_ROLES}.get(kind)
        if wanted is None:
            yield _Grant({}, binding, subject, f'unsupported role reference kind: "{kind}"')
            return
        role = self.role(wanted, namespace, name)
        if role is None:
            error = f'{wanted[1].removesuffix("s")}.{GROUP} "{name}" not found'
            yield _Grant({}, binding, subject, error)
            return
        for rule in mappings(role.get("rules")):
            yield _Grant(rule, binding, subject)

    def role(self, resource: ResourceKey, namespace: str, name: str) -> Json | None:
        """Return the role that a binding in the namespace names, None if it is missing."""
        stored = self._store.get(resource, namespace if resource == ROLES else "", name)
        return None if stored is None else stored.object


def _is_short(user: User, *texts: object) -> bool:
    """Return True for what may be remembered: reviews ask about users and paths of any length."""
    return len(str((user, texts))) <= _KEY_LENGTH_MAX


def _is(user: str, groups: Container[str], subject: Json, namespace: str) -> bool:
    """Return True if a binding in that namespace names the user."""
    kind, name = subject.get("kind"), text(subject.get("name"))
    if kind == "User":
        return user == name
    if kind == "Group":
        return name in groups
    if kind == "ServiceAccount":
        where = text(subject.get("namespace")) or namespace
        return bool(where) and user == service_account_name(where, name)
    return False


def rule_allows(rule: Json, attributes: Attributes) -> bool:
    """Return True if a PolicyRule covers the request."""
    if not _covers(texts(rule.get("verbs")), attributes.verb):
        return False
    if not attributes.about_resource:
        return any(path_matches(url, attributes.path) for url in texts(rule.get("nonResourceURLs")))
    names = texts(rule.get("resourceNames"))
    return (
        _covers(texts(rule.get("apiGroups")), attributes.group)
        and _resource_matches(texts(rule.get("resources")), attributes)
        and (not names or attributes.name in names)
    )


def _covers(allowed: list[str], value: str) -> bool:
    return value in allowed or _ALL in allowed


def _resource_matches(resources: list[str], attributes: Attributes) -> bool:
    if _covers(resources, attributes.whole_resource):
        return True
    return bool(attributes.subresource) and f"*/{attributes.subresource}" in resources
