"""Rules in CEL (x-kubernetes-validations), evaluated with the packages of `kubesched[cel]`.

The packages are common-expression-language, bindings of a CEL interpreter in Rust, and google-re2.
Without them rules are stored and not evaluated, and the writer of the definition gets a warning.

    cel_values    values of objects, as rules see them
    cel.library   Kubernetes' functions
    cel.worker    the process that evaluates, with a limit of time

Differences from upstream: types are checked when a rule is evaluated, not when a definition is
created; cost is processor time, and is not estimated when a definition is created; optional values
(`self.?x`) and the libraries url, quantity, ip, cidr, semver and format are missing. A rule that
needs one of these is not evaluated, and the writer of the definition is warned.

Source: apiextensions-apiserver pkg/apiserver/schema/cel and apiserver pkg/cel of v0.36.3.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fakeapi.cel import worker
from fakeapi.crds.cel_values import as_cel
from fakeapi.crds.pruning import child_path, items_of
from fakeapi.types.errors import OMITTED, FieldError, invalid
from fakeapi.types.limits import DEFAULT
from fakeapi.types.objects import Json, mapping, mappings, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fakeapi.cel.worker import Job, Outcome
    from fakeapi.crds.schema_validation import Correlated

RULES: Final = "x-kubernetes-validations"
_BLOCKING: Final = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
})  # fmt: skip
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)
_NO_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


def is_available() -> bool:
    """Return True if rules are evaluated."""
    return worker.is_available()


def blocks(errors: list[FieldError]) -> list[FieldError]:
    """Return the error that replaces the rules' errors if an object is too wrong for rules."""
    if any(error.reason in _BLOCKING for error in errors):
        return [invalid("<nil>", None, _NOT_CHECKED)]
    return []


def can_compile_all(nodes: Iterable[Json]) -> bool:
    """Return False if the rules of schemas take too long to compile."""
    expressions = (
        text(rule.get("rule")).strip() for node in nodes for rule in mappings(node.get(RULES))
    )
    return not is_available() or worker.compile_all(expressions)


def problem(expression: str) -> str:
    """Return the error of an expression that is not CEL, else an empty string."""
    return worker.compiled(expression.strip()).error if is_available() else ""


def why_not_evaluated(expression: str) -> str:
    """Return the reason why an expression cannot be evaluated, else an empty string."""
    if not is_available():
        return "needs pip install '.[cel]' in kubesched's checkout"
    outcome = worker.compiled(expression.strip())
    return outcome.error or outcome.not_evaluated


def not_evaluated(node: Json) -> Iterator[str]:
    """Return the rules of this node that are not evaluated, with the reasons."""
    for rule in mappings(node.get(RULES)):
        expression = text(rule.get("rule")).strip()
        if why := why_not_evaluated(expression):
            yield f"{expression}: {why}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Check:
    """A rule, and the place at which it is evaluated."""

    node: Json
    rule: Json
    value: object
    old: Correlated | None
    path: str
    variables: dict[str, object]

    def job(self, field: str) -> Job:
        return text(self.rule.get(field)).strip(), self.variables

    def invalid(self, why: str) -> FieldError:
        return invalid(self.path or "<nil>", text(self.node.get("type")), why)

    def failure(self, detail: str) -> FieldError:
        node, rule = self.node, self.rule
        where = child_path(self.path, text(rule.get("fieldPath")).strip().removeprefix("."))
        reason = text(rule.get("reason")) or "FieldValueInvalid"
        shown = OMITTED if node.get("type") in ("object", "array") else self.value
        return FieldError(reason, where.removesuffix(".") or "<nil>", detail, shown)

    @property
    def message(self) -> str:
        rule = text(self.rule.get("rule")).strip()
        return text(self.rule.get("message")).strip() or f"failed rule: {rule}"

    @property
    def is_ratcheted(self) -> bool:
        """Return True if a failure is no error, because the value is the old one."""
        old = self.old
        return not _uses_old(self.rule) and old is not None and old.is_still(self.value)


def evaluate(
    node: Json,
    value: object,
    old: Correlated | None,
    path: str = "",
    *,
    is_root: bool = True,
    seconds: float = DEFAULT.cel_seconds,
) -> list[FieldError]:
    """Return the errors of all rules of a schema, for a value and its old value."""
    checks = list(_checks(node, value, old, path, is_root=is_root))
    outcomes = worker.run([check.job("rule") for check in checks], seconds) if checks else []
    failed = [
        (check, outcome)
        for check, outcome in zip(checks, outcomes, strict=False)  # it ends where the time ended
        if outcome is None
        or outcome.error
        or (outcome.value is not True and not check.is_ratcheted)
    ]
    details = _details(
        [check for check, outcome in failed if outcome and not outcome.error], seconds
    )
    return [_error(check, outcome, details) for check, outcome in failed]


def _error(check: _Check, outcome: Outcome | None, details: dict[int, str]) -> FieldError:
    if outcome is None:
        return check.invalid(_NO_BUDGET)
    if outcome.error:
        title = text(check.rule.get("message")).strip() or text(check.rule.get("rule")).strip()
        return check.invalid(f"{outcome.error} evaluating rule: {title}")
    return check.failure(details.get(id(check), check.message))


def _details(failed: list[_Check], seconds: float) -> dict[int, str]:
    """Return the texts of `messageExpression` by the ids of checks; without one it is `message`."""
    made = [
        check
        for check in failed
        if (expression := text(check.rule.get("messageExpression")).strip())
        and not why_not_evaluated(expression)
    ]
    jobs = [check.job("messageExpression") for check in made]
    outcomes = worker.run(jobs, seconds) if jobs else []
    return {
        id(check): outcome.value
        for check, outcome in zip(made, outcomes, strict=False)
        if outcome is not None and isinstance(outcome.value, str) and outcome.value.strip()
    }


def _uses_old(rule: Json) -> bool:
    return worker.compiled(text(rule.get("rule")).strip()).value is True


def _checks(
    node: Json, value: object, old: Correlated | None, path: str, *, is_root: bool
) -> Iterator[_Check]:
    """Yield the checks of a value and of all values in it."""
    if value is None:
        return
    yield from _own_checks(node, value, old, path, is_root=is_root)
    if isinstance(value, dict):
        fields, additional = mapping(node.get("properties")), node.get("additionalProperties")
        for key, item in value.items():
            inner, where = fields.get(key), child_path(path, key)
            if inner is None and isinstance(additional, dict):
                inner, where = additional, f"{path}[{key}]"
            if isinstance(inner, dict):
                before = old.field(key) if old is not None else None
                yield from _checks(inner, item, before, where, is_root=False)
    elif isinstance(value, list) and (items := items_of(node)) is not None:
        for index, item in enumerate(value):
            before = old.element(item) if old is not None else None
            yield from _checks(items, item, before, f"{path}[{index}]", is_root=False)


def _own_checks(
    node: Json, value: object, old: Correlated | None, path: str, *, is_root: bool
) -> Iterator[_Check]:
    has_old = old is not None and old.value is not None
    rules = [
        rule
        for rule in mappings(node.get(RULES))
        if not why_not_evaluated(text(rule.get("rule"))) and (has_old or not _uses_old(rule))
    ]
    if not rules:
        return
    variables = {
        "self": as_cel(node, value, is_root=is_root),
        "oldSelf": as_cel(node, old.value, is_root=is_root) if old is not None else None,
    }
    for rule in rules:
        yield _Check(node, rule, value, old, path, variables)
