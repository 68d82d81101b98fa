"""ServiceAccounts, roles and role bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeapi.types.columns import AGE, NAME, NAME_AND_AGE, Column, wide
from fakeapi.types.kind import Kind
from fakeapi.types.objects import mapping, mappings, text

if TYPE_CHECKING:
    from fakeapi.types.columns import Cell
    from fakeapi.types.objects import Json

_GROUP: Final = "rbac.authorization.k8s.io"


def _role(reference: object) -> str:
    return f"{text(mapping(reference).get('kind'))}/{text(mapping(reference).get('name'))}"


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


_BINDING_COLUMNS: Final = (
    NAME,
    Column("Role", ".roleRef", _role),
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
        )
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
)  # fmt: skip
