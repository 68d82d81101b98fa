"""A granted rule is covered by the rules of a user as in upstream's comparison."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fakeapi.access.rules import path_matches, uncovered
from tests.thoroughness import examples

GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "pods/status", "jobs/status", "*/status", "*")
PATHS = ("/a", "/a/b", "/a/*", "/a*", "/ab", "/*", "*", "**", "")
NAMES = ("a", "b")
VERBS = ("get", "list", "*")


def rules() -> st.SearchStrategy[dict[str, list[str]]]:
    def some(*values: str) -> st.SearchStrategy[list[str]]:
        return st.lists(st.sampled_from(values), max_size=2)

    of_resources = st.fixed_dictionaries(
        {
            "apiGroups": some(*GROUPS),
            "resources": some(*RESOURCES),
            "resourceNames": some(*NAMES),
            "verbs": some(*VERBS),
        }
    )
    return of_resources | st.fixed_dictionaries(
        {"nonResourceURLs": some(*PATHS), "verbs": some(*VERBS)}
    )


def covers(owner: dict[str, Any], rule: dict[str, Any]) -> bool:
    """Return ruleCovers of policy_comparator.go."""

    def has_all(part: str) -> bool:
        owned = owner.get(part, [])
        return "*" in owned or set(rule.get(part, [])) <= set(owned)

    def has_resource(resource: str) -> bool:
        owned = owner.get("resources", [])
        _, slash, subresource = resource.partition("/")
        return bool({"*", resource, f"*/{subresource}" if slash else "*"} & set(owned))

    names, owned_names = rule.get("resourceNames", []), owner.get("resourceNames", [])
    return (
        has_all("verbs")
        and has_all("apiGroups")
        and all(map(has_resource, rule.get("resources", [])))
        and (not owned_names or (bool(names) and set(names) <= set(owned_names)))
        and all(
            any(path_matches(url, path) for url in owner.get("nonResourceURLs", []))
            for path in rule.get("nonResourceURLs", [])
        )
    )


@given(st.lists(rules(), max_size=4), rules())
@settings(max_examples=examples(1500))
def test_a_rule_is_covered_if_one_owned_rule_covers_it(
    owned: list[dict[str, Any]], rule: dict[str, Any]
) -> None:
    is_covered = any(covers(owner, rule) for owner in owned)
    is_empty = not rule["verbs"] or not (
        rule.get("nonResourceURLs") or (rule.get("apiGroups") and rule.get("resources"))
    )
    # Without permissions to compare one by one, only whole rules count.
    assert (uncovered(owned, [rule], 0) == []) == (is_covered or is_empty)
