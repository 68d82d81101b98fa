"""Rules in CEL: evaluated with the extra `cel`, else ignored with a warning."""

from typing import Any

import pytest

from fakeapi.crds import cel_rules
from fakeapi.crds.schema_validation import Correlated

from ..api_client import ApiClient, Reply
from ..custom_resources import DEFINITIONS, WIDGETS, definition, schema, version, widget

Json = dict[str, Any]
needs_interpreter = pytest.mark.skipif(not cel_rules.is_available(), reason="needs the extra cel")


def ruled(*rules: Json, **properties: Json) -> Json:
    """A schema of a whole object whose spec has these fields and rules."""
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return definition(version(node=schema(spec=spec), subresources={}))


def said(reply: Reply) -> list[tuple[str, str]]:
    return [(c["field"], c["message"]) for c in reply.body["details"]["causes"]]


BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


@needs_interpreter
async def test_an_object_that_breaks_a_rule_is_refused(api: ApiClient) -> None:
    rules = (
        {"rule": "self.low <= self.size", "message": "too low"},
        {"rule": "self.size < 100", "messageExpression": "'not ' + string(self.size)"},
        {"rule": "self.size != 7", "fieldPath": ".size", "reason": "FieldValueForbidden"},
    )
    await api.create(DEFINITIONS, ruled(*rules, low=INTEGER, size=INTEGER))
    low = await api.post(WIDGETS, widget(low=5, size=1))
    assert said(low) == [("spec", "Invalid value: too low")]
    high = await api.post(WIDGETS, widget(low=1, size=200))
    assert said(high) == [("spec", "Invalid value: not 200")]
    seven = await api.post(WIDGETS, widget(low=1, size=7))
    assert said(seven) == [("spec.size", "Forbidden: failed rule: self.size != 7")]
    assert (await api.post(WIDGETS, widget(low=1, size=8))).code == 201


@needs_interpreter
async def test_rules_with_old_self_are_evaluated_for_changes(api: ApiClient) -> None:
    fixed = {**STRING, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    await api.create(DEFINITIONS, ruled(title=fixed, size=INTEGER))
    await api.create(WIDGETS, widget(title="a"))
    assert (await api.patch(f"{WIDGETS}/w", {"spec": {"size": 2}})).code == 200
    changed = await api.patch(f"{WIDGETS}/w", {"spec": {"title": "b"}})
    assert said(changed) == [("spec.title", 'Invalid value: "b": failed rule: self == oldSelf')]


@needs_interpreter
async def test_rules_are_not_evaluated_for_an_object_of_wrong_types(api: ApiClient) -> None:
    await api.create(DEFINITIONS, ruled({"rule": "self.size > 5"}, size=INTEGER))
    refused = await api.post(WIDGETS, widget(size="x"))
    assert [field for field, _ in said(refused)] == ["spec.size", "<nil>"]
    assert "some validation rules were not checked" in refused.message


@needs_interpreter
async def test_an_expression_that_is_not_cel_is_refused(api: ApiClient) -> None:
    refused = await api.post(DEFINITIONS, ruled({"rule": "self.size >"}, size=INTEGER))
    field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert [found for found, _ in said(refused)] == [field]
    assert "compilation failed" in refused.message


@needs_interpreter
async def test_a_message_expression_that_is_not_cel_is_replaced_by_the_message(
    api: ApiClient,
) -> None:
    rule = {"rule": "self.size > 5", "messageExpression": "((", "message": "too small"}
    await api.create(DEFINITIONS, ruled(rule, size=INTEGER))
    assert said(await api.post(WIDGETS, widget(size=1))) == [("spec", "Invalid value: too small")]


@needs_interpreter
async def test_a_rule_that_is_not_evaluated_is_a_warning(api: ApiClient) -> None:
    rules = ({"rule": "quantity(self.size).isGreaterThan(quantity('1'))"},)
    made = await api.post(DEFINITIONS, ruled(*rules, size=STRING))
    assert made.code == 201
    assert "does not evaluate quantity(self.size)" in made.headers["Warning"]
    assert (await api.post(WIDGETS, widget(size="0"))).code == 201


async def test_without_the_extra_rules_are_ignored_with_a_warning(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cel_rules, "is_available", lambda: False)
    made = await api.post(DEFINITIONS, ruled({"rule": "self.size > 5"}, size=INTEGER))
    assert "needs pip install '.[cel]' in kubesched's checkout" in made.headers["Warning"]
    assert (await api.post(WIDGETS, widget(size=1))).code == 201


MAP: Json = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "properties": {"name": STRING, "size": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size"}],
    },
}


@needs_interpreter
@pytest.mark.parametrize(
    ("node", "rule", "value", "holds"),
    [
        ({"type": "object", "properties": {"a-b": INTEGER}}, "self.a__dash__b == 1", {"a-b": 1}, 1),
        ({"type": "object", "properties": {"in": INTEGER}}, "self.__in__ == 1", {"in": 1}, 1),
        ({"type": "object", "properties": {"x": INTEGER}}, "has(self.x)", {"y": 1}, 0),
        ({"type": "number"}, "self > 1.5", 2, 1),
        ({"type": "integer"}, "self == 2", 2.0, 1),
        ({"type": "array", "items": INTEGER}, "self.all(x, x > 0)", [1, 0], 0),
        ({"type": "array", "items": INTEGER}, "self.isSorted() && self.sum() == 6", [1, 2, 3], 1),
        ({"type": "array", "items": STRING}, "self.indexOf('b') == 1", ["a", "b"], 1),
        (STRING, "self.lowerAscii() == 'abc' && self.find('[A-Z]') == 'A'", "Abc", 1),
        (STRING, "self.split(',').size() == 3", "a,b,c", 1),
        (STRING, 'self.matches(r"""^(?i)x\\.?$""")', "X.", 1),
        (STRING, 'self.matches("a.?")', "b", 0),
        ({"type": "string", "format": "duration"}, "self < duration('1h')", "90m", 0),
        (
            {"type": "string", "format": "date-time"},
            "self < timestamp('2026-01-01T00:00:00Z')",
            "2025-01-01T00:00:00Z",
            1,
        ),
        ({"type": "object", "additionalProperties": INTEGER}, "self['a-b'] == 1", {"a-b": 1}, 1),
        (STRING, "isIP(self)", "1.2.3.4", 1),
        ({"x-kubernetes-int-or-string": True}, "self == '50%'", "50%", 1),
    ],
)
def test_values_are_converted_for_rules(node: Json, rule: str, value: Any, holds: int) -> None:
    node = {**node, "x-kubernetes-validations": [{"rule": rule}]}
    errors = list(cel_rules.evaluate(node, value, None, "v", is_root=False))
    assert (not errors) == bool(holds), errors


#: Expressions that hold. Source: stringTests in ext/strings_test.go of cel-go v0.26.0.
STRINGS = """
'tacocat'.charAt(3) == 'o'
'tacocat'.charAt(7) == ''
'©αT'.charAt(0) == '©' && '©αT'.charAt(1) == 'α' && '©αT'.charAt(2) == 'T'
'tacocat'.indexOf('') == 0
'tacocat'.indexOf('ac') == 1
'tacocat'.indexOf('none') == -1
'tacocat'.indexOf('', 3) == 3
'tacocat'.indexOf('a', 3) == 5
'tacocat'.indexOf('at', 3) == 5
'ta©o©αT'.indexOf('©αT', 3) == 4
'ta©o©αT'.indexOf('©α', 5) == -1
'tacocat'.indexOf('a', 30) == -1
''.lastIndexOf('@@') == -1
'tacocat'.lastIndexOf('') == 7
'tacocat'.lastIndexOf('at') == 5
'tacocat'.lastIndexOf('', 3) == 3
'tacocat'.lastIndexOf('a', 3) == 1
'ta©o©αT'.lastIndexOf('©', 3) == 2
'ta©o©αT'.lastIndexOf('©α', 4) == 4
'hello wello'.lastIndexOf('ello', 6) == 1
'bananananana'.lastIndexOf('nana', 7) == 6
'tacocat'.lastIndexOf('a', 30) == -1
'TacoCat'.lowerAscii() == 'tacocat'
'TacoCÆt Xii'.lowerAscii() == 'tacocÆt xii'
'tacoCat'.upperAscii() == 'TACOCAT'
'tacoCαt'.upperAscii() == 'TACOCαT'
"{0} days {0} hours".replace("{0}", "2", 1).replace("{0}", "23") == "2 days 23 hours"
"hello hello".replace("", "_") == "_h_e_l_l_o_ _h_e_l_l_o_"
"hello hello".replace("h", "") == "ello ello"
"hello world".split(" ") == ["hello", "world"]
"hello world events!".split(" ", 0) == []
"hello world events!".split(" ", 1) == ["hello world events!"]
"o©o©o©o".split("©", -1) == ["o", "o", "o", "o"]
"tacocat".substring(7) == ""
"tacocat".substring(0, 4) == "taco"
"tacocat".substring(4, 4) == ""
'ta©o©αT'.substring(2, 6) == "©o©α"
'ta©o©αT'.substring(7, 7) == ""
['x', 'y'].join() == 'xy' && ['x', 'y'].join('-') == 'x-y' && [].join('-') == ''
isIP('::1') && !isIP('fe80::1%eth0') && !isIP('::ffff:1.2.3.4')
isCIDR('10.0.0.1/8') && isCIDR('fd00::/8') && !isCIDR('10.0.0.0/255.0.0.0')
!isCIDR('10.0.0.0/33') && !isCIDR('fe80::1%eth0/64') && !isCIDR('10.0.0.0/')
"""
#: Expressions with their errors, from the same table.
ERRORS = {
    "'tacocat'.charAt(30) == ''": "index out of range: 30",
    "'tacocat'.lastIndexOf('a', -1) == -1": "index out of range: -1",
    "'tacocat'.indexOf('a', -1) == -1": "index out of range: -1",
    '"tacocat".substring(40) == "cat"': "index out of range: 40",
    '"tacocat".substring(-1) == "cat"': "index out of range: -1",
    '"tacocat".substring(1, 50) == "cat"': "index out of range: 50",
    '"tacocat".substring(49, 50) == "cat"': "index out of range: 49",
    '"tacocat".substring(4, 3) == ""': "invalid substring range. start: 4, end: 3",
}


def errors_of(rule: str, value: Any = "", **options: Any) -> list[str]:
    """The errors of one rule for a value."""
    node = {"x-kubernetes-validations": [{"rule": rule}]}
    found = cel_rules.evaluate(node, value, None, "v", is_root=False, **options)
    return [error.detail for error in found]


@needs_interpreter
@pytest.mark.parametrize("rule", STRINGS.strip().splitlines())
def test_functions_have_the_results_of_cel_go(rule: str) -> None:
    assert errors_of(rule) == []


@needs_interpreter
@pytest.mark.parametrize(("rule", "error"), ERRORS.items())
def test_functions_have_the_errors_of_cel_go(rule: str, error: str) -> None:
    assert errors_of(rule) == [f"{error} evaluating rule: {rule}"]


@needs_interpreter
@pytest.mark.parametrize(
    "rule",
    [
        "self.all(x, self.all(y, self.all(z, x + y + z < 100000)))",
        "['abcdefgh']" + ".map(x, x + x)" * 60 + ".size() > 0",
        "[0]" + ".map(x, [x, x])" * 60 + " == [1]",
        "'a'" + ".replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaa')" * 20 + ".size() > 0",
        "1" + " + 1" * 24_000 + " > 0",
    ],
)
def test_a_rule_without_end_is_an_error_within_the_limit(rule: str) -> None:
    made = errors_of(f"{rule} || true", list(range(1000)), seconds=0.02)
    assert made in ([], [BUDGET])
    assert errors_of("self == 1", 1) == []  # the next is evaluated


@needs_interpreter
def test_no_rule_is_evaluated_after_the_limit() -> None:
    endless = {"rule": "self.all(x, self.all(y, self.all(z, x + y + z < 100000)))"}
    node = {"x-kubernetes-validations": [{"rule": "self.size() == 1"}, endless, endless]}
    found = cel_rules.evaluate(node, list(range(1000)), None, "v", is_root=False, seconds=0.02)
    assert [error.detail for error in found] == ["failed rule: self.size() == 1", BUDGET]


@needs_interpreter
def test_an_expression_longer_than_upstream_takes_is_refused() -> None:
    assert cel_rules.problem("1" + "+1" * 50_000) == (
        "expression code point size exceeds limit: size: 100001, limit 100000"
    )


@needs_interpreter
def test_elements_are_compared_with_those_of_the_same_keys() -> None:
    old = Correlated([{"name": "a", "size": 2}, {"name": "b", "size": 2}], MAP)
    new = [{"name": "b", "size": 1}, {"name": "c", "size": 0}, {"name": "a", "size": 2}]
    errors = list(cel_rules.evaluate(MAP, new, old, "v", is_root=False))
    assert [error.field for error in errors] == ["v[0]"]


@needs_interpreter
def test_a_failed_evaluation_is_an_error_of_the_object() -> None:
    node = {"type": "object", "properties": {"a": {"type": "object"}}}
    node["x-kubernetes-validations"] = [{"rule": "self.a.b == 1"}]
    (error,) = cel_rules.evaluate(node, {"a": {}}, None, "v", is_root=False)
    assert error.detail == "no such key: b evaluating rule: self.a.b == 1"


@needs_interpreter
def test_the_root_has_its_name() -> None:
    node = {"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name == 'w'"}]}
    assert not list(cel_rules.evaluate(node, widget(), None))
    (error,) = cel_rules.evaluate(node, widget("x"), None)
    assert error.field == "<nil>"
