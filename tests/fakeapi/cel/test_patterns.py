"""Patterns of schemas: enforced by RE2 in Go's syntax."""

import time

import pytest

from fakeapi.cel import worker
from fakeapi.cel.patterns import compiled, problem

from ..api_client import ApiClient, Json
from ..custom_resources import DEFINITIONS, WIDGETS, definition, schema, version, widget


def patterned(pattern: str) -> Json:
    """A definition whose `spec.title` has this pattern."""
    title = {"type": "string", "pattern": pattern}
    spec = {"type": "object", "properties": {"title": title}}
    return definition(version(node=schema(spec=spec), subresources={}))


@pytest.mark.parametrize(
    ("pattern", "value", "found"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^a\z", "a", True),
        (r"\d+", "٣", False),
        ("^[[:digit:][:space:]]+$", "1 2", True),
        (r"^\pL+$", "é", True),
        (r"^\p{Greek}+$", "αβ", True),
        (r"^\p{Greek}+$", "ab", False),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\x{41}$", "A", True),
        ("(?P<name>x)", "x", True),
        ("^(?i)abc$", "ABC", True),
        ("(?U)^a+$", "aa", True),
        ("^.$", "\n", False),
    ],
)
def test_a_pattern_has_gos_syntax(pattern: str, value: str, *, found: bool) -> None:
    match = compiled(pattern)
    assert match is not None
    assert (match.search(value) is not None) is found


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "(?<!a)b", r"(a)\1", "[[:nope:]]", "a**"])
def test_a_pattern_that_go_does_not_compile_is_an_error(pattern: str) -> None:
    assert problem(pattern).startswith("error parsing regexp: ")
    assert compiled(pattern) is None


async def test_values_must_match(api: ApiClient) -> None:
    made = await api.post(DEFINITIONS, patterned(r"^(?i)a\p{Greek}+$"))
    assert (made.code, "Warning" in made.headers) == (201, False)
    assert (await api.post(WIDGETS, widget(title="Aβ"))).code == 201
    refused = await api.post(WIDGETS, widget("x", title="b"))
    assert refused.causes == [("FieldValueInvalid", "spec.title")]


async def test_a_unicode_class_that_only_go_knows_is_accepted_with_a_warning(
    api: ApiClient,
) -> None:
    made = await api.post(DEFINITIONS, patterned(r"^\p{Letter}$"))
    assert (made.code, "does not enforce" in made.headers["Warning"]) == (201, True)
    assert (await api.post(WIDGETS, widget(title="1"))).code == 201


async def test_a_pattern_that_needs_too_much_memory_is_accepted_with_a_warning(
    api: ApiClient,
) -> None:
    made = await api.post(DEFINITIONS, patterned(r"^\p{L}{100}" * 30))
    assert (made.code, "does not enforce" in made.headers["Warning"]) == (201, True)


@pytest.mark.skipif(not worker.is_available(), reason="needs the extra cel")
@pytest.mark.parametrize(("pattern", "matches"), [("(a|b)*a(a|b){900}c", False), ("c.{30}$", True)])
async def test_a_search_in_a_long_text_ends_in_time(
    api: ApiClient, pattern: str, *, matches: bool
) -> None:
    await api.create(DEFINITIONS, patterned(pattern))
    reply = await api.post(WIDGETS, widget(title="ab" * 300_000 + "c" + "a" * 30))
    assert (reply.code == 201) is matches


async def test_patterns_that_take_long_to_compile_are_refused(api: ApiClient) -> None:
    fields = {f"f{n}": {"type": "string", "pattern": rf"(?i)\pL{{30}}{n}"} for n in range(100)}
    node = schema(spec={"type": "object", "properties": fields})
    refused = await api.post(DEFINITIONS, definition(version(node=node, subresources={})))
    assert refused.causes == [("FieldValueForbidden", "<nil>")]


async def test_an_object_whose_texts_take_long_to_search_is_refused(api: ApiClient) -> None:
    pattern = "(?:a|b|ab|ba|x?){0,900}y"
    items = {"type": "array", "items": {"type": "string", "pattern": pattern}}
    node = schema(spec={"type": "object", "properties": {"items": items}})
    await api.create(DEFINITIONS, definition(version(node=node, subresources={})))
    texts = [f"{n:b}".translate({48: "a", 49: "b"}) * 20 + "y" for n in range(1000)]
    began = time.thread_time()
    refused = await api.post(WIDGETS, {**widget(), "spec": {"items": texts}})
    assert refused.causes == [("FieldValueForbidden", "<nil>")]
    assert time.thread_time() - began < 1


@pytest.mark.skipif(not worker.is_available(), reason="needs the extra cel")
async def test_rules_that_take_long_to_compile_are_refused(api: ApiClient) -> None:
    rules = [{"rule": f"{n} == " + "+".join("1" * 4000)} for n in range(20)]
    node = schema(spec={"type": "object", "x-kubernetes-validations": rules})
    refused = await api.post(DEFINITIONS, definition(version(node=node, subresources={})))
    assert refused.causes == [("FieldValueForbidden", "spec.versions")]
