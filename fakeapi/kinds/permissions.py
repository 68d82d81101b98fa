"""ServiceAccounts, roles and role bindings.

Source: pkg/apis/rbac/{v1,validation} of Kubernetes v1.36.3.
"""

from __future__ import annotations

from typing import Final

from fakeapi.types import names
from fakeapi.types.columns import AGE, NAME, NAME_AND_AGE, Cell, Column, kind_and_name, wide
from fakeapi.types.errors import FieldError, invalid, not_supported, required
from fakeapi.types.kind import Kind, KindRules
from fakeapi.types.objects import Json, child, mapping, mappings, metadata_of, set_defaults, text

_GROUP: Final = "rbac.authorization.k8s.io"


def _set_role_defaults(role: Json) -> None:
    if role.get("rules") == []:  # upstream stores an empty list as null
        role["rules"] = None


def _set_binding_defaults(binding: Json) -> None:
    set_defaults(child(binding, "roleRef"), apiGroup=_GROUP)
    for subject in mappings(binding.get("subjects")):
        if subject.get("kind") in ("User", "Group"):
            set_defaults(subject, apiGroup=_GROUP)


def _validate_role(role: Json) -> list[FieldError]:
    why = "verbs must contain at least one value"
    rules = enumerate(mappings(role.get("rules")))
    return [required(f"rules[{i}].verbs", why) for i, rule in rules if not rule.get("verbs")]


def _validate_binding(binding: Json) -> list[FieldError]:
    reference = mapping(binding.get("roleRef"))
    kinds = ("Role", "ClusterRole") if metadata_of(binding).get("namespace") else ("ClusterRole",)
    errors = [] if reference.get("name") else [required("roleRef.name")]
    if reference.get("kind") not in kinds:
        errors.insert(0, not_supported("roleRef.kind", text(reference.get("kind")), kinds))
    return errors


def _validate_binding_update(new: Json, old: Json) -> list[FieldError]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]


def _subjects(kind: str) -> Cell:
    """Return a cell: the names of a role binding's subjects of one kind."""

    def cell(binding: Json, _now_seconds: float) -> str:
        subjects = [s for s in mappings(binding.get("subjects")) if s.get("kind") == kind]
        if kind == "ServiceAccount":
            names = [f"{text(s.get('namespace'))}/{text(s.get('name'))}" for s in subjects]
        else:
            names = [text(subject.get("name")) for subject in subjects]
        return ", ".join(names)

    return cell


_ROLE_RULES: Final = KindRules(
    check_name=names.path_segment, set_defaults=_set_role_defaults, validate=_validate_role
)
_BINDING_RULES: Final = KindRules(
    check_name=names.path_segment,
    set_defaults=_set_binding_defaults,
    validate=_validate_binding,
    validate_update=_validate_binding_update,
)
_BINDING_COLUMNS: Final = (
    NAME,
    Column("Role", ".roleRef", kind_and_name),
    AGE,
    wide("Users", _subjects("User")),
    wide("Groups", _subjects("Group")),
    wide("ServiceAccounts", _subjects("ServiceAccount")),
)

KINDS: Final = (
    Kind(
        "", "v1", "serviceaccounts", "ServiceAccount", schema="core/v1.ServiceAccount",
        short_names=("sa",), subresources=("token",), returns_deleted=True,
        columns=NAME_AND_AGE,
    ),
    *(
        Kind(
            _GROUP, "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"),
            schema=f"rbac/v1.{kind}", create_on_update=True,
            columns=_BINDING_COLUMNS if kind.endswith("Binding") else (),
            rules=_BINDING_RULES if kind.endswith("Binding") else _ROLE_RULES,
        )
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
)  # fmt: skip
