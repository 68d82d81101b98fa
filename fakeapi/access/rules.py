"""PolicyRules: the check that a user's own rules cover the rules that the user grants.

Source: auth/rbac/validation/policy_comparator.go of k8s.io/component-helpers v0.36.3, and
pkg/registry/rbac/validation of Kubernetes v1.36.3.
"""

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING, Final

from fakeapi.types import gotext
from fakeapi.types.objects import Json, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_ALL: Final = "*"
_RESOURCES: Final = "resources"
_URLS: Final = "nonResourceURLs"
_NAMES: Final = "resourceNames"
#: The lists of a rule in the order of its text.
_PARTS: Final = ("apiGroups", _RESOURCES, _URLS, _NAMES, "verbs")


def path_matches(url: str, path: str) -> bool:
    """Return True if a rule's path, which may end in a star, covers another."""
    return url in (_ALL, path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def uncovered(owned: Sequence[Json], granted: Sequence[Json], permissions_max: int) -> list[str]:
    """Return the texts of the granted permissions that no owned rule has, sorted.

    More than `permissions_max` permissions, beside rules that an owned rule covers whole, count as
    not owned: four short lists in a rule are millions of permissions.
    """
    rules = _OwnedRules(owned, granted)
    partly = [rule for rule in granted if not rules.have(rule)]
    single = itertools.chain.from_iterable(map(_permissions, partly))
    permissions = list(itertools.islice(single, permissions_max + 1))
    if len(permissions) > permissions_max:
        return [f"more than {permissions_max} permissions"]
    missing = [rule for rule in permissions if not rules.have(rule)]
    return sorted({_shown(rule) for rule in _compact(missing)})


class _OwnedRules:
    """The rules of a user, by their values.

    A set of rules is a number with a bit for each: thousands of permissions are looked up among
    thousands of rules.
    """

    def __init__(self, owned: Sequence[Json], granted: Iterable[Json]) -> None:
        wanted = {value for rule in granted for part in _PARTS for value in texts(rule.get(part))}
        wanted |= {_of_all_resources(value) for value in wanted} | {_ALL}
        self._all = (1 << len(owned)) - 1
        self._without_names = 0
        self._having: dict[tuple[str, str], int] = collections.defaultdict(int)
        urls: dict[str, int] = collections.defaultdict(int)
        for number, rule in enumerate(owned):
            bit = 1 << number
            if not texts(rule.get(_NAMES)):
                self._without_names |= bit
            for part in _PARTS:
                for value in texts(rule.get(part)):
                    if part == _URLS:
                        urls[value] |= bit
                    elif value in wanted:
                        self._having[part, value] |= bit
        paths = {path for rule in granted for path in texts(rule.get(_URLS))}
        self._having.update({(_URLS, path): bits for path, bits in _matching(urls, paths)})

    def have(self, rule: Json) -> bool:
        """Return True if one of the rules allows everything that this rule allows."""
        names = texts(rule.get(_NAMES))
        left = self._all if names else self._without_names
        for part in _PARTS:
            for value in texts(rule.get(part)):
                left &= self._with(part, value)
                if not left:
                    return False
        return bool(left)

    def _with(self, part: str, value: str) -> int:
        """Return the rules that cover a value of a part."""
        bits = self._having.get((part, value), 0)
        if part == _URLS:
            return bits
        if part == _NAMES:
            return bits | self._without_names
        bits |= self._having.get((part, _ALL), 0)
        if part == _RESOURCES:
            bits |= self._having.get((part, _of_all_resources(value)), 0)
        return bits


def _of_all_resources(resource: str) -> str:
    """Return what stands in a rule for a subresource of every resource; empty for a resource."""
    _, slash, subresource = resource.partition("/")
    return f"{_ALL}/{subresource}" if slash else ""


def _matching(urls: Mapping[str, int], paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield each path with the rules of all URLs that match it, as `path_matches` does.

    In alphabetical order a path comes after its beginnings.
    """
    beginnings = [(url.rstrip(_ALL), False, url) for url in urls if url.endswith(_ALL)]
    opened: list[tuple[str, int]] = []
    for text, is_path, whole in sorted([*beginnings, *((path, True, path) for path in paths)]):
        while opened and not text.startswith(opened[-1][0]):
            opened.pop()
        bits = opened[-1][1] if opened else 0
        if is_path:
            yield text, bits | urls.get(text, 0)
        else:
            opened.append((text, bits | urls[whole]))


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
