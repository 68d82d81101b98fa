"""The `Structure` of a version of a custom resource: pruning, defaults, validation."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Final

from fakeapi.cel import patterns
from fakeapi.crds import cel_rules, pruning
from fakeapi.crds.schema_validation import Correlated, validate
from fakeapi.crds.values import validate_embedded, validate_lists
from fakeapi.types import gotext, names, schema
from fakeapi.types.errors import FieldError, UnreasonedFailure, in_order, invalid
from fakeapi.types.limits import DEFAULT
from fakeapi.types.objects import Json, finalizers_of, mapping
from fakeapi.types.schema import DecodeError

if TYPE_CHECKING:
    from fakeapi.types.kind import ScalePaths

_ANYTHING: Final[Json] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_REPLICAS_MAX: Final = 2**31 - 1
_STANDARD_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")


class CustomStructure:
    """A structural schema, applied to whole objects.

    `stored` is the schema of another storage version: with the conversion strategy None objects
    keep the fields that both versions have.
    """

    def __init__(
        self,
        api_version: str,
        kind: str,
        node: Json | None,
        *,
        stored: Json | None = None,
        scale: ScalePaths | None = None,
        cel_seconds: float = DEFAULT.cel_seconds,
    ) -> None:
        self._type_meta: Json = {"apiVersion": api_version, "kind": kind}
        self._node = _ANYTHING if node is None else node
        self._stored = stored
        self._scale = scale
        self._cel_seconds = cel_seconds
        self._has_rules = cel_rules.is_available() and any(
            cel_rules.RULES in inner for inner in pruning.schemas_in(self._node)
        )

    def complete(self, value: Json, dropped: list[str] | None = None) -> Json:
        """Return the stored form: a new object without unknown fields, with defaults.

        The paths of unknown fields are appended to `dropped`. Raises DecodeError.
        """
        unknown: list[str] = [] if dropped is None else dropped
        schema.check_encodable(value)
        obj = copy.deepcopy(value)
        pruning.drop_nulls(obj, self._node)
        self._fill_defaults(obj, self._node)
        pruning.coerce_metadata(obj, self._node, unknown)
        pruning.prune(obj, pruning.as_root(self._node), unknown)
        obj.setdefault("metadata", {})
        return self.as_stored(obj) if self._stored is not None else obj

    def as_stored(self, obj: Json) -> Json:
        """Return the object as the storage version has it, with the present defaults.

        Raises DecodeError.
        """
        node = self._node if self._stored is None else self._stored
        result = copy.deepcopy(obj)
        pruning.drop_nulls(result, node)
        self._fill_defaults(result, node)
        pruning.prune(result, pruning.as_root(node), [])
        return result

    def as_version(self, obj: Json) -> Json:
        """Return a stored object as this version shows it: pruned to the version's own schema.

        Raises UnreasonedFailure. Source: schemaCoercingConverter in customresource_handler.go.
        """
        try:
            result = self.as_stored(obj)
        except DecodeError as error:  # the definition has got other defaults
            raise UnreasonedFailure(str(error)) from error
        pruning.prune(result, pruning.as_root(self._node), [])
        return result

    def _fill_defaults(self, obj: Json, node: Json) -> None:
        """Fill in the defaults of a schema. Raises DecodeError if they take too long."""

        def fill() -> list[FieldError]:
            pruning.fill_defaults(obj, node)
            return []

        for error in patterns.limited(fill, seconds=self._cel_seconds):
            raise DecodeError(error.detail)

    def unknown_fields(self, value: Json) -> list[str]:
        """Return the paths of the fields that `complete` drops."""
        unknown: list[str] = []
        obj = copy.deepcopy(value)
        with contextlib.suppress(DecodeError):  # `complete` raises it
            pruning.coerce_metadata(obj, self._node, unknown)
        pruning.prune(obj, pruning.as_root(self._node), unknown)
        return sorted(unknown)

    def validate(
        self, obj: Json, old: Json | None = None, *, subresource: str = ""
    ) -> list[FieldError]:
        """Return the errors of the object; with `old`, errors of unchanged values are allowed."""
        whole = {**self._type_meta, **obj}
        before = None if old is None else Correlated({**self._type_meta, **old}, self._node)
        is_status = subresource == "status"
        errors = patterns.limited(
            lambda: (
                self._status_errors(obj, before)
                if is_status
                else validate(self._node, whole, before)
            ),
            seconds=self._cel_seconds,
        )
        if not is_status:
            errors += self._scale_errors(obj, "replicas")
        errors += self._scale_errors(obj, "status_replicas")
        if not is_status:
            errors += validate_embedded(obj, self._node)
        if old is None or not validate_lists(old, self._node):
            errors += validate_lists(obj, self._node)
        if self._has_rules:
            errors += cel_rules.blocks(errors) or cel_rules.evaluate(
                self._node, whole, before, seconds=self._cel_seconds
            )
        return in_order(errors)

    def _status_errors(self, obj: Json, before: Correlated | None) -> list[FieldError]:
        if "status" not in obj:
            return []
        node = mapping(mapping(self._node.get("properties")).get("status"))
        errors = validate(node, obj["status"], before.field("status") if before else None)
        return [
            FieldError(
                error.reason,
                "status" if error.field == "<nil>" else f"status.{error.field}",
                error.detail,
                error.value,
            )
            for error in errors
        ]

    def _scale_errors(self, obj: Json, which: str) -> list[FieldError]:
        """Return the error of a number of replicas that the scale subresource shows."""
        if self._scale is None:
            return []
        path: tuple[str, ...] = getattr(self._scale, which)
        value: object = obj
        for part in path:
            value = mapping(value).get(part)
        where = "." + ".".join(path)
        if value is None:
            return []
        if isinstance(value, bool) or not isinstance(value, int):
            shown = f"{gotext.plain(value)} is of the type {gotext.type_name(value)}"
            problem = f"{where} accessor error: {shown}, expected int64"
            return [invalid(where, 0, problem)]
        if value < 0:
            return [invalid(where, value, "should be a non-negative integer")]
        if value > _REPLICAS_MAX:
            why = f"should be less than or equal to {_REPLICAS_MAX}"
            return [invalid(where, value, why)]
        return []

    def warnings(self, obj: Json, old: Json | None = None) -> list[str]:
        before = finalizers_of(old) if old is not None else []
        texts: list[str] = []
        for name in sorted(set(finalizers_of(obj)) - set(before)):
            complaints = list(names.qualified_name(name))
            if "/" not in name and name not in _STANDARD_FINALIZERS:
                path = " including a path (/)" if "." in name else ""
                complaints.append(
                    f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts "
                    "with other finalizer writers"
                )
            texts += [f'metadata.finalizers: "{name}": {why}' for why in complaints]
        return texts

    def open_api(self) -> Json:
        return self._node
