"""PolicyRules: the check that a user's own rules cover the rules that the user grants.

Source: auth/rbac/validation/policy_comparator.go of k8s.io/component-helpers v0.36.3, and
pkg/registry/rbac/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from fakeapi.types import gotext
from fakeapi.types.objects import Json, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_ALL: Final = "*"
#: The lists of a rule in the order of its text.
_PARTS: Final = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")


def path_matches(url: str, path: str) -> bool:
    """Return True if a rule's path, which may end in a star, covers another."""
    return url in (_ALL, path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def uncovered(owned: Sequence[Json], granted: Iterable[Json], permissions_max: int) -> list[str]:
    """Return the texts of the granted permissions that no owned rule has, sorted.

    More than `permissions_max` permissions, beside rules that an owned rule covers whole, count as
    not owned: four short lists in a rule are millions of permissions.
    """
    partly = [rule for rule in granted if not any(_covers(owner, rule) for owner in owned)]
    single = itertools.chain.from_iterable(map(_permissions, partly))
    permissions = list(itertools.islice(single, permissions_max + 1))
    if len(permissions) > permissions_max:
        return [f"more than {permissions_max} permissions"]
    missing = [rule for rule in permissions if not any(_covers(owner, rule) for owner in owned)]
    return sorted({_shown(rule) for rule in _compact(missing)})


def _covers(owner: Json, rule: Json) -> bool:
    """Return True if one rule allows everything that another allows."""
    owned = {part: texts(owner.get(part)) for part in _PARTS}
    return (
        _has_all(owned["verbs"], rule.get("verbs"))
        and _has_all(owned["apiGroups"], rule.get("apiGroups"))
        and all(_has_resource(owned["resources"], name) for name in texts(rule.get("resources")))
        and _has_names(owned["resourceNames"], texts(rule.get("resourceNames")))
        and all(
            any(path_matches(url, path) for url in owned["nonResourceURLs"])
            for path in texts(rule.get("nonResourceURLs"))
        )
    )


def _has_all(owned: list[str], wanted: object) -> bool:
    return _ALL in owned or set(texts(wanted)) <= set(owned)


def _has_names(owned: list[str], wanted: list[str]) -> bool:
    """Return True if the names, none of which are all names, are among the owner's names."""
    return not owned or (bool(wanted) and set(wanted) <= set(owned))


def _has_resource(owned: list[str], resource: str) -> bool:
    if _ALL in owned or resource in owned:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owned


def _permissions(rule: Json) -> Iterator[Json]:
    """Yield the rule as rules with one verb, one resource or path, and at most one name."""
    groups, resources, paths, names, verbs = (texts(rule.get(part)) for part in _PARTS)
    for group, resource, verb in itertools.product(groups, resources, verbs):
        one: Json = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        if names:
            yield from ({**one, "resourceNames": [name]} for name in names)
        else:
            yield one
    for path, verb in itertools.product(paths, verbs):
        yield {"nonResourceURLs": [path], "verbs": [verb]}


def _compact(rules: Iterable[Json]) -> list[Json]:
    """Join rules of one permission that differ in the verb only."""
    joined: dict[object, Json] = {}
    for rule in rules:
        *others, verbs = (tuple(texts(rule.get(part))) for part in _PARTS)
        key = (*others, verbs if rule.get("nonResourceURLs") else ())
        joined[key] = {**rule, "verbs": [*texts(joined.get(key, {}).get("verbs")), *verbs]}
    return list(joined.values())


def _shown(rule: Json) -> str:
    """Return the text of a rule, as Go prints it."""
    parts = [(f"{part[0].upper()}{part[1:]}", texts(rule.get(part))) for part in _PARTS]
    names = {"ApiGroups": "APIGroups"}
    return f"{{{', '.join(f'{names.get(n, n)}:{quoted(v)}' for n, v in parts if v)}}}"


def quoted(values: Iterable[str]) -> str:
    """Return a list of strings as Go prints it with %q."""
    return f"[{' '.join(map(gotext.quoted, values))}]"
